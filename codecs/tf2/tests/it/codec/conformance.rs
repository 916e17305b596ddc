//! The conformance kit, on bundles of each kind.

use super::common::{Files, Layout, bundle, slice_key};
use ckpt_api::DType;
use ckpt_conformance::{Sample, check};

#[test]
fn the_codec_conforms_to_the_contract() {
    let layout = Layout { restart_interval: 2, entries_per_block: 3, snappy: false };
    let plain = bundle().floats("a/kernel", &[2, 2], &KERNEL).floats("b", &[2], &[5., 6.]);
    let many = (0..20u8)
        .fold(bundle(), |bundle, i| bundle.floats(&format!("layer{i:02}/bias"), &[1], &[f32::from(i)]));
    let snappy = Layout { snappy: true, ..layout };
    let strings = bundle().strings("s", &[3], &[b"one", b"", b"three"]).files("m");
    let variants = bundle().variants("v", &[2], &[b"\x0a\x01t", b"\x12\x02ab"]).files("m");
    let samples = [
        two("the prefix", "m", plain.files("m")),
        two("the index", "m.index", plain.files("m")),
        two("a data file", "m.data-00000-of-00001", plain.files("m")),
        two("a directory", "", plain.files("m")),
        two("a state file", "checkpoint", with_state(plain.files("m"))).rewritten(NO_STATE),
        two("a directory with a state file", "", with_state(plain.files("m"))).rewritten(NO_STATE),
        two("a SavedModel", "", plain.files("variables/variables")).rewritten("variables alone are written"),
        biases("many blocks", many.clone().layout(layout).files("m")),
        biases("snappy", many.layout(snappy).files("m")),
        sample("strings", "m", strings).tensor("s", DType::String, &[3], b"onethree"),
        sample("variants", "m", variants).tensor("v", DType::Variant, &[2], b"\x0a\x01t\x12\x02ab"),
        sample("big-endian", "m", big_endian()).tensor("s", DType::String, &[1], b"text").tensor(
            "t",
            DType::I16,
            &[2],
            [1, 0, 2, 0],
        ),
        sample("slices", "m", slices()).tensor("v", DType::U8, &[2, 2], [1, 2, 3, 4]),
    ];
    check(&ckpt_tf2::Tf2, &samples);
}

const NO_STATE: &str = "a state file is the training program's";
const KERNEL: [f32; 4] = [1., 2., 3., 4.];

fn sample(name: &'static str, entry: &str, files: Files) -> Sample {
    let data = files.keys().find(|file| file.contains(".data-")).cloned().unwrap_or_default();
    Sample::new(name, entry, files)
        .written_as("m")
        .open_ended(&data, "the index names every byte that counts")
        .open_ended("checkpoint", "of a state file, one line counts")
}

fn two(name: &'static str, entry: &str, files: Files) -> Sample {
    sample(name, entry, files).floats("a/kernel", &[2, 2], &KERNEL).floats("b", &[2], &[5., 6.])
}

fn biases(name: &'static str, files: Files) -> Sample {
    (0..20u8).fold(sample(name, "m", files), |sample, i| {
        sample.floats(&format!("layer{i:02}/bias"), &[1], &[f32::from(i)])
    })
}

fn with_state(mut files: Files) -> Files {
    files.insert("checkpoint".to_owned(), b"model_checkpoint_path: \"m\"".to_vec());
    files
}

fn big_endian() -> Files {
    bundle().big_endian().strings("s", &[1], &[b"text"]).tensor("t", 5, &[2], &[0, 1, 0, 2]).files("m")
}

fn slices() -> Files {
    let (left, right) = ([(0, 2), (0, 1)], [(0, 2), (1, 1)]);
    bundle()
        .partitioned("v", 4, &[2, 2], &[&left, &right])
        .tensor(slice_key("v", &left), 4, &[2, 1], &[1, 3])
        .tensor(slice_key("v", &right), 4, &[2, 1], &[2, 4])
        .files("m")
}
