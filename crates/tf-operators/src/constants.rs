//! Constants of the model that is built.

use crate::model::{Content, ModelTensor, Program};
use crate::operator::Operator;
use crate::unsupported;
use crate::values::{Builder, Constant, Kind, Numbers, Val, Value, physical};
use ckpt_api::{Attribute, Axis, DType, Error, Node, Result, Tensor};
use ckpt_graph::axes;
use ckpt_graph::order::to_last;
use ckpt_graph::shape::of_sizes;

impl Builder<'_> {
    /// Notes what a constant is; it becomes a tensor where it is taken.
    pub(super) fn constant_node(&mut self, node: &Node) -> Result<()> {
        let list = |values: Vec<[u8; 4]>, kind: Kind| -> Result<Constant> {
            let stated = node
                .ints("shape")?
                .map(|shape| shape.iter().map(|len| u64::try_from(*len).ok()).collect::<Option<Vec<u64>>>());
            let dims = match stated {
                Some(dims) => dims.ok_or_else(|| unsupported(node, "its shape is not valid"))?,
                None => vec![values.len() as u64],
            };
            Ok(Constant { numbers: Numbers::Bytes(values), dims, kind })
        };
        let constant = if let Some((id, tensor)) = self.parameter(node, "value")? {
            let kind = match tensor.dtype {
                DType::Bool => Kind::Bool,
                dtype if dtype.is_float() => Kind::Real,
                _ => Kind::Int,
            };
            Constant { numbers: Numbers::Tensor(id), dims: tensor.shape.to_vec(), kind }
        } else if node.attributes.contains_key("value_float") {
            let numbers = Numbers::Bytes(vec![float(node.float("value_float", 0.0)?)]);
            Constant { numbers, dims: Vec::new(), kind: Kind::Real }
        } else if node.attributes.contains_key("value_int") {
            let numbers = Numbers::Bytes(vec![integer(node.int("value_int", 0)?)?]);
            Constant { numbers, dims: Vec::new(), kind: Kind::Int }
        } else if let Some(Attribute::Floats(values)) = node.attributes.get("value_floats") {
            list(values.iter().map(|value| float(*value)).collect(), Kind::Real)?
        } else if let Some(values) = node.ints("value_ints")? {
            list(values.iter().map(|value| integer(*value)).collect::<Result<_>>()?, Kind::Int)?
        } else {
            return Err(unsupported(node, "a constant has no value"));
        };
        self.alias(node, Value::Constant(constant))
    }

    /// A constant as a tensor of `rank` axes, new ones first, with its channels last if it is turned.
    pub(super) fn placed(&mut self, constant: &Constant, rank: usize, is_turned: bool) -> Result<Val> {
        let Constant { numbers, dims, kind } = constant;
        let added = rank.saturating_sub(dims.len());
        let raised: Vec<u64> = std::iter::repeat_n(1, added).chain(dims.iter().copied()).collect();
        let order: Vec<usize> = if is_turned { to_last(rank) } else { (0..rank).collect() };
        // The axes that the constant has itself, in the order in which they are stored.
        let own: Vec<usize> = order.iter().filter_map(|axis| axis.checked_sub(added)).collect();
        let stored: Vec<u64> = order.iter().filter_map(|axis| raised.get(*axis).copied()).collect();
        let tensor = match numbers {
            Numbers::Tensor(id) => self.weight(*id, own, stored)?,
            Numbers::Bytes(elements) => {
                let elements = permuted(elements, dims, &own);
                self.literal(elements.concat(), stored, kind.dtype())?
            }
        };
        Ok(Val { tensor, dims: of_sizes(&raised), is_turned, kind: *kind })
    }

    /// A tensor of the checkpoint with its axes in this order, as a tensor of this shape.
    pub(super) fn weight(&mut self, id: usize, order: Vec<usize>, shape: Vec<u64>) -> Result<usize> {
        let tensor =
            self.checkpoint.tensors.get(id).ok_or_else(|| Error::defect("a tensor does not exist"))?;
        let shape = narrow(&shape, tensor)?;
        let key = (id, order.clone());
        if let Some(known) = self.stored.get(&key).copied() {
            let is_same = self.model.tensors.get(known).is_some_and(|own| own.shape == shape);
            return if is_same { Ok(known) } else { self.viewed(known, tensor, &shape) };
        }
        let is_integer = matches!(tensor.dtype, DType::I32 | DType::I64 | DType::Bool);
        let dtype = match tensor.dtype {
            // TensorFlow.js widens it while it loads a model.
            DType::F16 if self.program == Program::Lite => DType::F16,
            dtype if dtype.is_float() => DType::F32,
            DType::Bool => DType::Bool,
            _ if is_integer => DType::I32,
            other => {
                return Err(Error::unsupported(
                    "a layer's tensor has numbers that the operators do not compute with",
                )
                .tensor(&tensor.name)
                .found(other.name()));
            }
        };
        let number = self.model.tensors.len();
        self.model.tensors.push(ModelTensor {
            name: tensor.name.to_string(),
            shape: shape.clone(),
            signature: None,
            dtype,
            content: Content::Tensor { id, order },
        });
        let made = match dtype {
            DType::F16 => self.widened(number, &shape)?,
            _ => number,
        };
        self.stored.insert(key, made);
        Ok(made)
    }

    /// Floats of 16 bits as those of 32 that operators compute with.
    fn widened(&mut self, tensor: usize, shape: &[i32]) -> Result<usize> {
        let dims: Vec<u64> = shape.iter().map(|len| u64::try_from(*len).unwrap_or(0)).collect();
        Ok(self.emit(Operator::Widen, &[tensor], (of_sizes(&dims), false, Kind::Real))?.tensor)
    }

    /// A tensor of the model in another shape.
    fn viewed(&mut self, tensor: usize, own: &Tensor, shape: &[i32]) -> Result<usize> {
        let kind = if own.dtype.is_float() { Kind::Real } else { Kind::Int };
        let dims: Vec<u64> = shape.iter().map(|len| u64::try_from(*len).unwrap_or(0)).collect();
        let val = Val { tensor, dims: Vec::new(), is_turned: false, kind };
        Ok(self.reshaped(&val, of_sizes(&dims))?.tensor)
    }

    /// A tensor of a few numbers.
    pub(super) fn literal(&mut self, bytes: Vec<u8>, shape: Vec<u64>, dtype: DType) -> Result<usize> {
        let lens = shape.iter().map(|len| i32::try_from(*len).ok()).collect::<Option<Vec<i32>>>();
        let lens = lens.ok_or_else(|| Error::unsupported("a constant is too large"))?;
        let tensor = self.model.tensors.len();
        let key = (bytes.clone(), shape, dtype);
        if let Some(known) = self.literals.get(&key) {
            return Ok(*known);
        }
        self.literals.insert(key, tensor);
        let (name, content) = (format!("{}/constant", self.layer), Content::Bytes(bytes));
        self.model.tensors.push(ModelTensor { name, shape: lens, signature: None, dtype, content });
        Ok(tensor)
    }

    /// A tensor of integers.
    pub(super) fn ints(&mut self, values: &[i64]) -> Result<usize> {
        let bytes = values.iter().map(|value| integer(*value)).collect::<Result<Vec<_>>>()?.concat();
        self.literal(bytes, vec![values.len() as u64], DType::I32)
    }

    /// One number, without axes.
    pub(super) fn scalar(&mut self, value: f64) -> Result<usize> {
        self.literal(float(value).to_vec(), Vec::new(), DType::F32)
    }

    /// One number as a value.
    pub(super) fn scalar_val(&mut self, value: f64) -> Result<Val> {
        let tensor = self.scalar(value)?;
        Ok(Val { tensor, dims: Vec::new(), is_turned: false, kind: Kind::Real })
    }

    /// The axes of a window's kernel: those before its sides, its sides, and those behind. A kernel of sequences has no rows.
    pub(super) fn window_order(
        tensor: &Tensor,
        sides: &[Axis],
        before: &[Axis],
        behind: &[Axis],
    ) -> Result<Vec<usize>> {
        let has_rows = tensor.axis(Axis::KernelY).is_some();
        let sides = sides.iter().filter(|axis| has_rows || **axis != Axis::KernelY);
        let wanted: Vec<Axis> = before.iter().chain(sides).chain(behind).copied().collect();
        axes::order(tensor, &wanted)
    }
}

