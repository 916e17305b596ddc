//! Values of the model that is built, and operators on them.

use crate::model::{Content, Model, ModelTensor, Program, Step};
use crate::operator::{Activation, Operator, Unary};
use ckpt_api::{Checkpoint, DType, Error, Result};
use ckpt_graph::order::{to_first, to_last};
use ckpt_graph::{Dims, Length};
use std::collections::HashMap;

/// Builds a model.
pub(super) struct Builder<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) ids: HashMap<&'a str, usize>,
    pub(super) program: Program,
    pub(super) model: Model,
    /// What the values of the graph are.
    pub(super) values: HashMap<String, Value>,
    /// Their lengths, in the graph's order of axes.
    pub(super) dims: HashMap<String, Dims>,
    /// How often nodes and outputs take each value.
    pub(super) uses: HashMap<&'a str, usize>,
    /// Values with their axes in the other order, by tensor and whether that is turned.
    pub(super) turned: HashMap<(usize, bool), usize>,
    /// Tensors of the checkpoint that the model has, by id and order of their axes.
    pub(super) stored: HashMap<(usize, Vec<usize>), usize>,
    /// Numbers that the model has, each once.
    pub(super) literals: HashMap<(Vec<u8>, Vec<u64>, DType), usize>,
    /// The layer that is being written.
    pub(super) layer: String,
    /// Bytes of the names of what the steps of recurrent layers make.
    pub(super) unrolled: u64,
}

/// What numbers a value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Real,
    Int,
    Bool,
}

impl Kind {
    pub(super) fn dtype(self) -> DType {
        match self {
            Kind::Real => DType::F32,
            Kind::Int => DType::I32,
            Kind::Bool => DType::Bool,
        }
    }
}

/// A value of the graph.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Made(Val),
    Constant(Constant),
}

/// A tensor of the model that is a value of the graph.
#[derive(Clone, Debug)]
pub(super) struct Val {
    /// The tensor's number.
    pub(super) tensor: usize,
    /// Lengths, in the graph's order of axes.
    pub(super) dims: Dims,
    /// Whether the channels, the graph's second axis, are the last axis of the tensor.
    pub(super) is_turned: bool,
    pub(super) kind: Kind,
}

/// Numbers that are known.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    pub(super) numbers: Numbers,
    pub(super) dims: Vec<u64>,
    pub(super) kind: Kind,
}

/// Where the numbers of a constant are.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    /// A tensor of the checkpoint.
    Tensor(usize),
    /// 32-bit floats, or integers of 32 bits.
    Bytes(Vec<[u8; 4]>),
}

impl Val {
    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The place of an axis of the graph among those of the tensor.
    pub(super) fn place(&self, axis: usize) -> usize {
        match self.is_turned {
            true => to_last(self.rank()).iter().position(|own| *own == axis).unwrap_or(axis),
            false => axis,
        }
    }
}

/// Lengths as a tensor has them.
pub(super) fn physical(dims: &[Length], is_turned: bool) -> Dims {
    match is_turned {
        true => to_last(dims.len()).into_iter().filter_map(|axis| dims.get(axis).copied()).collect(),
        false => dims.to_vec(),
    }
}

