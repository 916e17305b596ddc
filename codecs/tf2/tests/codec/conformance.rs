//! The conformance kit, on bundles of each kind.

use crate::common::{Files, Layout, bundle, slice_key};
use ckpt_api::conformance::{Sample, check};

#[test]
fn the_codec_conforms_to_the_contract() {
    let layout = Layout { restart_interval: 2, entries_per_block: 3, snappy: false };
    let plain = bundle().floats("a/kernel", &[2, 2], &[1., 2., 3., 4.]).floats("b", &[2], &[5., 6.]);
    let many = (0..20u8)
        .fold(bundle(), |bundle, i| bundle.floats(&format!("layer{i:02}/bias"), &[1], &[f32::from(i)]));
    let snappy = Layout { snappy: true, ..layout };
    let samples = [
        Sample::new("the prefix", "m", plain.files("m")),
        Sample::new("the index", "m.index", plain.files("m")),
        Sample::new("a data file", "m.data-00000-of-00001", plain.files("m")),
        Sample::new("a directory", "", plain.files("m")),
        Sample::new("a state file", "checkpoint", with_state(plain.files("m"))),
        Sample::new("a directory with a state file", "", with_state(plain.files("m"))),
        Sample::new("a SavedModel", "", plain.files("variables/variables")),
        Sample::new("many blocks", "m", many.clone().layout(layout).files("m")),
        Sample::new("snappy", "m", many.layout(snappy).files("m")),
        Sample::new("strings", "m", bundle().strings("s", &[3], &[b"one", b"", b"three"]).files("m")),
        Sample::new("variants", "m", bundle().variants("v", &[2], &[b"\x0a\x01t", b"\x12\x02ab"]).files("m")),
        Sample::new("big-endian", "m", big_endian()),
        Sample::new("slices", "m", slices()),
    ];
    let samples = samples.map(|sample| sample.with_output("m".to_owned()));
    check(&ckpt_tf2::Tf2, &samples);
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
