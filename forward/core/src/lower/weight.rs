//! Binds a node to its tensors, by the meaning of their axes.

use super::lowering::{Load, Lowering, Operand, elements, misfit};
use super::strides::row_major;
use crate::value::Numbers;
use ckpt_api::{Axis, DType, Error, Quantization, Result, Setting, Tensor, text};
use std::num::NonZeroU32;

/// A tensor bound to a node.
pub(super) struct Weight {
    pub(super) operand: Operand,
    name: String,
    axes: Vec<(Axis, StridedAxis)>,
}

/// Length and stride of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StridedAxis {
    pub(super) len: usize,
    pub(super) stride: usize,
}

impl Weight {
    /// Returns an axis, if the tensor has it.
    pub(super) fn find(&self, axis: Axis) -> Option<StridedAxis> {
        self.axes.iter().find(|(own, _)| *own == axis).map(|(_, strided)| *strided)
    }

    /// Returns an axis that the tensor must have.
    pub(super) fn axis(&self, axis: Axis) -> Result<StridedAxis> {
        self.find(axis).ok_or_else(|| {
            let own: Vec<&str> = self.axes.iter().map(|(own, _)| own.name()).collect();
            Error::corrupt("a tensor lacks an axis that the layer needs")
                .tensor(&self.name)
                .found(format!("axes {}", own.join(" ")))
                .expected(axis.name())
        })
    }

    /// Returns an axis that must have this length.
    pub(super) fn axis_of(&self, axis: Axis, len: usize) -> Result<StridedAxis> {
        let found = self.axis(axis)?;
        if found.len == len {
            return Ok(found);
        }
        Err(Error::corrupt("a tensor does not fit the layer")
            .tensor(&self.name)
            .found(format!("{} on axis {}", found.len, axis.name()))
            .expected(len.to_string()))
    }
}

impl Lowering<'_> {
    /// Binds the tensor in `role`, if there is one. Its axes are among `axes`, in any order.
    pub(super) fn weight(&mut self, role: &str, axes: &[Axis], numbers: Numbers) -> Result<Option<Weight>> {
        let Some(name) = self.node.parameters.get(role) else { return Ok(None) };
        let weight = self.bind(name, axes, numbers).map_err(|error| error.tensor(name))?;
        Ok(Some(weight))
    }

    /// Binds the tensor in `role`, which must be present.
    pub(super) fn required_weight(&mut self, role: &str, axes: &[Axis], numbers: Numbers) -> Result<Weight> {
        self.weight(role, axes, numbers)?.ok_or_else(|| {
            Error::corrupt("the layer lacks a tensor that its operator needs")
                .found(format!("{:?}", self.node.parameters.keys().collect::<Vec<_>>()))
                .expected(role)
        })
    }

    /// Returns what the graph computes in place of the tensor in `role`: input `index`, with these axes in this order.
    pub(super) fn computed(
        &self,
        role: &str,
        index: usize,
        axes: &[Axis],
        numbers: Numbers,
    ) -> Result<Option<Weight>> {
        let Some(info) = self.inputs.get(index).copied().flatten() else { return Ok(None) };
        if self.node.parameters.contains_key(role) {
            return Err(Error::corrupt("the layer has both a tensor and an input in one role").found(role));
        }
        self.check_numbers(info, numbers)?;
        if info.shape.len() != axes.len() {
            return Err(misfit(&info.shape, names(axes)));
        }
        let strided = info.shape.iter().zip(row_major(&info.shape));
        let strided = strided.map(|(len, stride)| StridedAxis { len: *len, stride });
        let axes = axes.iter().copied().zip(strided).collect();
        let name = self.node.inputs.get(index).cloned().unwrap_or_default();
        Ok(Some(Weight { operand: Operand::Input(index), name, axes }))
    }

    /// Binds the tensor in `role`, which must be present, in its stored order of axes, and returns its shape and kind.
    /// Integers are integers unless they represent real numbers; of longer types, their values must fit into 32 bits when
    /// they are loaded.
    pub(super) fn stored(&mut self, role: &str) -> Result<(Vec<usize>, Numbers, Operand)> {
        let name = self.node.parameters.get(role).ok_or_else(|| {
            Error::corrupt("the layer lacks a tensor that its operator needs").expected(role)
        })?;
        let tensor = self.parameters.tensor(name).ok_or_else(|| {
            Error::corrupt("the layer is bound to a tensor that does not exist").tensor(name)
        })?;
        let is_long = matches!(tensor.dtype, DType::I64 | DType::U64 | DType::U32 | DType::Bool);
        let is_integer = is_long || integer_bits(tensor.dtype).is_some();
        let (numbers, scale) = match is_integer && tensor.quantization.is_none() {
            true => (Numbers::Integer, None),
            false => (Numbers::Real, scale(tensor, Numbers::Real).map_err(|error| error.tensor(name))?),
        };
        let lens = tensor.shape.iter().map(|len| usize::try_from(*len).map_err(|_| too_large(tensor)));
        let shape = lens.collect::<Result<Vec<_>>>().map_err(|error| error.tensor(name))?;
        let len = elements(&shape)?;
        let operand = self.load(Load::Tensor { name: name.clone(), len, numbers, scale });
        Ok((shape, numbers, operand))
    }

    /// Fails for a tensor in a role other than `roles`.
    pub(super) fn allow_roles(&self, roles: &[&str]) -> Result<()> {
        match self.node.parameters.keys().find(|role| !roles.contains(&role.as_str())) {
            Some(role) => {
                Err(Error::unsupported(format!("{} has a tensor in an unknown role", self.node.op))
                    .found(format!("'{role}'"))
                    .expected(if roles.is_empty() { "none".to_owned() } else { roles.join(", ") }))
            }
            None => Ok(()),
        }
    }

    fn bind(&mut self, name: &str, wanted: &[Axis], numbers: Numbers) -> Result<Weight> {
        let tensor = self
            .parameters
            .tensor(name)
            .ok_or_else(|| Error::corrupt("the layer is bound to a tensor that does not exist"))?;
        let scale = scale(tensor, numbers)?;
        let axes = strided(tensor, wanted)?;
        let len = usize::try_from(tensor.shape.elements()).map_err(|_| too_large(tensor))?;
        let operand = self.load(Load::Tensor { name: name.to_owned(), len, numbers, scale });
        Ok(Weight { operand, name: name.to_owned(), axes })
    }
}