impl Builder<'_> {
    /// Adds a tensor for a value.
    pub(super) fn value(&mut self, name: &str, dims: Dims, is_turned: bool, kind: Kind) -> Result<Val> {
        let stored = physical(&dims, is_turned);
        let length = |len: &Length| match len {
            Length::Known(len) => i32::try_from(*len).ok().filter(|len| *len >= 0),
            // One example, until the caller has more.
            Length::Free { times, plus, .. } => {
                times.checked_add(*plus).and_then(|len| i32::try_from(len).ok()).filter(|len| *len >= 0)
            }
            Length::Unknown => None,
        };
        let shape = stored.iter().map(length).collect::<Option<Vec<i32>>>().ok_or_else(|| {
            Error::unsupported("the shape of a value is not known, or too large")
                .found(format!("'{name}': {}", ckpt_graph::shape::show(&dims)))
        })?;
        let is_free = stored.iter().any(|len| len.known().is_none());
        let signature =
            stored.iter().zip(&shape).map(|(len, own)| if len.known().is_some() { *own } else { -1 });
        let signature = is_free.then(|| signature.collect());
        let tensor = self.model.tensors.len();
        self.model.tensors.push(ModelTensor {
            name: name.to_owned(),
            shape,
            signature,
            dtype: kind.dtype(),
            content: Content::Made,
        });
        Ok(Val { tensor, dims, is_turned, kind })
    }

    /// Adds an operator with one result.
    pub(super) fn emit(
        &mut self,
        operator: Operator,
        inputs: &[usize],
        (dims, is_turned, kind): (Dims, bool, Kind),
    ) -> Result<Val> {
        let name = self.layer.clone();
        let val = self.value(&name, dims, is_turned, kind)?;
        let inputs = inputs.iter().copied().map(Some).collect();
        self.step(operator, inputs, vec![val.tensor]);
        Ok(val)
    }

    pub(super) fn step(&mut self, operator: Operator, inputs: Vec<Option<usize>>, outputs: Vec<usize>) {
        let activation = Activation::None;
        self.model.steps.push(Step { operator, inputs, outputs, activation, is_open: false });
    }

    /// Adds an operator whose result may get an activation.
    pub(super) fn emit_active(
        &mut self,
        operator: Operator,
        inputs: &[usize],
        result: (Dims, bool, Kind),
    ) -> Result<Val> {
        let val = self.emit(operator, inputs, result)?;
        if let Some(step) = self.model.steps.last_mut() {
            step.is_open = true;
        }
        Ok(val)
    }

    /// A function of each element of a value.
    pub(super) fn unary(&mut self, own: Unary, x: &Val) -> Result<Val> {
        self.emit(Operator::Unary(own), &[x.tensor], (x.dims.clone(), x.is_turned, x.kind))
    }

    /// Gives the operator that made a value an activation, if it takes one; whether it did.
    pub(super) fn fused(&mut self, val: &Val, activation: Activation) -> bool {
        let Some(step) = self.model.steps.last_mut() else { return false };
        if !step.is_open || step.outputs != [val.tensor] {
            return false;
        }
        (step.activation, step.is_open) = (activation, false);
        if let Some(tensor) = self.model.tensors.get_mut(val.tensor) {
            tensor.name.clone_from(&self.layer);
        }
        true
    }

    /// The value of this name: constants become tensors.
    pub(super) fn take(&mut self, name: &str) -> Result<Val> {
        match self.values.get(name).cloned() {
            Some(Value::Made(val)) => Ok(val),
            Some(Value::Constant(constant)) => self.placed(&constant, constant.dims.len(), false),
            None => Err(missing().found(format!("'{name}'"))),
        }
    }

    /// A value with its axes in the graph's order.
    pub(super) fn plain(&mut self, val: &Val) -> Result<Val> {
        if val.is_turned { self.transposed(val, false) } else { Ok(val.clone()) }
    }

    /// A value with its channels last.
    pub(super) fn turned(&mut self, val: &Val) -> Result<Val> {
        if val.is_turned { Ok(val.clone()) } else { self.transposed(val, true) }
    }

    fn transposed(&mut self, val: &Val, is_turned: bool) -> Result<Val> {
        let rank = val.rank();
        let perm = if is_turned { to_last(rank) } else { to_first(rank) };
        if perm.is_sorted() {
            return Ok(Val { is_turned, ..val.clone() });
        }
        if let Some(tensor) = self.turned.get(&(val.tensor, is_turned)) {
            return Ok(Val { tensor: *tensor, is_turned, ..val.clone() });
        }
        let made = self.permuted(val, &perm, (val.dims.clone(), is_turned))?;
        self.turned.insert((val.tensor, is_turned), made.tensor);
        self.turned.insert((made.tensor, val.is_turned), val.tensor);
        Ok(made)
    }

    /// Axis `k` of the result's tensor is axis `perm[k]` of the value's.
    pub(super) fn permuted(
        &mut self,
        val: &Val,
        perm: &[usize],
        (dims, is_turned): (Dims, bool),
    ) -> Result<Val> {
        let perm: Vec<i64> = perm.iter().map(|axis| i64::try_from(*axis).unwrap_or(i64::MAX)).collect();
        let perm = self.ints(&perm)?;
        self.emit(Operator::Transpose, &[val.tensor, perm], (dims, is_turned, val.kind))
    }

    /// The same elements, in the order in which the value is stored, in another shape. A turned value stays so.
    pub(super) fn reshaped(&mut self, val: &Val, dims: Dims) -> Result<Val> {
        let mut open = 0;
        let mut entry = |len: &Length| match len.known() {
            Some(len) => len,
            None => {
                open += 1;
                -1
            }
        };
        let shape: Vec<i64> = physical(&dims, val.is_turned).iter().map(&mut entry).collect();
        if open > 1 {
            return Err(Error::unsupported(
                "a value is reshaped to several free lengths, which TensorFlow cannot state",
            )
            .found(ckpt_graph::shape::show(&dims)));
        }
        let narrow = shape.iter().map(|len| i32::try_from(*len).unwrap_or(i32::MAX)).collect();
        let shape = self.ints(&shape)?;
        let reshape = Operator::Reshape { shape: narrow };
        self.emit(reshape, &[val.tensor, shape], (dims, val.is_turned, val.kind))
    }
}

pub(super) fn missing() -> Error {
    Error::corrupt("a layer takes a value that no earlier layer produces")
}
