//! The first thing that differs between what was written and what was read again.

use crate::reading::shown;
use ckpt_api::{Checkpoint, Metadata, Tensor};
use std::fmt::Debug;

/// The first tensor and field that differ, or the part of the checkpoint; `None` if all is the same.
pub(crate) fn checkpoint(given: &Checkpoint, back: &Checkpoint) -> Option<String> {
    for (given, back) in given.tensors.iter().zip(&back.tensors) {
        if let Some(what) = tensor(given, back) {
            return Some(format!("tensor '{}': {what}", given.name));
        }
    }
    let extra =
        |more: &Checkpoint, than: &Checkpoint| Some(more.tensors.get(than.tensors.len())?.name.clone());
    if let Some(name) = extra(given, back) {
        return Some(format!("tensor '{name}' is missing"));
    }
    if let Some(name) = extra(back, given) {
        return Some(format!("tensor '{name}' is new"));
    }
    metadata(&given.metadata, &back.metadata)
        .or_else(|| field("the graph", &given.graph, &back.graph))
        .or_else(|| field("the checkpoint", given, back))
}

/// Whether two values are equal, or differ in nothing that can be shown: NaN equals itself.
pub(crate) fn same<T: Debug + PartialEq>(one: &T, other: &T) -> bool {
    one == other || format!("{one:?}") == format!("{other:?}")
}

fn tensor(given: &Tensor, back: &Tensor) -> Option<String> {
    field("its name", &given.name, &back.name)
        .or_else(|| field("its dtype", &given.dtype, &back.dtype))
        .or_else(|| field("its shape", &given.shape, &back.shape))
        .or_else(|| field("its axes", &given.axes, &back.axes))
        .or_else(|| field("its role", &given.role, &back.role))
        .or_else(|| field("its scale", &given.quantization, &back.quantization))
        .or_else(|| field("its slot", &given.slot, &back.slot))
        .or_else(|| field("the lengths of its elements", &given.lengths, &back.lengths))
        .or_else(|| field("its blocks", &given.blocks, &back.blocks))
        .or_else(|| metadata(&given.metadata, &back.metadata))
        .or_else(|| field("it", given, back))
}

fn field<T: Debug + PartialEq>(name: &str, given: &T, back: &T) -> Option<String> {
    (!same(given, back)).then(|| format!("{name} was {given:?} and comes back as {back:?}"))
}

/// The first key that differs.
fn metadata(given: &Metadata, back: &Metadata) -> Option<String> {
    let keys = |metadata: &Metadata| -> Vec<(String, String)> {
        let each = metadata.iter().flat_map(|(namespace, map)| {
            map.iter().map(move |(key, _)| (namespace.to_owned(), key.to_owned()))
        });
        each.collect()
    };
    let value = |(namespace, key): (String, String)| {
        let name = format!("the metadata {namespace}.{key}");
        field(&name, &given.value(&namespace, &key), &back.value(&namespace, &key))
    };
    keys(given).into_iter().chain(keys(back)).find_map(value).or_else(|| field("the metadata", given, back))
}

/// The first tensor whose value differs, and its first byte that does.
pub(crate) fn values(checkpoint: &Checkpoint, given: &[Vec<u8>], back: &[Vec<u8>]) -> Option<String> {
    let pairs = checkpoint.tensors.iter().zip(given.iter().zip(back));
    let (tensor, (given, back)) = pairs.into_iter().find(|(_, (given, back))| given != back)?;
    let at = given.iter().zip(back).position(|(one, other)| one != other);
    let at = at.unwrap_or_else(|| given.len().min(back.len()));
    Some(format!(
        "tensor '{}' differs from byte {at} on: it was {} and comes back as {}",
        tensor.name,
        shown(given),
        shown(back)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, Role, Shape};

    fn one() -> Checkpoint {
        let tensors = ["a", "b"].map(|name| Tensor::new(name, DType::F32, Shape::scalar()));
        Checkpoint { tensors: tensors.to_vec(), ..Checkpoint::default() }
    }

    #[test]
    fn the_first_tensor_and_field_that_differ_are_named() {
        let difference = |change: fn(&mut Checkpoint)| {
            let mut back = one();
            change(&mut back);
            checkpoint(&one(), &back).unwrap()
        };
        assert_eq!(checkpoint(&one(), &one()), None);
        let role = difference(|back| back.tensors[1].role = Role::Counter);
        assert_eq!(role, "tensor 'b': its role was Weight and comes back as Counter");
        let key = difference(|back| back.metadata.insert("x", "k", 1));
        assert!(key.starts_with("the metadata x.k was None and comes back as Some("), "{key}");
        assert_eq!(difference(|back| drop(back.tensors.pop())), "tensor 'b' is missing");
        let more = difference(|back| back.tensors.push(Tensor::new("c", DType::F32, Shape::scalar())));
        assert_eq!(more, "tensor 'c' is new");
    }

    #[test]
    fn the_first_value_that_differs_is_named_with_its_byte() {
        let back = vec![vec![0; 4], vec![0, 0, 7, 0]];
        let what = values(&one(), &[vec![0; 4], vec![0; 4]], &back).unwrap();
        assert!(what.starts_with("tensor 'b' differs from byte 2 on"), "{what}");
    }
}
