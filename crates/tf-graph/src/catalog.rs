//! The tensors that a description is made of, by their keys.

use ckpt_api::{Contents, DType, Encoding, Extent, FileId, Placement, Shape, Tensor, TensorId, Window};
use std::ops::Range;

/// How the keys of variables end in object-based checkpoints.
pub const VARIABLE_VALUE: &str = "/.ATTRIBUTES/VARIABLE_VALUE";

/// A tensor, as the index describes it.
#[derive(Clone, Copy)]
pub struct TensorInfo<'a> {
    /// Key in the index.
    pub key: &'a str,
    /// Element type.
    pub dtype: DType,
    /// Shape of the whole tensor.
    pub shape: &'a Shape,
}

/// A constant of the graph in `saved_model.pb` that is a weight, and so a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphConstant {
    /// Its key, which no tensor of the index has as its key or name.
    pub key: String,
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Shape,
    /// Its bytes in the file, one range after the other.
    pub ranges: Vec<Range<u64>>,
    /// Whether the ranges hold one number, which all elements are.
    pub is_repeated: bool,
}

impl GraphConstant {
    /// Adds the tensor after all others.
    pub fn add_to(self, file: FileId, contents: &mut Contents) {
        let GraphConstant { key, dtype, shape, ranges, is_repeated } = self;
        let tensor = Tensor::new(key, dtype, shape);
        let extent =
            |range: Range<u64>| Extent::new(file, range.start, range.end.saturating_sub(range.start));
        let extents: Vec<Extent> = ranges.into_iter().map(extent).collect();
        let encoding = Encoding::row_major(&tensor);
        let number = TensorId(contents.placements.len());
        let (rank, whole) = (tensor.shape.rank(), tensor.shape.clone());
        let window = is_repeated.then(|| Window::new(vec![0; rank], whole).with_strides(vec![0; rank]));
        let placement = Placement::new(number, &tensor.name, extents, encoding).with_window(window);
        contents.placements.push(placement);
        contents.checkpoint.tensors.push(tensor);
    }
}

/// The tensors by key: the list itself, which usually is sorted by key.
pub struct Catalog<'a>(pub &'a [TensorInfo<'a>]);

impl<'a> Catalog<'a> {
    /// The tensors of a list. `sorted` holds a sorted copy where one is needed: escaping keys that are not UTF-8 changes their order.
    pub fn new(tensors: &'a [TensorInfo<'a>], sorted: &'a mut Vec<TensorInfo<'a>>) -> Self {
        if tensors.is_sorted_by_key(|tensor| tensor.key) {
            return Catalog(tensors);
        }
        sorted.extend_from_slice(tensors);
        sorted.sort_by_key(|tensor| tensor.key);
        Catalog(sorted)
    }

    /// The tensor of a key.
    pub fn get(&self, key: &str) -> Option<&TensorInfo<'a>> {
        let found = self.0.binary_search_by_key(&key, |tensor| tensor.key).ok()?;
        self.0.get(found)
    }

    /// Whether there is a tensor of this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

/// Returns a key without the suffix of object-based checkpoints.
pub fn path(key: &str) -> &str {
    key.strip_suffix(VARIABLE_VALUE).unwrap_or(key)
}

/// Returns what follows the last slash.
// Searches bytes, which is faster than chars for many thousand short names.
pub fn last(path: &str) -> &str {
    let slash = path.bytes().rposition(|byte| byte == b'/');
    slash.and_then(|slash| path.get(slash + 1..)).unwrap_or(path)
}
