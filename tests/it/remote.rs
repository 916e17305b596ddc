//! Checkpoints at addresses: every command takes them, and the bytes are those that files would have.

use ckpt::Kind;
use ckpt::store::RemoteStore;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");

/// A conversion that accepts every loss.
fn everything() -> ckpt::Conversion {
    let mut policy = ckpt::Policy::default();
    policy.accept("all").unwrap();
    ckpt::Conversion::new().policy(policy)
}

/// The bytes at an address.
fn content(address: &str) -> Vec<u8> {
    let place = RemoteStore::at(address).unwrap();
    let file = ckpt::IntoInput::into_input(place, ckpt::Registry::builtin().addresses(), &Default::default())
        .unwrap()
        .main()
        .unwrap();
    file.bytes(0, file.len()).unwrap()
}

#[test]
fn an_output_at_an_address_has_the_bytes_of_a_file() {
    let place = tempfile::tempdir().unwrap();
    for (number, name) in ["m.safetensors", "m.npz"].into_iter().enumerate() {
        let local = place.path().join(name);
        let address = format!("memory://bytes{number}/a/b/{name}");
        for receipt in [false, true] {
            let mut conversion = everything().verify(true).overwrite(receipt);
            conversion.receipt = receipt.then(|| format!("memory://bytes{number}/r.json").into());
            let summary = ckpt::convert_with(DIGITS, address.as_str(), &conversion).unwrap();
            assert_eq!(summary.files, [Path::new(&address)]);
            if !receipt {
                ckpt::convert_with(DIGITS, &local, &everything()).unwrap();
            }
            assert!(content(&address) == fs::read(&local).unwrap(), "{name}");
        }
        let receipt = String::from_utf8(content(&format!("memory://bytes{number}/r.json"))).unwrap();
        assert!(receipt.contains(&format!("\"directory\": \"memory://bytes{number}/a/b\"")), "{receipt}");
        ckpt::receipt::check(&ckpt::Registry::builtin(), &receipt, None, &Default::default()).unwrap();
        let outside = ckpt::receipt::check(
            &ckpt::Registry::builtin(),
            &receipt,
            Some(place.path()),
            &Default::default(),
        )
        .unwrap_err();
        assert_eq!(outside.kind(), Kind::Usage);
    }
}

#[test]
fn a_set_with_an_index_and_a_prefix_are_written_and_read_at_addresses() {
    let place = tempfile::tempdir().unwrap();
    for (to, name) in [("safetensors", "m.safetensors"), ("tf2", "ckpt-1")] {
        let conversion = everything().to(to).set("shard_size", "8k");
        let address = format!("memory://sets/{to}/{name}");
        let remote = ckpt::convert_with(DIGITS, address.as_str(), &conversion).unwrap();
        let local = ckpt::convert_with(DIGITS, place.path().join(name), &conversion).unwrap();
        assert!(remote.files.len() > 2 && remote.files.len() == local.files.len());
        for (remote, local) in remote.files.iter().zip(&local.files) {
            assert!(content(remote.to_str().unwrap()) == fs::read(local).unwrap(), "{}", remote.display());
        }
        let index = remote.files.last().unwrap().to_str().unwrap();
        let source = ckpt::open(index.strip_suffix(".index").unwrap_or(index)).unwrap();
        assert!(source.format() == to && source.tensors().len() > 10);
    }
}

#[test]
fn a_source_that_changes_while_it_is_converted_is_refused() {
    ckpt::convert(DIGITS, "memory://changing/in.safetensors").unwrap();
    let registry = ckpt::Registry::builtin();
    let source = ckpt::open("memory://changing/in.safetensors").unwrap();
    let planned = ckpt::Conversion::new().plan(&registry, &source, "memory://changing/out.npz").unwrap();
    let bytes = content("memory://changing/in.safetensors");
    let store = ckpt::store::open("memory://changing").unwrap();
    store.replace("in.safetensors", &bytes).unwrap();
    let error = planned.execute(&Default::default(), &|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    assert!(!store.has("out.npz"));
}

#[test]
fn a_plan_keeps_addresses_and_runs_from_them() {
    ckpt::convert(DIGITS, "memory://plans/in.safetensors").unwrap();
    let registry = ckpt::Registry::builtin();
    let source = ckpt::open("memory://plans/in.safetensors").unwrap();
    let planned = ckpt::Conversion::new().plan(&registry, &source, "memory://plans/out.npz").unwrap();
    let text = planned.plan().to_json().unwrap();
    assert!(text.contains("memory://plans"));
    let plan = ckpt::Plan::from_bytes(text.as_bytes(), &Default::default()).unwrap();
    let planned = ckpt::Planned::resume(&registry, plan).unwrap();
    planned.execute(&Default::default(), &|_| ()).unwrap();
    assert!(ckpt::open("memory://plans/out.npz").is_ok());
}

/// Serves a directory by HTTP, with ranges; notes the headers of each request.
fn serve(directory: &Path) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (root, seen) = (directory.to_owned(), Arc::<Mutex<Vec<String>>>::default());
    let noted = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (root, noted) = (root.clone(), noted.clone());
            std::thread::spawn(move || {
                let mut head = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while reader.read_line(&mut head).unwrap_or(0) > 2 {}
                noted.lock().unwrap().push(head.clone());
                let path =
                    head.split_whitespace().nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
                let closed = "Connection: close\r\n";
                let Ok(bytes) = fs::read(root.join(path.trim_start_matches('/'))) else {
                    return write!(stream, "HTTP/1.1 404 None\r\n{closed}Content-Length: 0\r\n\r\n");
                };
                let range = head.lines().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned)
                });
                let Some(range) = range else {
                    write!(stream, "HTTP/1.1 200 Whole\r\n{closed}Content-Length: {}\r\n\r\n", bytes.len())?;
                    return stream.write_all(&bytes);
                };
                let (start, end) = range.trim().split_once('-').unwrap();
                let (start, end) =
                    (start.parse::<usize>().unwrap(), end.parse::<usize>().unwrap().min(bytes.len() - 1));
                let (len, all) = (end + 1 - start, bytes.len());
                write!(
                    stream,
                    "HTTP/1.1 206 Part\r\n{closed}ETag: \"x\"\r\nContent-Range: bytes {start}-{end}/{all}\r\nContent-Length: {len}\r\n\r\n"
                )?;
                stream.write_all(&bytes[start..=end])
            });
        }
    });
    (address, seen)
}

