//! The intermediate that all codecs share.

use crate::{Error, Graph, Metadata, Result, Tensor, TensorId, Ties};
use std::collections::{BTreeMap, HashMap};

/// A graph, named tensors, metadata. It describes; the bytes stay where the [`crate::Placement`]s say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// What the model computes, where the format records it.
    pub graph: Option<Graph>,
    /// All tensors, in the order of the format.
    pub tensors: Vec<Tensor>,
    /// Everything else.
    pub metadata: Metadata,
    /// Which tensors share their bytes in the source. The engine fills it in before [`crate::Codec::place`]; a codec
    /// that reads leaves it empty.
    pub ties: Ties,
}

impl Checkpoint {
    /// The tensor with this name. Takes time linear in the number of tensors, for an index would have to follow every
    /// change of [`Checkpoint::tensors`]: to look up many, make one with [`Checkpoint::by_name`].
    pub fn tensor(&self, name: &str) -> Option<(TensorId, &Tensor)> {
        let id = self.tensors.iter().position(|tensor| tensor.name == name)?;
        Some((TensorId(id), &self.tensors[id]))
    }

    /// An index of all tensors by name.
    pub fn by_name(&self) -> HashMap<&str, TensorId> {
        let pairs = self.tensors.iter().enumerate();
        pairs.map(|(id, tensor)| (tensor.name.as_str(), TensorId(id))).collect()
    }

    /// Renames tensors, and the references of the graph and of slots to them. Names that `names` lacks stay.
    ///
    /// # Errors
    /// [`crate::Kind::Mapping`] when two tensors would get one name.
    pub fn rename(&mut self, names: &BTreeMap<String, String>) -> Result<()> {
        let mut taken: HashMap<&str, &str> = HashMap::with_capacity(self.tensors.len());
        for tensor in &self.tensors {
            let new = names.get(tensor.name.as_str()).map_or(tensor.name.as_str(), String::as_str);
            if let Some(other) = taken.insert(new, &tensor.name) {
                return Err(Error::mapping("two tensors would get the same name")
                    .tensor(new)
                    .found(format!("'{other}' and '{}'", tensor.name))
                    .help("give one of them another name, or exclude it"));
            }
        }
        for tensor in &mut self.tensors {
            if let Some(new) = names.get(tensor.name.as_str()) {
                tensor.name = new.into();
            }
            if let Some(slot) = &mut tensor.slot
                && let Some(new) = names.get(slot.variable.as_str())
            {
                slot.variable = new.into();
            }
        }
        self.follow(names);
        Ok(())
    }

    /// Lets the graph refer to tensors by their new names; the tensors themselves keep theirs.
    pub fn follow(&mut self, names: &BTreeMap<String, String>) {
        let Some(graph) = &mut self.graph else { return };
        graph.each_node_mut(|node| {
            for name in node.parameters.values_mut() {
                if let Some(new) = names.get(name.as_str()) {
                    name.clone_from(new);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Shape};

    fn two() -> Checkpoint {
        let tensor = |name: &str| Tensor::new(name, DType::F32, Shape::scalar());
        Checkpoint { tensors: vec![tensor("a"), tensor("b")], ..Checkpoint::default() }
    }

    #[test]
    fn renaming_onto_a_name_that_stays_is_an_error() {
        let names = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(two().rename(&names).unwrap_err().kind(), crate::Kind::Mapping);
    }

    #[test]
    fn a_slot_follows_the_tensor_that_it_belongs_to() {
        let mut checkpoint = two();
        checkpoint.tensors[1].slot = Some(Box::new(crate::Slot { variable: "a".into(), name: "m".into() }));
        checkpoint.rename(&BTreeMap::from([("a".to_owned(), "w".to_owned())])).unwrap();
        let slot = checkpoint.tensors[1].slot.as_ref().unwrap();
        assert_eq!((slot.variable.as_str(), slot.name.as_str()), ("w", "m"));
    }

    #[test]
    fn names_can_be_swapped() {
        let names = [("a", "b"), ("b", "a")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let mut checkpoint = two();
        checkpoint.rename(&BTreeMap::from(names)).unwrap();
        assert_eq!(checkpoint.tensor("b").unwrap().0, TensorId(0));
    }
}
