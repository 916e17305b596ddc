//! Arbitrary checkpoint → place → write → read.

use crate::generate::Given;
use crate::naive::permute;
use ckpt_api::{Checkpoint, Codec, Input, Loss, Match, Options, Role, Side, Tensor};
use std::collections::BTreeMap;

/// What came back.
pub struct Back {
    /// Checkpoint and values as they were read.
    pub given: Given,
    /// The files that were written.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What the codec said would be lost.
    pub losses: Vec<Loss>,
}

/// Writes a checkpoint that the format can hold, and reads it again as the file `entry`. What was read is written as the
/// same bytes as long as writing needs no options.
///
/// # Panics
/// Where the codec refuses it, does not recognize it, or declares a loss that changes what the model computes.
pub fn round_trip(
    codec: &dyn Codec,
    given: &Given,
    [name, entry]: [&str; 2],
    [write, read]: [&[(&str, &str)]; 2],
) -> Back {
    let (write, read) = (pairs(write), pairs(read));
    let info = codec.info();
    let options = Options::parse(info.id, info.options, Side::Write, &write).expect("known options");
    let placed = codec.place(&given.checkpoint, name, &options).expect("the format can hold it");
    let lost = placed.losses.iter().find(|loss| loss.kind.changes_function());
    assert_eq!(lost, None, "nothing is lost that changes what the model computes");
    let mut unplaced = placed.unplaced(&given.checkpoint);
    assert_eq!(unplaced.find(|(_, tensor)| tensor.role == Role::Weight), None, "every weight has a place");
    let store = |given: &Given, options| {
        ckpt_conformance::write(codec, &given.checkpoint, &given.values, name, options)
    };
    let files = store(given, &write).expect("what was placed can be written");
    let input = Input::memory(entry, files.clone());
    let probed = codec.probe(&input).expect("memory can always be read");
    assert_ne!(probed, Match::No, "what was written is recognized");
    let (contents, values) =
        ckpt_conformance::read(codec, &input, &read).expect("what was written can be read");
    assert!(contents.repairs.is_empty(), "nothing has to be mended");
    let given = Given { checkpoint: contents.checkpoint, values };
    if write.is_empty() && read.is_empty() {
        assert_eq!(store(&given, &[]).expect("and written again"), files);
    }
    Back { given, files, losses: placed.losses }
}

fn pairs(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// What every format keeps of a tensor, by name.
pub fn by_name(given: &Given) -> BTreeMap<&str, (&Tensor, &[u8])> {
    let Given { checkpoint: Checkpoint { tensors, .. }, values } = given;
    let pairs = tensors.iter().zip(values);
    pairs.map(|(tensor, value)| (tensor.name.as_str(), (tensor, &value[..]))).collect()
}

/// Checks that the same names have the same dtypes, shapes, lengths and values.
///
/// # Panics
/// Where they have not.
pub fn assert_same(given: &Given, back: &Given) {
    let describe = |given| {
        let tensors = by_name(given).into_iter();
        let kept = |(name, (tensor, value)): (_, (&Tensor, &[u8]))| {
            (name, (tensor.dtype, tensor.shape.clone(), tensor.lengths.clone(), value.to_vec()))
        };
        tensors.map(kept).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(describe(given), describe(back));
}

/// A tensor's values with its axes in another order: axis `k` of the result is axis `order[k]`.
pub fn permuted(tensor: &Tensor, values: &[u8], order: &[usize]) -> Vec<u8> {
    let shape: Vec<usize> = tensor.shape.iter().map(|len| *len as usize).collect();
    permute(values, &shape, order, tensor.dtype.bytes().unwrap_or(1) as usize)
}
