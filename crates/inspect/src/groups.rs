//! Groups tensors by the beginnings of their names.

use super::TensorSummary;
use ckpt_api::DType;
use serde::Serialize;
use std::borrow::Borrow;
use std::collections::HashMap;

/// Tensors whose names begin alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The beginning of the names with `**` after it, as a pattern that matches them; a whole name that is not longer.
    pub name: String,
    /// Number of tensors.
    pub tensors: usize,
    /// Number of elements.
    pub elements: u64,
    /// Stored bytes.
    pub bytes: u64,
    /// Stored dtypes, in the order of the tensors.
    pub dtypes: Vec<DType>,
}

/// Groups tensors by the first `depth` parts of their names, in the order of each group's first tensor. A part ends at
/// `/`, or at `.` in a name without a `/`.
///
/// ```
/// use ckpt::inspect::{groups, inspect};
///
/// let inspection = inspect(&ckpt::open("examples/data/digits")?, false)?;
/// let groups = groups(&inspection.tensors, 1);
/// assert_eq!((groups[1].name.as_str(), groups[1].tensors), ("adam/**", 10));
/// # Ok::<(), ckpt::Error>(())
/// ```
pub fn groups(tensors: impl IntoIterator<Item: Borrow<TensorSummary>>, depth: usize) -> Vec<Group> {
    let (mut groups, mut known) = (Vec::<Group>::new(), HashMap::<String, usize>::new());
    for tensor in tensors {
        let tensor = tensor.borrow();
        let name = &tensor.name;
        let separator = if name.contains('/') { '/' } else { '.' };
        let end = name.match_indices(separator).nth(depth.saturating_sub(1)).map(|(at, _)| at + 1);
        let name = match end.and_then(|end| name.get(..end)) {
            Some(beginning) => format!("{beginning}**"),
            None => name.to_string(),
        };
        let index = *known.entry(name).or_insert_with_key(|name| {
            let name = name.clone();
            groups.push(Group { name, tensors: 0, elements: 0, bytes: 0, dtypes: Vec::new() });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(index) else { continue };
        group.tensors += 1;
        group.elements = group.elements.saturating_add(tensor.shape.elements());
        group.bytes = group.bytes.saturating_add(tensor.bytes);
        if !group.dtypes.contains(&tensor.dtype) {
            group.dtypes.push(tensor.dtype);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Role, Shape};

    fn tensor(name: &str) -> TensorSummary {
        TensorSummary {
            name: name.into(),
            key: None,
            dtype: DType::F32,
            logical_dtype: None,
            blocks: None,
            scheme: None,
            scale: None,
            quantization: None,
            shape: Shape::new([2, 3]).unwrap(),
            axes: None,
            role: Role::Weight,
            bytes: 24,
            extents: 1,
            stats: None,
            histogram: None,
            preview: None,
        }
    }

    fn shown(names: &[&str], depth: usize) -> Vec<(String, usize)> {
        let tensors: Vec<TensorSummary> = names.iter().map(|name| tensor(name)).collect();
        groups(&tensors, depth).into_iter().map(|group| (group.name, group.tensors)).collect()
    }

    #[test]
    fn tensors_are_grouped_by_the_first_parts_of_their_names() {
        let group = |name: &str, tensors| (name.to_owned(), tensors);
        let dotted = ["model.h.0.w", "model.h.0.b", "model.h.1.w", "head"];
        assert_eq!(shown(&dotted, 1), [group("model.**", 3), group("head", 1)]);
        assert_eq!(shown(&dotted, 3), [group("model.h.0.**", 2), group("model.h.1.**", 1), group("head", 1)]);
        let slashed = ["a.b/c/.ATTRIBUTES/V", "a.b/d", "a.b"];
        assert_eq!(shown(&slashed, 1), [group("a.b/**", 2), group("a.**", 1)]);
        assert_eq!(shown(&slashed, 2), [group("a.b/c/**", 1), group("a.b/d", 1), group("a.b", 1)]);
    }

    #[test]
    fn a_group_counts_elements_and_bytes() {
        let found = groups([tensor("a.b"), tensor("a.c")], 1);
        assert_eq!((found[0].elements, found[0].bytes, &found[0].dtypes[..]), (12, 48, &[DType::F32][..]));
    }

    #[test]
    fn a_tensor_in_blocks_is_shown_with_their_encoding() {
        let mut tensor = tensor("w");
        assert_eq!(tensor.shown_dtype(), "f32");
        tensor.blocks = Some("gguf.Q4_K".to_owned());
        assert_eq!(tensor.shown_dtype(), "f32 as Q4_K");
    }
}
