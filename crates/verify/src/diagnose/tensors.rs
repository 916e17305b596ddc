//! Finds the tensors that differ by more than their storage explains.

use super::causes::{flipped_bit, other_axis_order};
use super::elements::{lens, permuted, values, with_multiplier, without_unit_axes};
use super::names::MappedNames;
use super::other_layer::LayerTensors;
use crate::compare::index;
use crate::parameters::{SourceParameters, StorageError};
use crate::report::{TensorDiagnosis, TensorPair, TensorSide};
use ckpt_api::{Node, Result};
use ckpt_engine::layout::axis_order;
use ckpt_forward::Parameters;
use ckpt_graph::cells::defaults;
use std::collections::{BTreeSet, HashMap};

/// The tensors of both checkpoints.
pub(crate) struct Checkpoints<'a> {
    pub(crate) a: &'a SourceParameters<'a>,
    pub(crate) b: &'a SourceParameters<'a>,
    /// Storage errors of the second checkpoint, by the first one's names.
    pub(crate) errors: &'a HashMap<String, StorageError>,
    pub(crate) names: &'a MappedNames<'a>,
    /// All tensors of the first graph's layers.
    pub(crate) layers: LayerTensors<'a>,
}

impl Checkpoints<'_> {
    /// Pairs the tensors of a node with those of its counterpart, by role.
    pub(crate) fn tensor_pairs(&self, a: Option<&Node>, b: Option<&Node>) -> Vec<TensorPair> {
        let name = |node: Option<&Node>, role: &str| node.and_then(|node| node.parameters.get(role)).cloned();
        let roles: BTreeSet<&String> =
            [a, b].into_iter().flatten().flat_map(|node| node.parameters.keys()).collect();
        let pair = |role: &String| {
            let (own, theirs) = (name(a, role), name(b, role));
            TensorPair {
                role: role.clone(),
                mapped_by: own.as_ref().and_then(|name| self.names.rule(name)),
                a: own.and_then(|name| side(self.a, &name)),
                b: theirs.and_then(|name| side(self.b, &name)),
            }
        };
        roles.into_iter().map(pair).collect()
    }

    /// Returns the tensors of two nodes that differ by more than their storage explains.
    ///
    /// Nodes whose tensors play different roles (such as a factoriser that was merged into the weight) are compared
    /// by their results alone; so are recurrent layers that have gates in another order, or another number of biases.
    ///
    /// # Errors
    /// Whatever keeps a tensor from being read.
    pub(crate) fn differing(&self, a: &Node, b: &Node) -> Result<Vec<TensorDiagnosis>> {
        let has_same_roles = a.tensors().map(|(role, _)| role).eq(b.tensors().map(|(role, _)| role));
        if !has_same_roles || self.has_other_gates(a, b) {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for ((role, own), (_, theirs)) in a.tensors().zip(b.tensors()) {
            found.extend(self.compare(role, own, theirs)?);
        }
        Ok(found)
    }

    /// Whether two recurrent layers store their gates and biases differently.
    fn has_other_gates(&self, a: &Node, b: &Node) -> bool {
        let Some(own) = defaults(a.op.name()).filter(|_| a.op == b.op) else { return false };
        let gates = |node: &Node| match node.text("gates") {
            Ok(stated) => stated.unwrap_or(own.gates).to_owned(),
            Err(_) => String::new(),
        };
        let biases = |of: &SourceParameters, node: &Node| {
            let tensor = of.tensor(node.parameters.get("bias")?)?;
            Some(tensor.shape.iter().copied().filter(|len| *len != 1).collect::<Vec<_>>())
        };
        gates(a) != gates(b) || biases(self.a, a) != biases(self.b, b)
    }

    /// Compares a tensor with its counterpart; `None` if they differ by no more than their storage explains.
    fn compare(&self, role: &str, a: &str, b: &str) -> Result<Option<TensorDiagnosis>> {
        let (Some(own), Some(theirs)) = (self.a.tensor(a), self.b.tensor(b)) else { return Ok(None) };
        let elements = own.shape.elements();
        let mut diagnosis = TensorDiagnosis {
            role: role.to_owned(),
            a: a.to_owned(),
            b: b.to_owned(),
            differing: elements,
            elements,
            max_absolute: None,
            first: vec![0; own.shape.rank()],
            cause: None,
            mapped_by: self.names.rule(a),
        };
        let (counted, other) = (with_multiplier(own, theirs)?, with_multiplier(theirs, own)?);
        let (squeezed, other) = (without_unit_axes(&counted, &other)?, without_unit_axes(&other, &counted)?);
        let Some(order) = axis_order(&squeezed, &other) else {
            diagnosis.cause =
                Some(format!("its shape is {}; in the reference it is {}", theirs.shape, own.shape));
            return Ok(Some(diagnosis));
        };
        let (x, stored) = (values(self.a, a)?, values(self.b, b)?);
        let y = permuted(&stored, &lens(&other), &order);
        let Some(differences) = Differences::of(&x, &y, self.errors.get(a).copied()) else { return Ok(None) };
        diagnosis.differing = differences.count;
        diagnosis.max_absolute = differences.max;
        diagnosis.first = index(differences.first as u64, &lens(own));
        diagnosis.cause = match (differences.count, x.get(differences.first).zip(y.get(differences.first))) {
            (1, pair) => pair.and_then(|(x, y)| flipped_bit(*x, *y)),
            _ => match other_axis_order(&squeezed, &x, [&y, &stored]) {
                Some(cause) => Some(cause),
                None => self.layers.of_other_layer(self.a, role, own, &y)?,
            },
        };
        Ok(Some(diagnosis))
    }
}

fn side(parameters: &SourceParameters, name: &str) -> Option<TensorSide> {
    let (tensor, storage) = parameters.stored(name)?;
    Some(TensorSide {
        stored_as: None,
        name: name.to_owned(),
        dtype: storage.dtype,
        scale: storage.scaling.map(|scaling| f64::from(scaling.scale.get())),
        shape: tensor.shape.clone(),
    })
}

/// The elements that differ by more than their storage explains.
struct Differences {
    count: u64,
    /// Largest difference; `None` if one is not finite.
    max: Option<f64>,
    /// Position of the first.
    first: usize,
}

impl Differences {
    /// Compares row-major elements; `None` if none differs.
    fn of(x: &[f64], y: &[f64], error: Option<StorageError>) -> Option<Self> {
        let mut found: Option<Differences> = None;
        for (position, (x, y)) in x.iter().zip(y).enumerate() {
            let distance = (x - y).abs();
            let same = x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
            // NaN is within no bound.
            if same || error.is_some_and(|error| distance <= error.of(*x)) {
                continue;
            }
            let all = found.get_or_insert(Differences { count: 0, max: Some(0.0), first: position });
            all.count += 1;
            all.max = all.max.filter(|_| distance.is_finite()).map(|max| max.max(distance));
        }
        found
    }
}
