//! A plan whose items several processes run writes to an address what one conversion writes to a file. Stores in memory last
//! as long as the process: here, threads stand for processes, each with a plan and a store of its own.

use ckpt::api::{DType, Limits};
use ckpt::{Commit, Conversion, Execution, ItemReceipt, Kind, Plan, Planned, Registry};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");

/// A conversion that accepts every loss, in small items.
fn everything(item_size: u64) -> Conversion {
    let mut policy = ckpt::Policy::default();
    policy.accept("all").unwrap();
    let resources = ckpt::Resources::new().item_size(item_size);
    Conversion::new().policy(policy).resources(resources)
}

fn unsynced() -> Execution {
    Execution::new().sync(false)
}

/// The text of a plan.
fn plan(conversion: &Conversion, source: &Path, output: &str) -> String {
    let registry = Registry::builtin();
    let source = ckpt::open(source).unwrap();
    conversion.plan(&registry, &source, output).unwrap().plan().to_json().unwrap()
}

/// The plan as a process has it that reads its text.
fn process(text: &str) -> Planned {
    let plan = Plan::from_bytes(text.as_bytes(), &Limits::default()).unwrap();
    Planned::resume(&Registry::builtin(), plan).unwrap()
}

fn receipts(text: &str, at: &str) -> ckpt::Result<Vec<ItemReceipt>> {
    let sha256 = process(text).plan().sha256()?;
    ItemReceipt::load_all(ckpt::store::open(at)?, &sha256, &Limits::default())
}

/// Runs items as a process of its own does, which keeps receipts at an address.
fn run(text: &str, items: Range<usize>, at: &str) -> ckpt::Result<usize> {
    let store = ckpt::store::open(at)?;
    let known = receipts(text, at)?;
    process(text).run_items(items, &known, &unsynced(), &|_| (), &|receipt| receipt.save(&*store))
}

fn commit(text: &str, at: &str) -> ckpt::Result<ckpt::Summary> {
    process(text).commit(&receipts(text, at)?, &Commit::new(), &unsynced())
}

/// The bytes of a file in a directory at an address.
fn content(directory: &str, name: &str) -> Vec<u8> {
    let input = ckpt::api::Input::within_store(ckpt::store::open(directory).unwrap(), "");
    let file = input.file(name).unwrap();
    file.bytes(0, file.len()).unwrap()
}

fn names(directory: &str) -> Vec<String> {
    let mut names = ckpt::store::open(directory).unwrap().list("", 999).unwrap();
    names.sort();
    names
}

/// Whether something is staged in a directory.
fn is_staged(directory: &str, name: &str) -> bool {
    // The address of the directory that the output's name gives.
    use sha2::{Digest, Sha256};
    let hash: String =
        Sha256::digest(name.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    ckpt::store::open(directory).unwrap().has_directory(&format!(".ckpt-{hash}"))
}

/// Numbers that look random, and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }
}

/// A safetensors file with this header and these numbers.
fn safetensors(header: &serde_json::Map<String, serde_json::Value>, numbers: &[f32]) -> Vec<u8> {
    let mut text = serde_json::to_vec(header).unwrap();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

/// A source of 45 MiB, in tensors from 4 bytes to 18 MiB.
fn large(directory: &Path) -> PathBuf {
    let sizes: Vec<usize> =
        (0..40).map(|number| 4 << (number % 12)).chain([18 << 20, 5 << 20, 22 << 20]).collect();
    let (mut header, mut start) = (serde_json::Map::new(), 0);
    for (number, size) in sizes.iter().enumerate() {
        let entry =
            serde_json::json!({ "dtype": "F32", "shape": [size / 4], "data_offsets": [start, start + size] });
        header.insert(format!("t{number}"), entry);
        start += size;
    }
    let numbers: Vec<f32> = (0..start / 4).map(|at| at as f32 / 7.0).collect();
    let path = directory.join("large.safetensors");
    fs::write(&path, safetensors(&header, &numbers)).unwrap();
    path
}

/// Runs all items in random groups by threads, some twice, and one by a process that dies; then commits.
fn runs_as_one(seed: u64, source: &Path, name: &str, conversion: &Conversion) {
    let place = tempfile::tempdir().unwrap();
    let local = ckpt::convert_with(source, place.path().join(name), conversion).unwrap();
    let (directory, at) = (format!("memory://items{seed}/out"), format!("memory://items{seed}/receipts"));
    let text = plan(conversion, source, &format!("{directory}/{name}"));
    let items = process(&text).plan().items().len();
    assert!(items > 5, "{name}: {items}");
    let mut numbers = Numbers(seed);
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    while start < items {
        let end = (start + 1 + numbers.below(items / 3)).min(items);
        groups.push(start..end);
        start = end;
    }
    // Repeated ones, and another order.
    groups.extend(
        (0..3).map(|_| numbers.below(items)).map(|start| start..items.min(start + 4)).collect::<Vec<_>>(),
    );
    (1..groups.len()).for_each(|number| groups.swap(number, numbers.below(number + 1)));
    let dies = process(&text).run_items(0..items / 2, &[], &unsynced(), &|_| (), &|_| {
        Err(ckpt::Error::usage("killed before it has told anybody"))
    });
    assert!(dies.is_err());
    let left = Mutex::new(groups);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(group) = { left.lock().unwrap().pop() } {
                    run(&text, group, &at).unwrap();
                }
            });
        }
    });
    assert_eq!(names(&directory), [""; 0], "{name}: nothing has a name yet");
    let summary = commit(&text, &at).unwrap();
    assert_eq!(summary.files.len(), local.files.len());
    for path in &local.files {
        let file = path.file_name().unwrap().to_str().unwrap();
        assert!(content(&directory, file) == fs::read(path).unwrap(), "{name}: {file}");
    }
    assert_eq!(names(&directory).len(), local.files.len());
    assert!(!is_staged(&directory, name));
}