/// A shape in the format's integers.
fn narrow(shape: &[u64], tensor: &Tensor) -> Result<Vec<i32>> {
    let lens = shape.iter().map(|len| i32::try_from(*len).ok()).collect::<Option<Vec<i32>>>();
    lens.ok_or_else(|| {
        Error::unsupported("an axis is too long for the format")
            .tensor(&tensor.name)
            .found(tensor.shape.to_string())
    })
}

/// The elements of an array with its axes in another order.
fn permuted(elements: &[[u8; 4]], dims: &[u64], order: &[usize]) -> Vec<[u8; 4]> {
    if order.is_sorted() {
        return elements.to_vec();
    }
    let lens: Vec<usize> = dims.iter().map(|len| usize::try_from(*len).unwrap_or(0)).collect();
    let mut strides = vec![1usize; lens.len()];
    for at in (1..lens.len()).rev() {
        strides[at - 1] = strides[at].saturating_mul(lens[at]);
    }
    let of =
        |all: &[usize]| -> Vec<usize> { order.iter().filter_map(|axis| all.get(*axis).copied()).collect() };
    let (lens, strides) = (of(&lens), of(&strides));
    (0..elements.len())
        .filter_map(|index| {
            let (mut rest, mut at) = (index, 0usize);
            for (len, stride) in lens.iter().zip(&strides).rev() {
                at = at.saturating_add(rest.checked_rem(*len)?.saturating_mul(*stride));
                rest = rest.checked_div(*len)?;
            }
            elements.get(at).copied()
        })
        .collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the format computes with 32-bit floats")]
fn float(value: f64) -> [u8; 4] {
    (value as f32).to_le_bytes()
}

pub(super) fn integer(value: i64) -> Result<[u8; 4]> {
    // Ends of ranges may be beyond any length.
    let value = value.clamp(i32::MIN.into(), i32::MAX.into());
    i32::try_from(value).map(i32::to_le_bytes).map_err(|_| Error::defect("an integer is not clamped"))
}

/// The lengths of a value as a tensor has them, for messages of other modules.
pub(super) fn shown(val: &Val) -> String {
    ckpt_graph::shape::show(&physical(&val.dims, val.is_turned))
}
