//! The kit's checks on a network of three features, which the options state: known sets have thousands.

use crate::build::{L1, MADE, Made, SMALL_FEATURES, SMALL_LAYERS, network};
use ckpt_api::DType;
use ckpt_conformance::{Sample, check};
use ckpt_nnue::Nnue;

fn sample(name: &'static str, made: Made) -> Sample {
    let (file, values) = network(Made { is_small: true, ..made });
    let mut values = values.into_iter();
    let mut next = || values.next().unwrap();
    let mut sample = Sample::new(name, "n.nnue", [("n.nnue".to_owned(), file)].into())
        .reading("inputs", "3x2")
        .reading("layers", "2,3")
        .writing("layers", "2,3")
        .tensor("transformer.bias", DType::I16, &[L1], next())
        .tensor("transformer.other.weight", DType::I16, &[SMALL_FEATURES, L1], next())
        .tensor("transformer.other.psqt", DType::I32, &[SMALL_FEATURES, 8], next())
        .metadata("nnue", "version", i64::from(made.version))
        .metadata("nnue", "description", "pawn");
    for stack in 0..8 {
        for (layer, outputs, inputs) in SMALL_LAYERS {
            sample = sample
                .tensor(&format!("stacks.{stack}.{layer}.bias"), DType::I32, &[outputs], next())
                .tensor(&format!("stacks.{stack}.{layer}.weight"), DType::I8, &[outputs, inputs], next());
        }
    }
    sample
}

#[test]
fn networks_keep_the_contract() {
    let why = "values that are placed as they are are not compressed: that is up to Codec::prepare";
    let plain = sample("plain", Made { is_compressed: false, ..MADE });
    check(&Nnue, &[plain, sample("compressed", MADE).rewritten(why)]);
}
