//! The names of tensors in the state dict of a module.

use crate::names::is_taken;
use ckpt_api::Tensor;
use std::collections::{HashMap, HashSet};

/// The keys of a state dict, by the names of the tensors: the same, unless a module cannot have an attribute of that name.
pub(super) struct Keys(HashMap<String, String>);

impl Keys {
    pub(super) fn of(tensors: &[Tensor]) -> Self {
        let mut folders: HashSet<String> = HashSet::new();
        for tensor in tensors {
            let name = tensor.name.as_str();
            folders
                .extend(name.match_indices('.').map(|(at, _)| name.get(..at).unwrap_or_default().to_owned()));
        }
        let mut taken: HashSet<String> = HashSet::new();
        let mut keys = HashMap::new();
        for tensor in tensors {
            let name = tensor.name.as_str();
            let mut key: String = name.split('.').map(part).collect::<Vec<_>>().join(".");
            while folders.contains(&key) || taken.contains(&key) {
                key.push('_');
            }
            taken.insert(key.clone());
            keys.insert(name.to_owned(), key);
        }
        Keys(keys)
    }

    /// Returns the key of a tensor.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// A name between two points, as a module can have it.
fn part(name: &str) -> String {
    match name.is_empty() || is_taken(name) || name.starts_with('_') {
        true => {
            format!("{name}_").trim_start_matches('_').to_owned()
                + if name.trim_matches('_').is_empty() { "tensor" } else { "" }
        }
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, Shape};

    #[test]
    fn names_that_no_attribute_can_have_get_others() {
        let names = ["a.weight", "forward.weight", "a", "a..b", "onnx::MatMul_1", "a_"];
        let tensors: Vec<Tensor> =
            names.iter().map(|name| Tensor::new(*name, DType::F32, Shape::new(vec![1]).unwrap())).collect();
        let keys = Keys::of(&tensors);
        let found: Vec<&str> = names.iter().map(|name| keys.get(name).unwrap()).collect();
        assert_eq!(found, ["a.weight", "forward_.weight", "a_", "a.tensor.b", "onnx::MatMul_1", "a__"]);
    }
}
