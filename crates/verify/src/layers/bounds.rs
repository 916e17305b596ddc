//! Bounds the error of a layer's result.

use super::batch_norm;
use crate::compare::ErrorBound;
use crate::parameters::{SourceParameters, StorageError};
use ckpt_api::{Error, Node, Op, Result};
use ckpt_forward::{Arithmetic, Array, Cpu, Magnitude, Parameters, Program, Value};
use std::collections::HashMap;

/// Bounds on the errors of layers whose tensors the second checkpoint stores with less precision.
pub(super) struct LayerBounds<'a> {
    /// The first graph.
    pub(super) program: &'a Program<'a>,
    pub(super) parameters: &'a SourceParameters<'a>,
    /// Storage errors by tensor.
    pub(super) errors: &'a HashMap<String, StorageError>,
    /// The first graph over [`ErrorBounds`](crate::parameters::ErrorBounds); `None` if storage changes
    /// nothing.
    pub(super) of_errors: Option<&'a Program<'a>>,
}

impl LayerBounds<'_> {
    /// Returns the bound on each output of the node at `index` on `inputs`.
    ///
    /// # Errors
    /// Whatever keeps a tensor from being read or a node from running.
    pub(super) fn of(&self, index: usize, node: &Node, inputs: &[Value]) -> Result<Vec<ErrorBound>> {
        let rounding = self.program.magnitudes(index, inputs)?;
        let errors: Vec<StorageError> =
            node.tensors().filter_map(|(_, name)| self.errors.get(name)).copied().collect();
        let storage = match (errors.is_empty(), self.of_errors, &node.op) {
            (true, ..) | (_, None, _) => Vec::new(),
            (_, _, Op::BatchNormalization) => match inputs.first() {
                Some(x) => vec![batch_norm::storage_bound(node, self.parameters, self.errors, x)?],
                None => Vec::new(),
            },
            (_, _, Op::LayerNormalization) => {
                let first = rounding.first().and_then(Option::as_ref);
                vec![self.of_layer_norm(node, &errors, first)]
            }
            _ if self.program.is_reference(index) => return Err(no_bound(node)),
            (_, Some(of_errors), _) => match self.program.tensor_errors(index, inputs, of_errors)? {
                Some(bounds) => bounds,
                None => {
                    let inputs: Vec<Value> = inputs.iter().map(absolute).collect();
                    let sums = of_errors.run_node(index, &mut Cpu::new(Arithmetic::F64), &inputs)?;
                    sums.iter().map(|value| value.array.to_f64()).collect()
                }
            },
        };
        let mut storage = storage.into_iter();
        let bound = |rounding| ErrorBound { rounding, storage: storage.next().unwrap_or_default() };
        Ok(rounding.into_iter().map(bound).collect())
    }

    /// Scale and bias each enter a layer normalization once, relative to the whole; the normalized values of a row of
    /// `n` are at most √n.
    fn of_layer_norm(&self, node: &Node, errors: &[StorageError], rounding: Option<&Magnitude>) -> Vec<f64> {
        let max = |of: fn(&StorageError) -> f64| errors.iter().map(of).fold(0.0, f64::max);
        let (relative, absolute) = (max(|error| error.relative), max(|error| error.absolute));
        let scale = node.parameters.get("scale").and_then(|name| self.parameters.tensor(name));
        #[expect(clippy::cast_precision_loss, reason = "lengths of what is in memory are below 2^53")]
        let root = scale.map_or(1.0, |scale| (scale.shape.elements() as f64).sqrt());
        let sums = rounding.iter().flat_map(|rounding| &rounding.sums);
        sums.map(|sum| 2.0 * relative * sum + (1.0 + root) * absolute).collect()
    }
}

/// The error for an operator of unknown arithmetic whose tensors are stored with less precision.
fn no_bound(node: &Node) -> Error {
    Error::unsupported("no error bound is known for this layer with less precise tensors")
        .field(&node.name)
        .found(format!("operator {}, which a codec defines", node.op))
        .help("set a tolerance to use instead of the computed bound")
}

/// The absolute values of real numbers; indices stay.
fn absolute(value: &Value) -> Value {
    let array = match &value.array {
        Array::I32(indices) => Array::I32(indices.clone()),
        reals => Array::F64(reals.to_f64().into_iter().map(f64::abs).collect()),
    };
    Value { shape: value.shape.clone(), array }
}
