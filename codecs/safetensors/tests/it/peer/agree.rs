//! One file, read by the codec and by the `safetensors` crate.

use ckpt_api::Input;
use safetensors::SafeTensors;
use std::collections::BTreeMap;

/// What the crate accepts and this reader refuses, because the format's documentation forbids it.
const STRICTER: [&str; 4] =
    ["does not begin with '{'", "names a tensor twice", "is given twice", "has too many elements"];

/// Whether both accepted; panics if they differ.
pub fn agree(bytes: &[u8]) -> bool {
    let files = BTreeMap::from([("m.safetensors".to_owned(), bytes.to_vec())]);
    let input = Input::memory("m.safetensors", files);
    match (
        ckpt_conformance::read(&ckpt_safetensors::Safetensors, &input, &[]),
        SafeTensors::deserialize(bytes),
    ) {
        (Ok((contents, _)), Ok(theirs)) => {
            assert_eq!(contents.checkpoint.tensors.len(), theirs.len());
            for (tensor, placement) in contents.checkpoint.tensors.iter().zip(&contents.placements) {
                let view = theirs.tensor(&tensor.name).expect("a tensor that the crate does not see");
                let shape: Vec<u64> = view.shape().iter().map(|dim| *dim as u64).collect();
                assert_eq!(shape, tensor.shape.to_vec());
                assert_eq!(tensor.dtype.bits().map(|bits| bits as usize), Some(view.dtype().bitsize()));
                let extent = &placement.extents[0];
                let range = extent.offset as usize..(extent.offset + extent.len) as usize;
                assert_eq!(&bytes[range], view.data());
            }
            true
        }
        (Err(_), Err(_)) => false,
        (Ok(_), Err(theirs)) => panic!("accepted, but the crate says {theirs}: {}", bytes.escape_ascii()),
        (Err(ours), Ok(_)) => {
            let ours = ours.to_string();
            assert!(
                STRICTER.iter().any(|rule| ours.contains(rule)),
                "refused: {ours}: {}",
                bytes.escape_ascii()
            );
            false
        }
    }
}
