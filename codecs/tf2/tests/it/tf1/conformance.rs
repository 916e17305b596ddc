//! The conformance kit, on one graph of each kind of values.

use super::build::{constant, field};
use ckpt_api::DType;
use ckpt_conformance::{Sample, check};
use ckpt_tf2::Tf1;
use std::path::Path;

/// Bytes of the index, and of the empty block before it.
const INDEX: usize = 1 + 1 + 1 + 1 + 3 + 8 + 5;
const PROPERTIES: usize = 8 + 5;

#[test]
fn the_codec_conforms_to_the_contract() {
    let floats: Vec<u8> = [1f32, 2., 3.].iter().flat_map(|number| number.to_le_bytes()).collect();
    let repeated: Vec<u8> = [1f32, 1., 1.].iter().flat_map(|number| number.to_le_bytes()).collect();
    let graph = |name: &'static str, values: Vec<u8>| {
        Sample::new(name, "m.pb", [("m.pb".to_owned(), constant("w", 1, &[3], &values))].into())
    };
    let table =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tf1/accept/v1_slices.ckpt"))
            .unwrap();
    // The block of values, an empty block of other tables' properties, the index, and the footer.
    let (index, footer) = (table.len() - 48 - INDEX, table.len() - 48);
    let numbers: Vec<u8> = (0u8..6).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    let samples = [
        graph("raw bytes", field(4, &floats)).tensor("w", DType::F32, &[3], floats.clone()),
        graph("a list", field(5, &floats)).tensor("w", DType::F32, &[3], floats.clone()),
        graph("a repeated value", field(5, &floats[..4])).tensor("w", DType::F32, &[3], repeated),
        Sample::new("a table", "m.ckpt", [("m.ckpt".to_owned(), table)].into())
            .tensor("w", DType::F32, &[2, 3], numbers)
            .ignoring("m.ckpt", index - PROPERTIES..index, "checkpoints have no properties")
            .ignoring("m.ckpt", footer..footer + 40, "it locates the properties, and is padded"),
    ];
    check(&Tf1, &samples);
}
