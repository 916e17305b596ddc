//! Against the `safetensors` crate: the same files are accepted, and the same bytes are written.

mod agree;

use crate::common::{data, entry, file, pairs};
use agree::agree;
use ckpt_api::{Checkpoint, DType, Shape, Tensor};
use ckpt_safetensors::Safetensors;
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::HashMap;

fn bases() -> Vec<Vec<u8>> {
    let pair = format!("{{{},{}}}", entry("a", "F32", "[2]", 0, 8), entry("b", "F4", "[2,1]", 8, 9));
    vec![
        file(&pair, &data(9)),
        file(&format!(r#"{{"__metadata__":{{"k":"v"}},{}}}  "#, entry("a", "U8", "[]", 0, 1)), &data(1)),
        file(
            &format!("{{{},{}}}", entry("a", "I16", "[0]", 0, 0), entry("b", "BOOL", "[1]", 0, 1)),
            &data(1),
        ),
        file(r#"{"__metadata__":null}"#, &[]),
        file(
            r#"{"s":["U8",[1],[0,1]],"x":{"dtype":{"U8":null},"y":[{}],"shape":[0],"data_offsets":[1,1]}}"#,
            &data(1),
        ),
        file("{}", &[]),
    ]
}

#[test]
fn every_change_of_one_byte_is_judged_as_the_crate_does() {
    let mut accepted = 0;
    let mut seen = 0;
    for base in bases() {
        assert!(agree(&base), "{}", base.escape_ascii());
        for position in 0..base.len() {
            for byte in (0..=255).filter(|byte| *byte != base[position]) {
                let mut changed = base.clone();
                changed[position] = byte;
                accepted += u32::from(agree(&changed));
                seen += 1;
            }
        }
    }
    assert!(seen > 100_000 && accepted > 3_000, "{accepted} of {seen} accepted");
}

#[derive(Clone, Debug)]
enum Edit {
    Replace(u8),
    Insert(Vec<u8>),
    Delete(usize),
    Copy(usize, usize),
}

fn edit() -> impl Strategy<Value = (usize, Edit)> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "0",
        "1",
        "8",
        "-",
        ".",
        "e",
        " ",
        "\n",
        "null",
        "true",
        "\\u0061",
        "\"shape\":",
        "\"dtype\":\"U8\",",
        "\"x\":{},",
        "\"a\":",
        "18446744073709551616",
        "\u{0}",
        "F6_E2M3",
    ]);
    let edit = prop_oneof![
        any::<u8>().prop_map(Edit::Replace),
        token.prop_map(|token| Edit::Insert(token.as_bytes().to_vec())),
        (1usize..12).prop_map(Edit::Delete),
        (any::<usize>(), 1usize..60).prop_map(|(from, len)| Edit::Copy(from, len)),
    ];
    (any::<usize>(), edit)
}

/// Edits the header and gives it the length that it has then, so that most results get as far as the JSON.
fn edited(base: &[u8], edits: Vec<(usize, Edit)>) -> Vec<u8> {
    let len = u64::from_le_bytes(base[..8].try_into().unwrap()) as usize;
    let mut header = base[8..8 + len].to_vec();
    for (position, edit) in edits {
        let at = position % (header.len() + 1);
        match edit {
            Edit::Replace(byte) if at < header.len() => header[at] = byte,
            Edit::Replace(byte) => header.push(byte),
            Edit::Insert(bytes) => drop(header.splice(at..at, bytes)),
            Edit::Delete(len) => drop(header.drain(at..(at + len).min(header.len()))),
            Edit::Copy(from, len) => {
                let from = from % (header.len() + 1);
                let piece = header[from..(from + len).min(header.len())].to_vec();
                header.splice(at..at, piece);
            }
        }
    }
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(&base[8 + len..]);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

    #[test]
    fn edited_headers_are_judged_as_the_crate_does(
        base in 0usize..6,
        edits in prop::collection::vec(edit(), 1..4),
    ) {
        agree(&edited(&bases()[base], edits));
    }

    #[test]
    fn what_is_written_equals_what_the_crate_writes(
        tensors in prop::collection::btree_map("[a-zé.\"\\\\/0-9]{0,6}", (0usize..22, prop::collection::vec(0u64..4, 0..4)), 0..8),
        pair in prop::option::of(("[a-b\"]{1,3}", "[a-zü\n]{0,3}")),
        backwards in any::<bool>(),
    ) {
        let mut tensors: Vec<_> = tensors.into_iter().map(|(name, (dtype, mut shape))| {
            // Four more packed elements always fill bytes.
            shape.push(4);
            (name, DTYPES[dtype], shape)
        }).collect();
        if backwards {
            tensors.reverse();
        }
        same_bytes(&tensors, pair)?;
    }
}

