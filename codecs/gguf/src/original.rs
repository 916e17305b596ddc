//! Shapes that a key states because GGUF cannot hold them: more axes than four, or rows that no block fills.

use crate::format::FILE_NAMESPACE;
use ckpt_api::{AxisOrder, Encoding, MetadataMap, MetadataValue, Shape, Tensor};

/// The key of a tensor's shape, row-major, before the tensor's name: programs for image models write it.
const PREFIX: &str = "comfy.gguf.orig_shape.";
/// Keys of the two shapes in the tensor's metadata: that of the file, and the one that the key states.
const KEY_SHAPE: &str = "shape";
const KEY_ORIGINAL: &str = "original_shape";
/// The most axes of a shape that is taken from a key.
const MOST_AXES: usize = 64;

/// Whether the keys state the shape of any tensor.
pub(crate) fn states_any(pairs: &MetadataMap) -> bool {
    pairs.iter().any(|(key, _)| key.starts_with(PREFIX))
}

/// Gives a tensor the shape that a key states for it. Returns a note if that shape has another number of elements.
pub(crate) fn restore(tensor: &mut Tensor, encoding: &mut Encoding, pairs: &MetadataMap) -> Option<String> {
    let key = format!("{PREFIX}{}", tensor.name);
    let shape = shape(pairs.get(&key)?).filter(|shape| shape.elements() == tensor.shape.elements());
    let Some(shape) = shape else {
        return Some(format!("the key {key} states no shape of as many elements: it is ignored"));
    };
    if shape != tensor.shape {
        for (key, shape) in [(KEY_SHAPE, &tensor.shape), (KEY_ORIGINAL, &shape)] {
            let lens = shape.iter().map(|len| MetadataValue::U64(*len)).collect();
            tensor.metadata.insert(FILE_NAMESPACE, key, MetadataValue::List(lens));
        }
        encoding.order = AxisOrder::row_major(shape.rank());
        tensor.shape = shape;
    }
    None
}

/// Returns the shape that a file has for a tensor: the one that it was read with, if its own is still what a key states.
pub(crate) fn stored_shape(tensor: &Tensor) -> Shape {
    let noted = |key| tensor.metadata.value(FILE_NAMESPACE, key).and_then(shape);
    let stored = noted(KEY_SHAPE).filter(|_| noted(KEY_ORIGINAL).as_ref() == Some(&tensor.shape));
    stored
        .filter(|stored| stored.elements() == tensor.shape.elements())
        .unwrap_or_else(|| tensor.shape.clone())
}

/// Removes keys that state another shape than their tensor has.
pub(crate) fn remove_stale(pairs: &mut MetadataMap, tensors: &[Tensor]) {
    if !states_any(pairs) {
        return;
    }
    for tensor in tensors {
        let key = format!("{PREFIX}{}", tensor.name);
        if pairs.get(&key).is_some_and(|stated| shape(stated).is_some_and(|shape| shape != tensor.shape)) {
            pairs.remove(&key);
        }
    }
}

fn shape(stated: &MetadataValue) -> Option<Shape> {
    let axis = |value: &MetadataValue| value.as_i64().and_then(|len| u64::try_from(len).ok());
    let lens = stated.as_list().filter(|lens| lens.len() <= MOST_AXES)?;
    Shape::new(lens.iter().map(axis).collect::<Option<Vec<u64>>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::DType;

    fn pairs(name: &str, lens: &[i32]) -> MetadataMap {
        [(format!("{PREFIX}{name}"), MetadataValue::from(lens.to_vec()))].into_iter().collect()
    }

    fn restored(lens: &[i32]) -> (Tensor, Encoding, Option<String>) {
        let mut tensor = Tensor::new("w", DType::F16, Shape::new([6, 4]).unwrap());
        let mut encoding = Encoding::row_major(&tensor);
        let note = restore(&mut tensor, &mut encoding, &pairs("w", lens));
        (tensor, encoding, note)
    }

    #[test]
    fn a_key_gives_a_tensor_its_shape_and_the_file_keeps_its_own() {
        let (mut tensor, encoding, note) = restored(&[2, 1, 3, 1, 4]);
        assert_eq!((&tensor.shape[..], encoding.order.len(), note), (&[2, 1, 3, 1, 4][..], 5, None));
        assert_eq!(stored_shape(&tensor)[..], [6, 4]);
        tensor.shape = Shape::new([4, 6]).unwrap();
        assert_eq!(stored_shape(&tensor)[..], [4, 6]);
        let mut stale = pairs("w", &[2, 1, 3, 1, 4]);
        remove_stale(&mut stale, &[tensor]);
        assert!(!states_any(&stale));
    }

    #[test]
    fn a_key_that_states_another_number_of_elements_is_noted_and_ignored() {
        for wrong in [&[5, 5][..], &[-24], &[]] {
            let (tensor, _, note) = restored(wrong);
            assert_eq!(tensor.shape[..], [6, 4]);
            assert!(note.is_some_and(|note| note.contains("orig_shape.w")), "{wrong:?}");
        }
    }
}