#[test]
fn items_in_any_groups_by_many_processes_give_the_bytes_of_one_conversion() {
    let targets: [(&str, Conversion); 6] = [
        ("m.safetensors", everything(1 << 10)),
        ("m.safetensors", everything(1 << 10).set("shard_size", "8k")),
        ("ckpt-1", everything(1 << 10).to("tf2").set("shards", "3")),
        ("m.npz", everything(1 << 10)),
        ("m.gguf", everything(1 << 10)),
        ("m.safetensors", everything(1 << 10).dtype(DType::F16)),
    ];
    for (seed, (name, conversion)) in targets.into_iter().enumerate() {
        runs_as_one(seed as u64, Path::new(DIGITS), name, &conversion);
    }
}

#[test]
fn items_of_files_that_are_sent_in_parts_give_the_bytes_of_one_conversion() {
    let place = tempfile::tempdir().unwrap();
    let source = large(place.path());
    let targets: [(&str, Conversion); 5] = [
        ("m.safetensors", everything(3 << 20)),
        ("m.safetensors", everything(3 << 20).set("shard_size", "20m")),
        ("ckpt-1", everything(3 << 20).to("tf2").set("shards", "2")),
        ("m.npz", everything(3 << 20)),
        ("m.gguf", everything(3 << 20)),
    ];
    for (seed, (name, conversion)) in targets.into_iter().enumerate() {
        runs_as_one(100 + seed as u64, &source, name, &conversion);
    }
}

#[test]
fn a_commit_without_all_receipts_is_refused_and_keeps_what_was_written() {
    let (out, at) = ("memory://missing/out", "memory://missing/receipts");
    let text = plan(&everything(1 << 10), Path::new(DIGITS), "memory://missing/out/m.safetensors");
    assert_eq!(commit(&text, at).unwrap_err().message(), "no item of this plan has written anything yet");
    let items = process(&text).plan().items().len();
    run(&text, 1..items, at).unwrap();
    let error = commit(&text, at).unwrap_err();
    assert_eq!(error.message(), "some items of the plan have not run");
    assert!(names(out).is_empty() && is_staged(out, "m.safetensors"));
    assert_eq!(run(&text, 0..items, at).unwrap(), 1);
    commit(&text, at).unwrap();
    assert_eq!(names(out), ["m.safetensors"]);
    assert_eq!(commit(&text, at).unwrap_err().kind(), Kind::Usage);
}

#[test]
fn an_item_that_fails_keeps_the_receipts_of_those_that_are_finished() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("m.safetensors");
    // The last number is too large for the new dtype.
    let numbers: Vec<f32> = (0..16384).map(|at| if at == 16383 { f32::MAX } else { 1.0 }).collect();
    let entry = |number: usize| {
        let data = [number * 4096, (number + 1) * 4096];
        (
            format!("t{number:02}"),
            serde_json::json!({ "dtype": "F32", "shape": [1024], "data_offsets": data }),
        )
    };
    let header: serde_json::Map<_, _> = (0..16).map(entry).collect();
    fs::write(&source, safetensors(&header, &numbers)).unwrap();
    let conversion = everything(1 << 10).dtype(DType::F16);
    let text = plan(&conversion, &source, "memory://failing/out/m.safetensors");
    let items = process(&text).plan().items().len();
    assert_eq!(run(&text, 0..items, "memory://failing/receipts").unwrap_err().kind(), Kind::Lossy);
    let kept = receipts(&text, "memory://failing/receipts").unwrap().len();
    assert!(kept > 0 && kept < items, "{kept} of {items}");
    process(&text).discard().unwrap();
    assert!(names("memory://failing/out").is_empty() && !is_staged("memory://failing/out", "m.safetensors"));
}

