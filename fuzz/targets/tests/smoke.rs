//! Runs every target, without a sanitizer, over the seeds and a few mutations of these.
//!
//! `CKPT_FUZZ_SEEDS` names a folder, relative to the repository's root, that has more inputs in `TARGET/`: `fuzz/seed.sh`
//! makes it. What is run depends on nothing but the inputs, so that a failure comes again.

#[path = "smoke/mutate.rs"]
mod mutate;
#[path = "smoke/watch.rs"]
mod watch;

use ckpt_fuzz_targets::{TARGETS, Target, seeds};
use mutate::{Random, mutated};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use watch::Watch;

static SEEDS: LazyLock<seeds::Seeds> =
    LazyLock::new(|| seeds::all().unwrap_or_else(|error| panic!("the seeds cannot be made: {error}")));

/// A test for each target: how many seeds it has at least, and how many mutations of these are run.
macro_rules! smoke {
    ($($name:ident: $seeds:literal seeds, $mutations:literal mutations;)*) => {
        $(#[test]
        fn $name() {
            smoke(stringify!($name), $seeds, $mutations);
        })*

        #[test]
        fn every_target_has_a_test() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

// Fewer mutations where an input takes a debug build more than a millisecond.
smoke! {
    arch: 32 seeds, 2000 mutations;
    bullet_files: 53 seeds, 2000 mutations;
    bullet_read: 97 seeds, 2000 mutations;
    bullet_round_trip: 64 seeds, 500 mutations;
    caffe_files: 40 seeds, 2000 mutations;
    cnn2_read: 51 seeds, 2000 mutations;
    cnn2_round_trip: 64 seeds, 500 mutations;
    coreml_files: 76 seeds, 2000 mutations;
    coreml_read: 150 seeds, 2000 mutations;
    darknet_files: 32 seeds, 2000 mutations;
    flax_read: 22 seeds, 2000 mutations;
    forward: 57 seeds, 2000 mutations;
    gguf_read: 64 seeds, 2000 mutations;
    gguf_round_trip: 64 seeds, 2000 mutations;
    graph_write: 192 seeds, 2000 mutations;
    hdf5_read: 65 seeds, 2000 mutations;
    keras_config: 66 seeds, 2000 mutations;
    keras_read: 77 seeds, 2000 mutations;
    mapping: 29 seeds, 2000 mutations;
    mxnet_read: 38 seeds, 2000 mutations;
    nn_read: 49 seeds, 2000 mutations;
    nn_round_trip: 64 seeds, 2000 mutations;
    nnue_read: 17 seeds, 500 mutations;
    npz_read: 77 seeds, 2000 mutations;
    npz_round_trip: 64 seeds, 2000 mutations;
    onnx_read: 39 seeds, 2000 mutations;
    orbax_files: 71 seeds, 2000 mutations;
    orbax_manifest: 60 seeds, 2000 mutations;
    orbax_node: 60 seeds, 2000 mutations;
    orbax_zarr: 20 seeds, 2000 mutations;
    paddle_read: 40 seeds, 2000 mutations;
    plan: 64 seeds, 2000 mutations;
    plugin_answers: 100 seeds, 2000 mutations;
    probe: 990 seeds, 2000 mutations;
    safetensors_files: 47 seeds, 2000 mutations;
    safetensors_peer: 106 seeds, 2000 mutations;
    safetensors_read: 53 seeds, 2000 mutations;
    safetensors_round_trip: 64 seeds, 2000 mutations;
    tf1_read: 50 seeds, 2000 mutations;
    tf2_entries: 70 seeds, 2000 mutations;
    tf2_files: 95 seeds, 2000 mutations;
    tf2_read: 89 seeds, 2000 mutations;
    tf2_round_trip: 64 seeds, 2000 mutations;
    tf2_saved_model: 64 seeds, 500 mutations;
    tf2_table: 153 seeds, 2000 mutations;
    tfjs_files: 48 seeds, 2000 mutations;
    tflite_read: 46 seeds, 2000 mutations;
    torch7_read: 54 seeds, 2000 mutations;
    torch_directories: 32 seeds, 2000 mutations;
    torch_read: 163 seeds, 2000 mutations;
    transform: 64 seeds, 2000 mutations;
}

#[test]
fn every_file_of_a_target_is_in_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/target");
    let files = seeds::files(&folder).expect("the folder");
    let stems = files.iter().filter_map(|path| path.file_stem()?.to_str()).filter(|stem| *stem != "mod");
    assert_eq!(stems.collect::<Vec<_>>(), TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
    assert_eq!(TARGETS.len(), 51);
}

#[test]
fn the_same_number_gives_the_same_mutation() {
    let once = || mutated(&mut Random::new("nn_read", 7), b"some bytes", b"others");
    assert_eq!(once(), once());
    let different: std::collections::BTreeSet<_> = (0..100)
        .map(|number| mutated(&mut Random::new("nn_read", number), b"some bytes", b"others"))
        .collect();
    assert!(different.len() > 50, "{} of 100", different.len());
}

fn smoke(name: &str, least: usize, mutations: usize) {
    let target = Target::named(name).expect("a target with this name");
    let mut inputs = SEEDS[name].clone();
    assert!(inputs.len() >= least, "{name} has {} seeds, fewer than {least}", inputs.len());
    if let Some(folder) = std::env::var_os("CKPT_FUZZ_SEEDS") {
        more(&seeds::root().join(folder).join(name), &mut inputs);
    }
    let watch = Watch::over(target.name);
    for (input, bytes) in &inputs {
        run(target, input.clone(), bytes, &watch);
    }
    let inputs: Vec<_> = inputs.iter().collect();
    for number in 0..mutations {
        let mut random = Random::new(name, number);
        let (input, bytes) = inputs[random.below(inputs.len())];
        let (_, other) = inputs[random.below(inputs.len())];
        run(target, format!("{input}, mutation {number}"), &mutated(&mut random, bytes, other), &watch);
    }
}

/// Adds the files of a folder.
fn more(folder: &Path, inputs: &mut BTreeMap<String, Vec<u8>>) {
    let files = seeds::files(folder)
        .unwrap_or_else(|error| panic!("CKPT_FUZZ_SEEDS: {error}; fuzz/seed.sh makes it"));
    assert!(!files.is_empty(), "CKPT_FUZZ_SEEDS: nothing in {}", folder.display());
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        inputs.insert(name, seeds::bytes(&path).expect("a file that was listed"));
    }
}

/// Runs the target; if it panics, says over what, and keeps that for `cargo fuzz`.
fn run(target: &Target, input: String, bytes: &[u8], watch: &Watch) {
    watch.begins(input.clone());
    let result = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    watch.ends();
    let Err(panic) = result else { return };
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{} {input}", target.name).replace([' ', ','], "_"));
    let kept = match std::fs::write(&kept, bytes) {
        Ok(()) => format!("the {} bytes are in {}", bytes.len(), kept.display()),
        Err(error) => format!("the {} bytes are not kept: {error}", bytes.len()),
    };
    eprintln!("target {} panics over {input}; {kept}", target.name);
    resume_unwind(panic);
}
