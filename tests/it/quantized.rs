//! Numbers that are stored in blocks: the bytes of the block type's own encoder, whatever the threads, the memory and
//! the order of the axes, with a loss that says so; and what no block can hold.

use crate::common::workplace::Workplace;
use ckpt_gguf::blocks::{BlockType, decode, encode};
use serde_json::{Value, json};

const TYPES: [(&str, BlockType); 5] = [
    ("q8_0", BlockType::Q8_0),
    ("q4_0", BlockType::Q4_0),
    ("q4_1", BlockType::Q4_1),
    ("q5_0", BlockType::Q5_0),
    ("q5_1", BlockType::Q5_1),
];

/// What each test accepts.
const ALLOW: [&str; 2] = ["--allow", "quantized"];

/// Numbers from -1 to 1, of several sizes.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|k| ((k * 7919 + 13) as f32 * 0.618_034).fract() * 2.0 - 1.0).collect()
}

fn encoded(block_type: BlockType, numbers: &[f32]) -> Vec<u8> {
    let mut blocks = Vec::new();
    encode(block_type, numbers, &mut blocks).unwrap();
    blocks
}

fn transposed(numbers: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| numbers.iter().skip(column).step_by(columns)).copied().collect()
}

/// A safetensors file of one tensor, of this dtype and bytes.
fn stored(place: &Workplace, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) {
    let header =
        json!({ "w": { "dtype": dtype, "shape": shape, "data_offsets": [0, bytes.len()] } }).to_string();
    place.write(name, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), bytes].concat());
}

/// The bytes of the last tensor of a file without padding behind it.
fn tail(place: &Workplace, name: &str, len: usize) -> Vec<u8> {
    let file = std::fs::read(place.path(name)).unwrap();
    let padded = len.next_multiple_of(32);
    file[file.len() - padded..][..len].to_vec()
}

/// Converts `in.safetensors` to a type, and returns the tensor's bytes.
fn quantized(place: &Workplace, block_type: &str, len: usize, more: &[&str]) -> Vec<u8> {
    let set = format!("type={block_type}");
    let convert = ["convert", "in.safetensors", "out.gguf", "--set", &set, "--force", "-q", "--no-sync"];
    place.says(&[&convert[..], &ALLOW, more].concat());
    tail(place, "out.gguf", len)
}

#[test]
fn a_block_of_q8_0_is_what_a_calculation_by_hand_gives() {
    let place = Workplace::new();
    let mut values = vec![0.0; 32];
    (values[0], values[1], values[2], values[3]) = (127.0, -63.5, 0.5, -0.25);
    place.checkpoint("in.safetensors", &[("w".to_owned(), vec![1, 32], values)]);
    let mut expected = vec![0; 34];
    // The scale 1 as a 16-bit float; halves are rounded away from zero.
    expected[..6].copy_from_slice(&[0x00, 0x3c, 127, (-64i8) as u8, 1, 0]);
    assert_eq!(quantized(&place, "q8_0", 34, &[]), expected);
}

#[test]
fn blocks_have_the_same_bytes_whatever_the_threads_the_memory_and_the_items() {
    let place = Workplace::new();
    let values = numbers(300 * 416);
    place.checkpoint("in.safetensors", &[("w".to_owned(), vec![300, 416], values.clone())]);
    for (name, block_type) in TYPES {
        let expected = encoded(block_type, &values);
        for more in [&["-j", "1", "--max-memory", "8m"][..], &["-j", "3", "--item-size", "1k"], &["--verify"]]
        {
            assert!(quantized(&place, name, expected.len(), more) == expected, "{name} {more:?}");
        }
    }
}

#[test]
fn axes_are_turned_before_their_numbers_are_stored_in_blocks() {
    let place = Workplace::new();
    let values = numbers(416 * 301);
    place.checkpoint("in.safetensors", &[("w".to_owned(), vec![416, 301], values.clone())]);
    for (name, block_type) in TYPES {
        let expected = encoded(block_type, &transposed(&values, 301));
        for more in [&["-j", "1", "--max-memory", "8m"][..], &["--item-size", "2k", "--verify"]] {
            let options = [&["--transform", "w: transpose"], more].concat();
            assert!(quantized(&place, name, expected.len(), &options) == expected, "{name} {more:?}");
        }
    }
}