/// The divisor that converts integers to the real numbers that they represent.
fn scale(tensor: &Tensor, numbers: Numbers) -> Result<Option<f64>> {
    let is_integer = integer_bits(tensor.dtype).is_some();
    match numbers {
        Numbers::Integer if is_integer => Ok(None),
        Numbers::Integer => Err(Error::corrupt("a layer of integers is bound to a tensor of other numbers")
            .found(tensor.dtype.name())
            .expected("integers of at most 32 bits")),
        Numbers::Real if tensor.dtype.is_float() => Ok(None),
        Numbers::Real if is_integer => {
            if let Some(affine) = tensor.quantization.as_ref().and_then(Quantization::affine) {
                return Err(Error::unsupported(
                    "a layer is bound to integers with a zero point or a fraction as scale",
                )
                .found(affine.to_string()));
            }
            Ok(Some(f64::from(tensor.scale().map_or(1, NonZeroU32::get))))
        }
        Numbers::Real => Err(Error::unsupported("a layer is bound to a tensor that is not of real numbers")
            .found(tensor.dtype.name())),
    }
}

/// Returns the bits of an integer type whose values all fit into 32 signed bits.
pub(crate) fn integer_bits(dtype: DType) -> Option<u32> {
    match dtype {
        DType::I32 | DType::I16 | DType::I8 | DType::I4 | DType::I2 => dtype.bits(),
        DType::U16 | DType::U8 | DType::U4 | DType::U2 => dtype.bits(),
        DType::Qi32 | DType::Qi16 | DType::Qi8 | DType::Qu16 | DType::Qu8 => dtype.bits(),
        _ => None,
    }
}

fn too_large(tensor: &Tensor) -> Error {
    Error::limit("a tensor has too many elements").found(tensor.shape.to_string())
}

/// Returns the tensor's axes by meaning, without axes of length 1 that the layer does not need.
fn strided(tensor: &Tensor, wanted: &[Axis]) -> Result<Vec<(Axis, StridedAxis)>> {
    let rank = tensor.shape.rank();
    let meant = match &tensor.axes {
        Some(axes) if axes.len() == rank => axes.clone(),
        // One number for each output.
        None if rank == 1 && wanted.contains(&Axis::Out) => [Axis::Out].into(),
        _ => {
            return Err(Error::usage("the source does not record the meaning of the tensor's axes")
                .found(format!("shape {}", tensor.shape))
                .expected(names(wanted))
                .help(text![
                    "state it as weight_axes in an architecture file, with ",
                    Setting::ARCHITECTURE
                ]));
        }
    };
    let (mut found, mut stride) = (Vec::new(), 1usize);
    for (axis, len) in meant.into_iter().zip(tensor.shape.iter()).rev() {
        // The inputs of a dense layer are the features of a sparse one.
        let axis = match axis {
            Axis::In if !wanted.contains(&Axis::In) && wanted.contains(&Axis::Feature) => Axis::Feature,
            other => other,
        };
        let len = usize::try_from(*len).map_err(|_| too_large(tensor))?;
        if wanted.contains(&axis) && !found.iter().any(|(other, _)| *other == axis) {
            found.push((axis, StridedAxis { len, stride }));
        } else if len != 1 {
            return Err(Error::corrupt("a tensor has an axis that does not belong to the layer")
                .found(format!("{} of length {len}", axis.name()))
                .expected(names(wanted)));
        }
        stride = stride.checked_mul(len.max(1)).ok_or_else(|| too_large(tensor))?;
    }
    Ok(found)
}

fn names(axes: &[Axis]) -> String {
    let names: Vec<&str> = axes.iter().map(|axis| axis.name()).collect();
    format!("axes {}", names.join(" "))
}
