//! Lowers an operator that a codec registers to a call of its reference implementation.

use super::copies::permuted;
use super::lowering::{Lowering, Negative, Operand, Task, elements};
use super::weight::{StridedAxis, Weight};
use crate::reference::ReferenceCall;
use crate::value::Numbers;
use ckpt_api::{Axis, Error, InputKind, InputSpec, OpShapes, OpSpec, ParameterSpec, Result};

/// Lowers a node of the operator that `spec` defines.
pub(super) fn registered(lowering: &mut Lowering, spec: &OpSpec) -> Result<()> {
    lowering.allow_attributes(spec.attributes)?;
    lowering.allow_roles(&spec.parameters.iter().map(|parameter| parameter.role).collect::<Vec<_>>())?;
    let mut parameters = Vec::with_capacity(spec.parameters.len());
    for parameter in spec.parameters {
        parameters.extend(bind(lowering, parameter)?);
    }
    let mut operands = Vec::new();
    let inputs = bind_inputs(lowering, spec, &parameters, &mut operands)?;
    operands.extend(parameters.iter().map(|parameter| parameter.operand));
    let parameters: Vec<_> =
        parameters.into_iter().map(|Bound { spec, shape, .. }| (spec.role, shape)).collect();
    let output = spec.shape(&OpShapes::new(lowering.node, &inputs, &parameters))?;
    let operand = lowering.output(output.clone(), Numbers::Real)?;
    let node = lowering.node.clone();
    let call = ReferenceCall { spec: *spec, node, inputs, parameters, output };
    lowering.add(Task::Reference(call), operands, operand);
    Ok(())
}

/// A tensor whose axes are in the order that its spec declares.
struct Bound {
    spec: &'static ParameterSpec,
    shape: Vec<usize>,
    operand: Operand,
}

impl Bound {
    /// Returns the product of the lengths of `axes`.
    fn product(&self, axes: &[Axis]) -> Result<usize> {
        let own = self.spec.axes.iter().zip(&self.shape);
        let lens: Vec<usize> = own.filter(|(axis, _)| axes.contains(axis)).map(|(_, len)| *len).collect();
        elements(&lens)
    }
}

/// Binds the tensor of a role, if the node has it.
fn bind(lowering: &mut Lowering, spec: &'static ParameterSpec) -> Result<Option<Bound>> {
    let weight = match spec.is_optional {
        true => lowering.weight(spec.role, spec.axes, Numbers::Real)?,
        false => Some(lowering.required_weight(spec.role, spec.axes, Numbers::Real)?),
    };
    let Some(weight) = weight else { return Ok(None) };
    let axes = spec.axes.iter().map(|axis| axis_of(&weight, spec, *axis)).collect::<Result<Vec<_>>>()?;
    let shape: Vec<usize> = axes.iter().map(|axis| axis.len).collect();
    let strides: Vec<usize> = axes.iter().map(|axis| axis.stride).collect();
    let operand = lowering.temporary(shape.clone(), Numbers::Real)?;
    permuted(lowering, weight.operand, &shape, &strides, operand)?;
    Ok(Some(Bound { spec, shape, operand }))
}

fn axis_of(weight: &Weight, spec: &ParameterSpec, axis: Axis) -> Result<StridedAxis> {
    match weight.find(axis) {
        None if spec.optional_axes.contains(&axis) => Ok(StridedAxis { len: 1, stride: 0 }),
        _ => weight.axis(axis),
    }
}

/// Binds the inputs, adds those that are present to `operands`, and returns their shapes.
fn bind_inputs(
    lowering: &mut Lowering,
    spec: &OpSpec,
    parameters: &[Bound],
    operands: &mut Vec<Operand>,
) -> Result<Vec<Option<Vec<usize>>>> {
    lowering.at_most(spec.inputs.len())?;
    let mut shapes = Vec::with_capacity(spec.inputs.len());
    for (index, input) in spec.inputs.iter().enumerate() {
        if input.is_optional && lowering.inputs.get(index).is_none_or(Option::is_none) {
            shapes.push(None);
            continue;
        }
        let info = match bound(input, parameters)? {
            Some((bound, negative)) => lowering.index(index, bound, negative)?,
            None => lowering.real(index)?,
        };
        shapes.push(Some(info.shape.clone()));
        operands.push(Operand::Input(index));
    }
    Ok(shapes)
}

/// Returns the bound on an input's indices and what negative ones stand for; `None` for real numbers.
fn bound(input: &InputSpec, parameters: &[Bound]) -> Result<Option<(usize, Negative)>> {
    let InputKind::Index { role, axes, is_padded } = input.kind else { return Ok(None) };
    let table = parameters.iter().find(|parameter| parameter.spec.role == role).ok_or_else(|| {
        Error::corrupt("the layer has an input of indices into a tensor that it lacks").expected(role)
    })?;
    Ok(Some((table.product(axes)?, if is_padded { Negative::Padding } else { Negative::Nothing })))
}