#[test]
fn parts_of_a_tensor_are_stored_in_blocks_of_their_own() {
    let place = Workplace::new();
    let values = numbers(40 * 100);
    place.checkpoint("in.safetensors", &[("w".to_owned(), vec![40, 100], values.clone())]);
    place.write("cut.toml", "[[rule]]\nfrom = \"w\"\nto = [\"a\", \"b\"]\nsplit = 1\nsizes = [36, 64]\n");
    let second: Vec<f32> = values.chunks(100).flat_map(|row| &row[36..]).copied().collect();
    let expected = encoded(BlockType::Q5_1, &second);
    let options = ["--map", "cut.toml", "--allow", "narrowed", "--verify"];
    assert!(quantized(&place, "q5_1", expected.len(), &options) == expected);
}

#[test]
fn every_float_is_read_as_a_32_bit_one_and_then_stored_in_blocks() {
    let place = Workplace::new();
    let values: Vec<f32> =
        numbers(64 * 64).iter().map(|x| f32::from_bits(x.to_bits() & 0xffff_0000)).collect();
    let expected = encoded(BlockType::Q8_0, &values);
    let halves: Vec<u8> = values.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect();
    let doubles: Vec<u8> = values.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect();
    for (dtype, bytes) in [("BF16", halves), ("F64", doubles)] {
        stored(&place, "in.safetensors", dtype, &[64, 64], &bytes);
        assert!(quantized(&place, "q8_0", expected.len(), &["--verify"]) == expected, "{dtype}");
    }
}

#[test]
fn blocks_of_another_type_are_read_and_stored_again_and_those_of_the_same_type_stay() {
    let place = Workplace::new();
    let values = numbers(20 * 64);
    place.checkpoint("in.safetensors", &[("w".to_owned(), vec![20, 64], values.clone())]);
    let first = quantized(&place, "q4_1", 20 * 2 * 20, &[]);
    std::fs::rename(place.path("out.gguf"), place.path("first.gguf")).unwrap();
    let again =
        ["convert", "first.gguf", "again.gguf", "--set", "type=q4_1", "--strict", "--allow", "unloadable"];
    place.says(&again);
    assert!(
        std::fs::read(place.path("again.gguf")).unwrap() == std::fs::read(place.path("first.gguf")).unwrap()
    );
    let other = ["convert", "first.gguf", "other.gguf", "--set", "type=q8_0", "--verify"];
    let losses = place.json(&other)["losses"].to_string();
    assert!(losses.contains("blocks of gguf.Q4_1 are read, and stored in blocks of gguf.Q8_0"), "{losses}");
    let mut decoded = vec![0.0; values.len()];
    decode(BlockType::Q4_1, &first, &mut decoded);
    let expected = encoded(BlockType::Q8_0, &decoded);
    assert!(tail(&place, "other.gguf", expected.len()) == expected);
}

#[test]
fn naming_a_type_of_blocks_accepts_the_loss_whose_largest_error_is_told() {
    let place = Workplace::new();
    let values = numbers(64);
    place.checkpoint("in.safetensors", &[("w".to_owned(), vec![2, 32], values.clone())]);
    let convert = ["convert", "in.safetensors", "out.gguf", "--set", "type=q4_0"];
    let summary = place.json(&convert);
    assert_eq!(
        summary["losses"].as_array().unwrap().iter().filter(|loss| loss["kind"] == "quantized").count(),
        1
    );
    let mut decoded = vec![0.0; 64];
    decode(BlockType::Q4_0, &encoded(BlockType::Q4_0, &values), &mut decoded);
    let largest = values.iter().zip(&decoded).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    let stated = &summary["rounding"][0];
    assert_eq!(
        (&stated["tensor"], stated["largest_error"].as_f64()),
        (&json!("w"), Some(f64::from(largest)))
    );
}