fn ckpt(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt"));
    command.current_dir(directory).args(arguments).env("HF_TOKEN", "hf_secret_of_the_test").output().unwrap()
}

fn succeeds(directory: &Path, arguments: &[&str]) -> String {
    let output = ckpt(directory, arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn every_command_that_reads_takes_an_address() {
    let place = tempfile::tempdir().unwrap();
    succeeds(place.path(), &["convert", DIGITS, "m.safetensors", "-q"]);
    let (address, _) = serve(place.path());
    let at = format!("{address}/m.safetensors");
    succeeds(place.path(), &["inspect", &at]);
    succeeds(place.path(), &["show", &at, "digits/hidden/bias"]);
    succeeds(place.path(), &["diff", &at, "m.safetensors"]);
    succeeds(place.path(), &["convert", &at, "again.safetensors", "-q"]);
    assert!(
        fs::read(place.path().join("again.safetensors")).unwrap()
            == fs::read(place.path().join("m.safetensors")).unwrap()
    );
    let hash =
        |path: &str| succeeds(place.path(), &["hash", path]).split_whitespace().next().unwrap().to_owned();
    assert_eq!(hash(&at), hash("m.safetensors"));
    let error = ckpt(place.path(), &["inspect", &format!("{address}/none.npz")]);
    assert!(String::from_utf8_lossy(&error.stderr).contains(&format!("{address}/none.npz")));
    let error = ckpt(place.path(), &["convert", "m.safetensors", &at]);
    assert!(String::from_utf8_lossy(&error.stderr).contains("can be read, but not written"));
}

#[test]
fn a_plan_is_written_to_an_address_of_this_machine_and_replaced_only_with_force() {
    let place = tempfile::tempdir().unwrap();
    let file = format!("file://{}/plan.json", place.path().display());
    let arguments = ["plan", DIGITS, "o.safetensors", "--output", &file];
    succeeds(place.path(), &arguments);
    assert!(fs::read_to_string(place.path().join("plan.json")).unwrap().starts_with('{'));
    let again = ckpt(place.path(), &arguments);
    assert!(String::from_utf8_lossy(&again.stderr).contains("the output exists"));
    succeeds(place.path(), &[&arguments[..], &["--force"]].concat());
    succeeds(place.path(), &["run-plan", &file, "--receipts", "receipts"]);
}

#[test]
fn an_address_of_this_machine_is_a_path() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().display().to_string();
    succeeds(place.path(), &["convert", DIGITS, &format!("file://{path}/a%20b.safetensors"), "-q"]);
    assert!(place.path().join("a b.safetensors").is_file());
    succeeds(place.path(), &["inspect", &format!("file://localhost{path}/a b.safetensors")]);
}

#[test]
fn no_output_shows_a_token_or_a_signature_and_plans_keep_none() {
    let place = tempfile::tempdir().unwrap();
    succeeds(place.path(), &["convert", DIGITS, "m.safetensors", "-q"]);
    let (address, seen) = serve(place.path());
    for folder in ["api/models/o/r/revision", "o/r/resolve/abc"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
    }
    fs::write(place.path().join("api/models/o/r/revision/main"), r#"{"sha":"abc"}"#).unwrap();
    fs::copy(place.path().join("m.safetensors"), place.path().join("o/r/resolve/abc/m.safetensors")).unwrap();
    let set = format!("endpoint={address}");
    let arguments = [
        "convert",
        "hf://o/r/m.safetensors",
        "out.npz",
        "--allow",
        "all",
        "--verbose",
        "--receipt",
        "r.json",
        "--store-set",
        &set,
    ];
    let mut text = succeeds(place.path(), &arguments);
    text += &fs::read_to_string(place.path().join("r.json")).unwrap();
    let plan = ["plan", "hf://o/r/m.safetensors", "o.npz", "--output", "plan.json", "--store-set", &set];
    succeeds(place.path(), &plan);
    text += &fs::read_to_string(place.path().join("plan.json")).unwrap();
    let signed = format!("{address}/m.safetensors?X-Amz-Signature=signed_secret");
    text += &succeeds(place.path(), &["inspect", &signed, "--verbose"]);
    text += &String::from_utf8_lossy(
        &ckpt(place.path(), &["inspect", &format!("{address}/none?sig=signed_secret")]).stderr,
    );
    assert!(!text.contains("hf_secret") && !text.contains("signed_secret"), "{text}");
    assert!(seen.lock().unwrap().iter().any(|head| head.contains("Bearer hf_secret_of_the_test")));
    assert!(text.contains("hf://o/r"));
}

#[test]
fn a_secret_on_the_command_line_is_refused() {
    let output =
        ckpt(Path::new(ROOT), &["inspect", "s3://bucket/m.npz", "--store-set", "secret_access_key=word"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("a secret cannot be an option") && !text.contains("word"), "{text}");
    assert_eq!(output.status.code(), Some(2), "{text}");
}
