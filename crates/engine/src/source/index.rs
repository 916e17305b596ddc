//! Tensors by name.

use ckpt_api::{Tensor, TensorId};
use std::sync::OnceLock;

/// The order of the names of a checkpoint's tensors, found when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct NameIndex(OnceLock<Vec<u32>>);

impl NameIndex {
    /// The tensor of that name; the first of several. `tensors` are always the same ones.
    pub fn find(&self, tensors: &[Tensor], name: &str) -> Option<TensorId> {
        // More tensors than that do not fit into memory.
        let count = u32::try_from(tensors.len()).unwrap_or(u32::MAX);
        let name_of = |id: &u32| tensors.get(*id as usize).map(|tensor| tensor.name.as_str());
        let sorted = self.0.get_or_init(|| {
            let mut ids: Vec<u32> = (0..count).collect();
            ids.sort_by_key(name_of);
            ids
        });
        let first = sorted.partition_point(|id| name_of(id) < Some(name));
        let id = sorted.get(first).filter(|id| name_of(id) == Some(name))?;
        Some(TensorId(*id as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, Shape};

    #[test]
    fn every_name_is_found_and_no_other_however_many_there_are() {
        let name = |number: u64| format!("{}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let tensors: Vec<Tensor> =
            (0..200_000).map(|number| Tensor::new(name(number), DType::F32, Shape::scalar())).collect();
        let index = NameIndex::default();
        for (number, tensor) in tensors.iter().enumerate() {
            assert_eq!(index.find(&tensors, &tensor.name), Some(TensorId(number)));
        }
        assert_eq!(index.find(&tensors, "x"), None);
        assert_eq!(NameIndex::default().find(&[], ""), None);
    }
}