#[test]
fn a_type_of_blocks_leaves_out_one_axis_and_short_rows_and_what_llama_cpp_keeps() {
    let place = Workplace::new();
    let all: [(&str, &[usize]); 5] = [
        ("blk.0.attn_q.weight", &[4, 32]),
        ("blk.0.ffn_gate_inp.weight", &[4, 32]),
        ("output_norm.weight", &[32]),
        ("blk.0.attn_k.weight", &[4, 30]),
        ("conv.weight", &[2, 2, 64]),
    ];
    let tensors =
        all.map(|(name, shape)| (name.to_owned(), shape.to_vec(), numbers(shape.iter().product::<usize>())));
    place.checkpoint("in.safetensors", &tensors);
    let options = ["--set", "type=q5_0", "--allow", "quantized", "--allow", "narrowed"];
    let plan = place.json(&[&["plan", "in.safetensors", "out.gguf"][..], &options].concat());
    let stored = |name: &str| {
        let number = plan["tensors"].as_array().unwrap().iter().position(|one| one["tensor"]["name"] == name);
        let encoding =
            plan["transfers"].as_array().unwrap().iter().find(|one| {
                Some(one["to"]["tensor"].as_u64().unwrap()) == number.map(|number| number as u64)
            });
        let encoding = encoding.unwrap()["to"]["encoding"].clone();
        encoding["blocks"]["name"].as_str().or(encoding["dtype"].as_str()).unwrap().to_owned()
    };
    let kinds = all.map(|(name, _)| stored(name));
    assert_eq!(kinds, ["gguf.Q5_0", "f32", "f32", "f16", "gguf.Q5_0"]);
    let losses = plan["losses"].as_array().unwrap();
    let detail = "f32 is stored as f16: rows of 30 elements do not fill blocks of Q5_0, of 32";
    assert!(losses.iter().any(|loss| loss["kind"] == "narrowed" && loss["detail"] == detail), "{losses:?}");
    assert_eq!(losses.iter().filter(|loss| loss["kind"] == "quantized").count(), 2);
}

#[test]
fn a_number_that_no_block_can_hold_is_refused_by_its_position() {
    let place = Workplace::new();
    for (value, said) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "-inf"), (1e9, "1000000000")] {
        let mut values = numbers(500 * 64);
        (values[20_007], values[31_000]) = (value, value);
        place.checkpoint("in.safetensors", &[("w".to_owned(), vec![500, 64], values)]);
        for more in [&["-j", "1"][..], &["-j", "1", "--item-size", "4k"]] {
            let convert = ["convert", "in.safetensors", "out.gguf", "--set", "type=q8_0"];
            let says = ["blocks of gguf.Q8_0 cannot hold a number", "tensor    w", "element 20007", said];
            place.refuses(&[&convert[..], &ALLOW, more].concat(), 1, &says);
        }
        let turned =
            ["convert", "in.safetensors", "out.gguf", "--set", "type=q8_0", "--transform", "w: transpose"];
        // 500 is no multiple of a block.
        place.says(&[&turned[..], &["--allow", "all", "--dry-run"]].concat());
    }
}

#[test]
fn numbers_of_which_the_scale_is_zero_are_zeros_and_the_error_says_how_far_off() {
    let place = Workplace::new();
    place.checkpoint("in.safetensors", &[("w".to_owned(), vec![1, 32], vec![1e-9; 32])]);
    let convert = ["convert", "in.safetensors", "out.gguf", "--set", "type=q8_0"];
    let summary = place.json(&[&convert[..], &ALLOW].concat());
    assert_eq!(summary["rounding"][0]["largest_error"].as_f64(), Some(f64::from(1e-9f32)));
    assert_eq!(tail(&place, "out.gguf", 34)[..2], [0, 0], "the scale");
}

