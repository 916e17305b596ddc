//! The kit's checks, on the corpus, which plain Python makes.

use ckpt_api::DType;
use ckpt_conformance::{Sample, check};
use ckpt_tflite::Tflite;
use std::fs;
use std::path::Path;

fn sample(name: &'static str) -> Sample {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tflite/accept");
    let bytes = fs::read(path.join(format!("{name}.tflite"))).unwrap();
    Sample::new(name, "m.tflite", [("m.tflite".to_owned(), bytes)].into())
        .open_ended("m.tflite", "metadata may follow the FlatBuffer")
        .sharing("tensors may share a buffer")
}

/// The values of the matrix that the corpus has everywhere.
fn ramp() -> Vec<f32> {
    (0..15u8).map(|index| (f32::from(index) - 7.5) / 8.0).collect()
}

const INTEGERS: [u8; 6] = [0, 1, 127, 128, 255, 7];

fn dense(name: &'static str) -> Sample {
    sample(name).floats("kernel", &[3, 5], &ramp()).floats("bias", &[3], &[0.5, -1.0, 2.0])
}

#[test]
fn the_codec_keeps_the_contract() {
    let samples = [
        dense("dense").metadata("tflite", "description", "by hand"),
        sample("buffer_behind").floats("w", &[3], &[0.5, -1.0, 2.0]),
        sample("quantized")
            .tensor("channel", DType::I8, &[3, 2], INTEGERS)
            .tensor("whole", DType::U8, &[6], INTEGERS)
            .tensor("plain", DType::U8, &[2, 3], INTEGERS)
            .tensor("zeros", DType::I8, &[2, 3], INTEGERS),
        sample("small_integers").tensor("four", DType::I4, &[5], [1, 2, 8, 15, 5]).tensor(
            "two",
            DType::I2,
            &[2, 3],
            [3, 2, 1, 0, 2, 3],
        ),
    ];
    check(&Tflite, &samples);
}
