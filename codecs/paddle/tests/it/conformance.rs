//! The kit's checks, on the corpus, which plain Python makes.

use ckpt_conformance::{Sample, check};
use ckpt_paddle::Paddle;
use std::fs;
use std::path::Path;

fn sample(name: &'static str, ending: &str) -> Sample {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/paddle/accept");
    let bytes = fs::read(path.join(format!("{name}.{ending}"))).unwrap();
    let file = format!("m.{ending}");
    Sample::new(name, &file, [(file.clone(), bytes)].into())
}

/// The first record of a file with two.
fn first_record() -> Sample {
    let mut sample = sample("records", "pdiparams");
    sample.files.values_mut().for_each(|bytes| bytes.truncate(50));
    sample
}

/// The values of the matrix that the corpus has everywhere.
fn ramp() -> Vec<f32> {
    (0..6u8).map(|index| (f32::from(index) - 3.0) / 8.0).collect()
}

#[test]
fn the_codec_keeps_the_contract() {
    let samples = [
        sample("dict", "pdparams").floats("0.weight", &[2, 3], &ramp()).floats(
            "0.bias",
            &[3],
            &[1.0, 2.0, 3.0],
        ),
        // Of two records, the first alone is a file, too.
        first_record().floats("0", &[2, 3], &ramp()),
    ];
    check(&Paddle, &samples);
}