#[test]
fn a_file_that_states_its_type_states_the_new_one() {
    let place = Workplace::new();
    place.write("keys.json", r#"{"general.file_type": 1}"#);
    place.checkpoint("in.safetensors", &[("w".to_owned(), vec![1, 32], numbers(32))]);
    place.says(&["convert", "in.safetensors", "a.gguf", "--set", "metadata=keys.json"]);
    let stated = |file: &str| {
        let metadata: Value = place.json(&["inspect", file])["metadata"].clone();
        metadata["gguf"]["general.file_type"].clone()
    };
    assert_eq!(stated("a.gguf"), json!({ "$u32": 1 }));
    place.says(&[&["convert", "a.gguf", "b.gguf", "--set", "type=q5_1"][..], &ALLOW].concat());
    assert_eq!(stated("b.gguf"), json!({ "$u32": 9 }));
    let both = ["convert", "a.gguf", "c.gguf", "--set", "type=q5_1", "--set", "metadata=keys.json"];
    place.says(&[&both[..], &ALLOW].concat());
    assert_eq!(stated("c.gguf"), json!({ "$u32": 1 }));
}

#[test]
fn the_receipt_of_numbers_that_were_stored_in_blocks_verifies_the_file_and_finds_a_changed_byte() {
    let place = Workplace::new();
    place.checkpoint("in.safetensors", &[("w".to_owned(), vec![40, 64], numbers(40 * 64))]);
    let convert = ["convert", "in.safetensors", "out.gguf", "--set", "type=q8_0", "--receipt", "r.json"];
    place.says(&[&convert[..], &ALLOW].concat());
    let receipt: Value = serde_json::from_slice(&std::fs::read(place.path("r.json")).unwrap()).unwrap();
    assert!(receipt.to_string().contains("quantized"), "{receipt}");
    place.says(&["verify", "--receipt", "r.json"]);
    let mut bytes = std::fs::read(place.path("out.gguf")).unwrap();
    let last = bytes.len() - 100;
    bytes[last] ^= 1;
    place.write("out.gguf", bytes);
    place.refuses(&["verify", "--receipt", "r.json"], 4, &["out.gguf"]);
}

/// A file of one tensor `w` of 4 rows of 96 numbers, in three blocks each.
fn in_blocks(place: &Workplace, name: &str, id: u32, block: usize) {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut file = [&b"GGUF"[..], &3u32.to_le_bytes(), &1u64.to_le_bytes(), &0u64.to_le_bytes()].concat();
    file.extend([&text("w")[..], &2u32.to_le_bytes(), &96u64.to_le_bytes(), &4u64.to_le_bytes()].concat());
    file.extend([&id.to_le_bytes()[..], &0u64.to_le_bytes()].concat());
    file.resize(file.len().next_multiple_of(32) + 4 * 3 * block, 0);
    file.resize(file.len().next_multiple_of(32), 0);
    place.write(name, file);
}

const CUTS: [&str; 2] = [
    "from = 'w'\nto = ['a', 'b']\nsplit = 1\nsizes = [36, 60]",
    "from = 'w'\nto = 'w'\nsteps = ['reshape 96 -> 2 48 on 1']",
];

#[test]
fn opaque_blocks_that_a_mapping_cuts_are_refused_by_name() {
    let place = Workplace::new();
    in_blocks(&place, "q8_1.gguf", 9, 40);
    for cut in CUTS {
        place.write("cut.toml", format!("[[rule]]\n{cut}"));
        let convert = ["convert", "q8_1.gguf", "out.gguf", "--map", "cut.toml"];
        place.refuses(&convert, 1, &["gguf.Q8_1 cannot be decoded", "tensor", "help"]);
    }
}

#[test]
fn blocks_that_a_mapping_cuts_become_numbers_and_the_losses_say_so() {
    let place = Workplace::new();
    in_blocks(&place, "q8_0.gguf", 8, 34);
    for cut in CUTS {
        place.write("cut.toml", format!("[[rule]]\n{cut}"));
        let summary = place.json(&["convert", "q8_0.gguf", "out.gguf", "--map", "cut.toml", "--force"]);
        let kinds: Vec<_> =
            summary["losses"].as_array().unwrap().iter().map(|loss| loss["kind"].as_str().unwrap()).collect();
        assert!(kinds.contains(&"dequantized"), "{summary}");
    }
    // Rows of whole blocks stay as they are.
    place.write("whole.toml", "[[rule]]\nfrom = 'w'\nto = 'w'\nsteps = ['reshape 96 -> 3 32 on 1']");
    place.says(&[
        "convert",
        "q8_0.gguf",
        "out.gguf",
        "--map",
        "whole.toml",
        "--force",
        "--strict",
        "--allow",
        "unloadable",
    ]);
}