#[test]
fn what_was_discarded_is_gone_and_its_receipts_are_worth_nothing() {
    let (out, at) = ("memory://gone/out", "memory://gone/receipts");
    let text = plan(&everything(1 << 10), Path::new(DIGITS), "memory://gone/out/m.npz");
    let items = process(&text).plan().items().len();
    run(&text, 0..items, at).unwrap();
    process(&text).discard().unwrap();
    assert!(names(out).is_empty() && !is_staged(out, "m.npz"));
    assert_eq!(process(&text).discard().unwrap_err().kind(), Kind::Usage);
    assert_eq!(run(&text, 0..1, at).unwrap(), 1);
    let error = commit(&text, at).unwrap_err();
    let help = error.context().help.unwrap();
    assert!(help.contains("receipts belong to another plan, or to files that no longer exist"), "{help}");
    assert_eq!(run(&text, 0..items, at).unwrap(), items - 1);
    commit(&text, at).unwrap();
    assert_eq!(names(out), ["m.npz"]);
}

#[test]
fn a_plan_whose_source_changed_or_whose_output_somebody_else_made_can_be_discarded() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("m.npz");
    ckpt::convert(DIGITS, &source).unwrap();
    let text = plan(&everything(1 << 10), &source, "memory://stuck/out/m.safetensors");
    run(&text, 0..2, "memory://stuck/receipts").unwrap();
    fs::write(&source, fs::read(&source).unwrap()).unwrap();
    ckpt::store::open("memory://stuck/out").unwrap().replace("m.safetensors", b"other").unwrap();
    Planned::discard_plan(
        &ckpt::Registry::builtin(),
        &Plan::from_bytes(text.as_bytes(), &Limits::default()).unwrap(),
    )
    .unwrap();
    assert!(!is_staged("memory://stuck/out", "m.safetensors"));
    assert_eq!(content("memory://stuck/out", "m.safetensors"), b"other");
}

#[test]
fn two_plans_cannot_write_one_output_at_once() {
    let (one, two) = (everything(1 << 10), everything(1 << 10).dtype(DType::F16));
    let [one, two] = [one, two].map(|it| plan(&it, Path::new(DIGITS), "memory://two/out/m.safetensors"));
    run(&one, 0..2, "memory://two/receipts").unwrap();
    let error = run(&two, 0..2, "memory://two/receipts").unwrap_err();
    assert_eq!(error.message(), "the items of another plan have written this output");
    process(&one).discard().unwrap();
    run(&two, 0..2, "memory://two/receipts").unwrap();
}

/// Runs all items of a conversion in memory, and commits it.
fn committed(name: &str, options: &Commit, execution: &Execution) -> ckpt::Result<ckpt::Summary> {
    let at = format!("memory://{name}/receipts");
    let text = plan(
        &everything(1 << 10).dtype(DType::F16),
        Path::new(DIGITS),
        &format!("memory://{name}/out/m.safetensors"),
    );
    run(&text, 0..process(&text).plan().items().len(), &at).unwrap();
    process(&text).commit(&receipts(&text, &at).unwrap(), options, execution)
}

#[test]
fn an_output_is_verified_after_the_commit() {
    let summary = committed("verified", &Commit::new().verify(true), &unsynced()).unwrap();
    let found = summary.verification.unwrap();
    assert!(found.after_commit && found.tensors == summary.tensors && !found.changed.is_empty(), "{found:?}");
    assert_eq!(names("memory://verified/out"), ["m.safetensors"]);
    assert!(!is_staged("memory://verified/out", "m.safetensors"));
    let place = tempfile::tempdir().unwrap();
    let alone =
        ckpt::convert_with(DIGITS, place.path().join("m.safetensors"), &everything(1 << 10).verify(true))
            .unwrap();
    assert!(!alone.verification.unwrap().after_commit);
}

