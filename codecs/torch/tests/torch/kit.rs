//! The kit's checks on one sample of every sort.

use ckpt_api::{Checkpoint, DType, Shape, Tensor};
use ckpt_conformance::{Sample, check, write};
use ckpt_torch::Torch;

const MATRIX: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
const IGNORED: &str =
    "versions, flags, paddings and the id of an archive mean nothing; write/tests.rs compares all bytes";

/// Two tensors, written with these options.
fn sample(name: &'static str, output: &str, entry: &str, options: &[(&str, &str)]) -> Sample {
    let tensors = vec![
        Tensor::new("w", DType::F32, Shape::new([2, 3]).unwrap()),
        Tensor::new("b.s", DType::I64, Shape::scalar()),
    ];
    let values =
        [MATRIX.iter().flat_map(|number| number.to_le_bytes()).collect(), 7i64.to_le_bytes().to_vec()];
    let checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
    let owned: Vec<(String, String)> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let mut files = write(&Torch, &checkpoint, &values, output, &owned).unwrap();
    // Without its last line break, whose absence would be no damage.
    for index in files.values_mut().filter(|file| file.ends_with(b"}\n")) {
        index.pop();
    }
    let names: Vec<String> = files.keys().cloned().collect();
    let mut sample = Sample::new(name, entry, files)
        .floats("w", &[2, 3], &MATRIX)
        .tensor("b.s", DType::I64, &[], 7i64.to_le_bytes())
        .aligned(64);
    for (key, value) in options {
        sample = sample.writing(key, value);
    }
    for name in names {
        if !name.ends_with(".json") {
            sample = sample.open_ended(&name, "PyTorch ignores what follows the end of an archive");
        }
        sample = sample.ignoring(&name, .., IGNORED);
    }
    sample
}

#[test]
fn the_codec_keeps_the_contract() {
    let samples = [
        sample("a state dict", "m.pt", "m.pt", &[]),
        sample("a set", "m.bin", "m.bin.index.json", &[("shard_size", "24")])
            .written_as("m.bin")
            .rewritten("an index ends with a line break"),
    ];
    check(&Torch, &samples);
}
