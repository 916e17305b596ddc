//! What the user can state of a checkpoint's model: activations, and whether a chain of layers can describe it.

use super::Checkpoint;
use crate::{Activation, Error, Result, Role, Setting, Tensor, Text, text};

/// Last parts of the names of vectors that are no biases: those of normalizations and of activations with weights.
const NO_BIASES: [&str; 9] = [
    "weight",
    "scale",
    "gamma",
    "alpha",
    "g",
    "moving_mean",
    "moving_variance",
    "running_mean",
    "running_var",
];

impl Checkpoint {
    /// Fills in the activations that the graph does not state, in order; `names` as [`Activation::from_name`] takes
    /// them.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] without a graph, for an unknown name, or where the numbers differ.
    pub fn specify<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let given = names.into_iter().map(Activation::from_name).collect::<Result<Vec<_>>>()?;
        if self.graph.is_none() {
            let message = "the source does not describe its layers, so none can be given an activation";
            return Err(Error::usage(message).help(self.advise_architecture()));
        }
        self.graph.as_mut().map_or(Ok(()), |graph| graph.specify(&given))
    }

    /// Explains how the user can describe a checkpoint without a graph, or why a chain of layers cannot describe it.
    ///
    /// ```
    /// use ckpt_api::{Checkpoint, DType, Shape, Tensor};
    /// let mut model = Checkpoint::default();
    /// model.tensors.push(Tensor::new("gru/weight", DType::F32, Shape::new(vec![3, 4, 4])?));
    /// assert!(model.advise_architecture().contains("'gru/weight' has shape [3, 4, 4]"));
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn advise_architecture(&self) -> Text {
        match self.obstacle_to_architecture() {
            None => {
                text![
                    "describe the model in an architecture file, given with ",
                    Setting::ARCHITECTURE,
                    ": as a chain of layers, or as a graph"
                ]
            }
            Some(why) => format!(
                "an architecture file cannot describe this model as a chain of layers ({why}), but can state \
                     its graph"
            )
            .into(),
        }
    }

    /// Returns why no [`Architecture`](crate::Architecture) can describe a model of these tensors, as a clause, or
    /// `None` if one may.
    ///
    /// It describes a chain either of dense layers or of convolutions, each with at most a bias.
    pub fn obstacle_to_architecture(&self) -> Option<String> {
        let weights = || {
            let is_weight = |tensor: &&Tensor| tensor.role == Role::Weight && tensor.dtype.is_float();
            self.tensors.iter().filter(is_weight)
        };
        let of_rank = |rank: usize| weights().filter(move |tensor| tensor.shape.rank() == rank);
        if let Some(odd) = weights().find(|tensor| !matches!(tensor.shape.rank(), 0 | 1 | 2 | 4)) {
            return Some(format!(
                "'{}' has shape {}, and the weight of a layer has two axes (dense) or four (convolution)",
                odd.name, odd.shape
            ));
        }
        if let Some(vector) = of_rank(1).find(|tensor| is_no_bias(&tensor.name)) {
            return Some(format!("'{}' has one axis and is not a bias", vector.name));
        }
        match (of_rank(2).next(), of_rank(4).next()) {
            (None, None) => {
                return Some(
                    "no tensor has the two axes of a dense layer or the four of a convolution".into(),
                );
            }
            (Some(dense), Some(conv)) => {
                return Some(format!(
                    "it cannot state how a convolution ('{}') is flattened for a dense layer ('{}')",
                    conv.name, dense.name
                ));
            }
            _ => {}
        }
        let (layers, vectors) = (of_rank(2).count() + of_rank(4).count(), of_rank(1).count());
        (vectors > layers).then(|| format!("{vectors} vectors are more than the biases of {layers} layers"))
    }
}

/// Whether a name is one that a bias never has.
fn is_no_bias(name: &str) -> bool {
    let last = name.rsplit(['/', '.']).next().unwrap_or(name);
    NO_BIASES.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Shape};

    fn advice(tensors: &[(&str, &[u64])]) -> Text {
        let tensor = |(name, shape): &(&str, &[u64])| {
            Tensor::new(*name, DType::F32, Shape::new(shape.to_vec()).unwrap())
        };
        let tensors = tensors.iter().map(tensor).collect();
        Checkpoint { tensors, ..Checkpoint::default() }.advise_architecture()
    }

    #[test]
    fn a_chain_of_layers_is_advised_for_dense_layers_or_for_convolutions() {
        for tensors in [
            &[("a.weight", &[3, 4][..]), ("a.bias", &[3]), ("b.weight", &[2, 3]), ("step", &[])][..],
            &[("a/kernel", &[3, 3, 1, 4]), ("a/bias", &[4])],
        ] {
            assert!(
                advice(tensors).starts_with("describe the model in an architecture file"),
                "{}",
                advice(tensors).as_str()
            );
        }
    }

    #[test]
    fn no_chain_of_layers_is_advised_for_tensors_that_none_can_describe() {
        for (tensors, why) in [
            (&[("a/kernel", &[3, 4, 5][..])][..], "'a/kernel' has shape [3, 4, 5]"),
            (&[("a.weight", &[3, 4]), ("norm.weight", &[3])], "'norm.weight' has one axis"),
            (&[("c.weight", &[4, 1, 3, 3]), ("d.weight", &[3, 4])], "how a convolution ('c.weight')"),
            (&[("a.weight", &[3, 4]), ("a.bias", &[3]), ("b", &[3])], "2 vectors are more than"),
            (&[("step", &[])], "no tensor has the two axes"),
            (&[], "no tensor has the two axes"),
        ] {
            let advice = advice(tensors);
            assert!(advice.contains("cannot describe this model") && advice.contains(why), "{advice:?}");
            assert!(advice.ends_with("but can state its graph"), "{advice:?}");
        }
    }
}