#[test]
fn a_receipt_is_the_last_that_is_written_and_has_the_hashes_of_what_was_committed() {
    let place = tempfile::tempdir().unwrap();
    let local = place.path().join("r.json").to_str().unwrap().to_owned();
    for (name, receipt) in [("receipt0", "memory://receipt0/r.json"), ("receipt1", &local)] {
        let summary = committed(name, &Commit::new().receipt(receipt).verify(true), &unsynced()).unwrap();
        assert_eq!(summary.receipt.as_deref(), Some(Path::new(receipt)));
        assert_eq!(summary.files, [Path::new(&format!("memory://{name}/out/m.safetensors"))]);
        let text = match name {
            "receipt0" => content("memory://receipt0", "r.json"),
            _ => fs::read(receipt).unwrap(),
        };
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\"verification\""), "{text}");
        ckpt::receipt::check(&ckpt::Registry::builtin(), &text, None, &Default::default()).unwrap();
        let store = ckpt::store::open(&format!("memory://{name}/out")).unwrap();
        store.replace("m.safetensors", b"something else").unwrap();
        assert_eq!(
            ckpt::receipt::check(&ckpt::Registry::builtin(), &text, None, &Default::default())
                .unwrap_err()
                .kind(),
            Kind::Mismatch
        );
    }
}

#[test]
fn a_receipt_that_exists_stops_the_commit_before_it_names_anything() {
    ckpt::store::open("memory://receipt2").unwrap().replace("r.json", b"old").unwrap();
    let error =
        committed("receipt2", &Commit::new().receipt("memory://receipt2/r.json"), &unsynced()).unwrap_err();
    assert_eq!(error.message(), "the receipt exists");
    assert!(names("memory://receipt2/out").is_empty() && is_staged("memory://receipt2/out", "m.safetensors"));
}

#[test]
fn an_output_that_differs_after_the_commit_is_an_error_that_says_that_it_has_its_name() {
    let spoil = |phase| {
        if phase == ckpt::Phase::ReadBack {
            let mut bytes = content("memory://spoiled/out", "m.safetensors");
            *bytes.last_mut().unwrap() ^= 1;
            ckpt::store::open("memory://spoiled/out").unwrap().replace("m.safetensors", &bytes).unwrap();
        }
    };
    let options = Commit::new().verify(true).receipt("memory://spoiled/r.json");
    let error = committed("spoiled", &options, &unsynced().on_phase(spoil)).unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch, "{error}");
    assert!(
        error.context().help.unwrap().contains("the output has its name already: do not use it"),
        "{error}"
    );
    assert_eq!(names("memory://spoiled"), [""; 0], "no receipt");
}

#[test]
fn receipts_of_items_whose_bytes_are_gone_are_noticed() {
    let (out, at) = ("memory://holes/out", "memory://holes/receipts");
    let text = plan(&everything(1 << 10), Path::new(DIGITS), "memory://holes/out/m.safetensors");
    let items = process(&text).plan().items().len();
    run(&text, 0..items, at).unwrap();
    // Receipts survive in another place what somebody removes beside the output.
    let kept: Arc<Mutex<Vec<ItemReceipt>>> = Arc::default();
    kept.lock().unwrap().extend(receipts(&text, at).unwrap());
    process(&text).discard().unwrap();
    let again = "memory://holes/again";
    run(&text, 0..1, again).unwrap();
    let staging = receipts(&text, again).unwrap()[0].staging.clone();
    let forged: Vec<ItemReceipt> = kept
        .lock()
        .unwrap()
        .iter()
        .cloned()
        .map(|mut receipt| {
            receipt.staging = staging.clone();
            receipt
        })
        .collect();
    let error = process(&text).commit(&forged, &Commit::new(), &unsynced()).unwrap_err();
    assert_eq!(error.message(), "what an item wrote is gone, although it has a receipt");
    assert!(names(out).is_empty());
}

#[test]
fn many_receipts_are_read_from_an_address() {
    let at = "memory://many/receipts";
    let store = ckpt::store::open(at).unwrap();
    let text = plan(&everything(1 << 10), Path::new(DIGITS), "memory://many/out/m.safetensors");
    run(&text, 0..1, at).unwrap();
    let one = receipts(&text, at).unwrap().remove(0);
    for item in 0..1000 {
        let mut receipt = one.clone();
        receipt.item = item;
        receipt.save(&*store).unwrap();
    }
    let found = receipts(&text, at).unwrap();
    assert!(found.len() == 1000 && found.iter().enumerate().all(|(item, receipt)| receipt.item == item));
}