const DTYPES: [(DType, Dtype); 22] = [
    (DType::Bool, Dtype::BOOL),
    (DType::F4E2m1, Dtype::F4),
    (DType::F6E2m3, Dtype::F6_E2M3),
    (DType::F6E3m2, Dtype::F6_E3M2),
    (DType::U8, Dtype::U8),
    (DType::I8, Dtype::I8),
    (DType::F8E5m2, Dtype::F8_E5M2),
    (DType::F8E4m3, Dtype::F8_E4M3),
    (DType::F8E8m0, Dtype::F8_E8M0),
    (DType::F8E4m3fnuz, Dtype::F8_E4M3FNUZ),
    (DType::F8E5m2fnuz, Dtype::F8_E5M2FNUZ),
    (DType::I16, Dtype::I16),
    (DType::U16, Dtype::U16),
    (DType::F16, Dtype::F16),
    (DType::Bf16, Dtype::BF16),
    (DType::I32, Dtype::I32),
    (DType::U32, Dtype::U32),
    (DType::F32, Dtype::F32),
    (DType::C64, Dtype::C64),
    (DType::F64, Dtype::F64),
    (DType::I64, Dtype::I64),
    (DType::U64, Dtype::U64),
];

fn same_bytes(
    tensors: &[(String, (DType, Dtype), Vec<u64>)],
    pair: Option<(String, String)>,
) -> Result<(), TestCaseError> {
    let mut checkpoint = Checkpoint::default();
    let mut values = Vec::new();
    let mut stored = Vec::new();
    for (name, (ours, theirs), shape) in tensors {
        let tensor = Tensor::new(name, *ours, Shape::new(shape.clone()).unwrap());
        let elements = usize::try_from(tensor.shape.elements()).unwrap();
        let packed = data(elements * theirs.bitsize() / 8);
        values.push(unpack(&packed, theirs.bitsize(), elements));
        stored.push((name, *theirs, shape.iter().map(|dim| *dim as usize).collect::<Vec<_>>(), packed));
        checkpoint.tensors.push(tensor);
    }
    if let Some((key, value)) = &pair {
        checkpoint.metadata.insert("safetensors", key, value.as_str());
    }
    let none = pairs(&[("metadata", "none")]);
    let files = ckpt_conformance::write(&Safetensors, &checkpoint, &values, "m.safetensors", &none).unwrap();
    let views = stored.iter().map(|(name, dtype, shape, bytes)| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    let theirs = safetensors::serialize(views, pair.map(|pair| HashMap::from([pair]))).unwrap();
    prop_assert_eq!(files["m.safetensors"].escape_ascii().to_string(), theirs.escape_ascii().to_string());
    Ok(())
}

/// Elements smaller than a byte, one per byte.
fn unpack(packed: &[u8], bits: usize, elements: usize) -> Vec<u8> {
    if bits >= 8 {
        return packed.to_vec();
    }
    let bit = |at: usize| packed[at / 8] >> (at % 8) & 1;
    (0..elements).map(|k| (0..bits).map(|b| bit(k * bits + b) << b).sum()).collect()
}
