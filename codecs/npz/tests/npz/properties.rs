//! What holds for every checkpoint that an archive can hold.

use crate::build::{read, write};
use ckpt_api::{Checkpoint, Codec, DType, Shape, Tensor};
use ckpt_npz::Npz;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn any_tensor() -> impl Strategy<Value = (DType, Vec<u64>, u8)> {
    let dtypes = Npz.info().dtypes;
    (prop::sample::select(dtypes), vec(0u64..4, 0..5), any::<u8>())
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(given in btree_map("[a-zä./_0-9]{0,12}", any_tensor(), 0..6)) {
        let inside = |name: &String| !name.starts_with('/') && name.split('/').all(|part| part != "..");
        let (mut tensors, mut values) = (Vec::new(), Vec::new());
        for (name, (dtype, shape, seed)) in given.into_iter().filter(|(name, _)| inside(name)) {
            let tensor = Tensor::new(name, dtype, Shape::new(shape).unwrap());
            values.push((0..tensor.value_bytes()).map(|k| (k as u8).wrapping_mul(31) ^ seed).collect::<Vec<u8>>());
            tensors.push(tensor);
        }
        let checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
        let bytes = write(&checkpoint, &values, "m.npz").unwrap();
        let (contents, same) = read("m.npz", &bytes, false).unwrap();
        prop_assert_eq!(&contents.checkpoint, &checkpoint);
        prop_assert_eq!(same, values);
    }

    #[test]
    fn no_text_in_place_of_a_dict_makes_reading_panic(text in "[{}()'\":, A-Za-z0-9<>|L-]{0,80}") {
        let _ = read("w.npy", &crate::build::versioned(1, &text), false);
    }
}
