//! What strangers may do with a file: no input takes much memory or time, whatever it claims.

use crate::common::confined::{self, MIB, ckpt, said};
use crate::common::corpus::manifest;
use std::fs;
use std::time::{Duration, Instant};

/// What reading a hostile file may map, beyond what the program maps anyway.
const FEW: u64 = 6 * MIB;
const SHORT: Duration = Duration::from_secs(1);

#[test]
fn every_file_of_the_corpus_that_is_refused_is_so_in_little_memory_and_time() {
    let manifest = manifest();
    let refused = manifest.iter().filter(|case| case.outcome == "reject");
    let (mut seen, mut failures) = (0, Vec::new());
    // So that finding it does not count as the first file's time.
    confined::base();
    for case in refused {
        let path = case.named();
        let path = path.to_str().unwrap();
        let options = case.options.iter().flat_map(|option| ["--set", option]);
        let named: Vec<&str> = ["hash", path, "--from", &case.codec].into_iter().chain(options).collect();
        // Of what is not said to be of a format, every codec is asked.
        for (arguments, kind) in [(&named[..], case.kind.as_deref()), (&["inspect", path], None)] {
            failures.extend(refusal(arguments, kind).err());
        }
        seen += 1;
    }
    assert!(seen >= 264, "{seen} files");
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn small_files_that_claim_much_take_little_memory_and_time() {
    // An index of no tensors, whose header counts 65,536 data files.
    let index = "000008088080041a020801000000000100000000a12ef9ac000000000100000000c0f2a1b000000200130000000001000000\
         004ddd025b1808250d00000000000000000000000000000000000000000000000000000000000000000000000057fb808b24\
         7547db";
    let index = (0..index.len() / 2).map(|k| u8::from_str_radix(&index[2 * k..][..2], 16).unwrap());
    let mut directory = b"PK\x05\x06\0\0\0\0".to_vec();
    directory.extend([0xff; 8]);
    directory.extend([0, 0, 0, 0, 0, 0]);
    let stars = format!("identity = true\nignore = ['{}b']\n", "**a".repeat(32));
    let captures: String = (0..32).map(|k| format!("{{c{k}:path}}")).collect();
    let captures = format!("[[rule]]\nfrom = '{captures}'\nto = 'x'\ninverse = false\n");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let files = [
        ("m.index", index.collect()),
        ("claims.npz", directory),
        ("deep.json", "[".repeat(2000).into_bytes()),
        ("dots.toml", format!("{}a = 1", "a.".repeat(2000)).into_bytes()),
        ("stars.toml", stars.into_bytes()),
        ("captures.toml", captures.into_bytes()),
    ];
    for (name, bytes) in &files {
        fs::write(path(name), bytes).unwrap();
    }
    let long = "a/".repeat(2000) + "a";
    let runs: [(&[&str], Option<&str>); 7] = [
        (&["inspect", &path("m")], None),
        (&["convert", &path("m"), &path("x.npz"), "--allow", "all", "--no-sync"], None),
        (&["inspect", &path("claims.npz"), "--from", "npz"], Some("corrupt")),
        (&["inspect", &path("m"), "--arch", &path("deep.json")], Some("usage")),
        (&["inspect", &path("m"), "--arch", &path("dots.toml")], Some("usage")),
        (&["map", "explain", &path("stars.toml"), &long], None),
        (&["map", "explain", &path("captures.toml"), &long], None),
    ];
    confined::base();
    let failures: Vec<String> = runs.iter().filter_map(|(run, kind)| refusal(run, *kind).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn many_small_parts_take_memory_in_proportion_to_their_number() {
    let nn = |json: &str| {
        let mut bytes = b"DATACODE\x01\0\0\0".to_vec();
        bytes.extend((json.len() as u32).to_le_bytes());
        bytes.extend(json.as_bytes());
        bytes.extend([0; 4]);
        bytes
    };
    let layers = [r#"{"type":"ReLU"}"#; 100_000].join(",");
    let objects = [r#"{"":0}"#; 100_000].join(",");
    let records = (0..100_000).flat_map(|number| {
        [format!("{number:x}\n").as_bytes(), &1u64.to_le_bytes(), &1f32.to_le_bytes()].concat()
    });
    // 100,000 parts each, with the bytes that each part may take.
    let files = [
        ("layers.nn", nn(&format!(r#"{{"layers":[{layers}]}}"#)), 640),
        ("unknown.nn", nn(&format!(r#"{{"layers":[{{"type":"ReLU"}}],"own":[{objects}]}}"#)), 160),
        ("in_layer.nn", nn(&format!(r#"{{"layers":[{{"type":"ReLU","own":[{objects}]}}]}}"#)), 160),
        (
            "stages.nn",
            nn(&format!(r#"{{"layers":[{{"type":"ReLU"}}],"training":{{"stages":[{objects}]}}}}"#)),
            160,
        ),
        ("weights.bin", records.collect(), 1200),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, each) in files {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let output = ckpt(each * 100_000, &["inspect", path.to_str().unwrap()]);
        assert!(output.status.success(), "{name}: {} {}", output.status, said(&output));
    }
}

/// The program must end by itself, in time, and where `kind` is given with this kind of error.
fn refusal(arguments: &[&str], kind: Option<&str>) -> Result<(), String> {
    let arguments = [arguments, &["--format", "json"]].concat();
    let run = || {
        let started = Instant::now();
        (ckpt(FEW, &arguments), started.elapsed())
    };
    // The machine may have had something else to do.
    let (output, taken) = (0..4).fold(run(), |best, _| if best.1 > SHORT { run() } else { best });
    let error = said(&output);
    let found = serde_json::from_str::<serde_json::Value>(&error);
    let found = found.ok().and_then(|error| Some(error["error"]["kind"].as_str()?.to_owned()));
    match (output.status.code(), kind, found) {
        (None | Some(101), ..) => Err(format!("{arguments:?} ended with {}: {error}", output.status)),
        _ if taken > SHORT => Err(format!("{arguments:?} took {taken:?}")),
        (_, Some(kind), found) if found.as_deref() != Some(kind) => {
            Err(format!("{arguments:?} gives {found:?} instead of {kind}: {error}"))
        }
        _ => Ok(()),
    }
}
