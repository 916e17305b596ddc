//! Recognizes a tensor that belongs to another layer.

use super::elements::values;
use crate::parameters::SourceParameters;
use ckpt_api::{Graph, Result, Shape, Tensor};
use ckpt_forward::Parameters;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// All tensors of a graph's layers, found by their values.
///
/// Each tensor is read once, when a tensor of its role and shape is searched for the first time. Reading all of them in
/// each search would take time quadratic in the layers.
pub(crate) struct LayerTensors<'a> {
    tensors: Vec<LayerTensor<'a>>,
    hasher: RandomState,
    searched: RefCell<HashMap<(String, Shape), ByValues>>,
}

/// A tensor of a layer.
struct LayerTensor<'a> {
    layer: &'a str,
    role: &'a str,
    name: &'a str,
}

/// Indices of tensors of one role and shape, by the hash of their values, in the order of the layers.
type ByValues = HashMap<u64, Vec<usize>>;

impl<'a> LayerTensors<'a> {
    pub(crate) fn new(graph: &'a Graph) -> Self {
        let mut seen = HashSet::new();
        let tensors = graph.nodes.iter().flat_map(|node| {
            node.tensors().map(|(role, name)| LayerTensor { layer: &node.name, role, name })
        });
        // Of the layers that share a tensor, the first one names it.
        let tensors = tensors.filter(|tensor| seen.insert((tensor.role, tensor.name))).collect();
        LayerTensors { tensors, hasher: RandomState::new(), searched: RefCell::default() }
    }

    /// Names the layer whose tensor of the same role and shape as `own` is equal to `found`.
    ///
    /// # Errors
    /// Whatever keeps a tensor from being read.
    pub(super) fn of_other_layer(
        &self,
        parameters: &SourceParameters,
        role: &str,
        own: &Tensor,
        found: &[f64],
    ) -> Result<Option<String>> {
        let key = (role.to_owned(), own.shape.clone());
        let mut searched = self.searched.borrow_mut();
        let by_values = match searched.get(&key) {
            Some(by_values) => by_values,
            None => {
                let by_values = self.by_values(parameters, role, &own.shape)?;
                searched.entry(key).or_insert(by_values)
            }
        };
        let candidates = by_values.get(&self.hash(found)).into_iter().flatten();
        for tensor in candidates.filter_map(|index| self.tensors.get(*index)) {
            if tensor.name != own.name && values(parameters, tensor.name)? == found {
                return Ok(Some(format!("it equals '{}' of layer '{}'", tensor.name, tensor.layer)));
            }
        }
        Ok(None)
    }

    fn by_values(&self, parameters: &SourceParameters, role: &str, shape: &Shape) -> Result<ByValues> {
        let mut by_values = ByValues::new();
        for (index, tensor) in self.tensors.iter().enumerate().filter(|(_, tensor)| tensor.role == role) {
            if parameters.tensor(tensor.name).is_some_and(|tensor| tensor.shape == *shape) {
                by_values.entry(self.hash(&values(parameters, tensor.name)?)).or_default().push(index);
            }
        }
        Ok(by_values)
    }

    /// Returns the same number for equal values; 0 and −0 are equal.
    fn hash(&self, values: &[f64]) -> u64 {
        // −0 + 0 is 0.
        self.hasher.hash_one(values.iter().map(|value| (value + 0.0).to_bits()).collect::<Vec<u64>>())
    }
}
