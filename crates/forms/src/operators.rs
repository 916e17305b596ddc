//! Operators that a codec defines, and calls of them.

use super::bytes::Bytes;
use super::document::Document;
use ckpt_api::{Axis, Error, InputKind, InputSpec, Node, OpCall, OpShapes, OpSpec, ParameterSpec, Result};
use serde::{Deserialize, Serialize};

/// The form of an [`OpSpec`]. Its definition stays where the codec is: functions run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperatorForm {
    /// Its name, as graphs have it.
    pub name: String,
    /// The inputs, in order.
    pub inputs: Vec<OpInputForm>,
    /// The tensors that a node may be bound to.
    pub parameters: Vec<OpParameterForm>,
    /// The attributes that a node may have.
    pub attributes: Vec<String>,
}

/// The form of an [`InputSpec`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpInputForm {
    /// What the indices point into; `None` for real numbers.
    pub index: Option<OpIndexForm>,
    /// Whether a node may leave the input out.
    pub is_optional: bool,
}

/// What the indices of an input point into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpIndexForm {
    /// Role of the tensor.
    pub role: String,
    /// An index is less than the product of the lengths of these axes.
    pub axes: Vec<Document<Axis>>,
    /// Whether −1 stands for no index.
    #[serde(default)]
    pub is_padded: bool,
}

/// The form of a [`ParameterSpec`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpParameterForm {
    /// Role.
    pub role: String,
    /// Meaning of the axes, slowest first.
    pub axes: Vec<Document<Axis>>,
    /// The axes that a tensor may lack.
    pub optional_axes: Vec<Document<Axis>>,
    /// Whether a node may lack the tensor.
    pub is_optional: bool,
}

/// The form of [`OpShapes`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpShapesForm {
    /// The node.
    pub node: Document<Node>,
    /// Shapes of the inputs; `None` for one that is left out.
    pub inputs: Vec<Option<Vec<u64>>>,
    /// Roles and shapes of the tensors that the node has.
    pub parameters: Vec<(String, Vec<u64>)>,
}

/// The elements of an [`OpCall`]: 64-bit floats in little-endian order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpValuesForm {
    /// Those of the inputs; none for one that is left out.
    pub inputs: Vec<Bytes>,
    /// Those of the tensors, in the order of their shapes.
    pub parameters: Vec<Bytes>,
}

impl From<&OpSpec> for OperatorForm {
    fn from(spec: &OpSpec) -> Self {
        OperatorForm {
            name: spec.name.to_owned(),
            inputs: spec.inputs.iter().map(OpInputForm::from).collect(),
            parameters: spec.parameters.iter().map(OpParameterForm::from).collect(),
            attributes: spec.attributes.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

impl From<&InputSpec> for OpInputForm {
    fn from(spec: &InputSpec) -> Self {
        let index = match spec.kind {
            InputKind::Index { role, axes, is_padded } => {
                Some(OpIndexForm { role: role.to_owned(), axes: documents(axes), is_padded })
            }
            _ => None,
        };
        OpInputForm { index, is_optional: spec.is_optional }
    }
}

impl From<&ParameterSpec> for OpParameterForm {
    fn from(spec: &ParameterSpec) -> Self {
        OpParameterForm {
            role: spec.role.to_owned(),
            axes: documents(spec.axes),
            optional_axes: documents(spec.optional_axes),
            is_optional: spec.is_optional,
        }
    }
}

impl OpInputForm {
    /// The input. It stays in memory until the process ends, as the other specs of codecs do.
    pub fn into_spec(self) -> InputSpec {
        let spec = match self.index {
            None => InputSpec::real(),
            Some(OpIndexForm { role, axes, is_padded }) => {
                let spec = InputSpec::index(role.leak(), leak(axes));
                if is_padded { spec.padded() } else { spec }
            }
        };
        if self.is_optional { spec.optional() } else { spec }
    }
}

impl OpParameterForm {
    /// The tensor's spec. It stays in memory until the process ends.
    pub fn into_spec(self) -> ParameterSpec {
        let spec =
            ParameterSpec::new(self.role.leak(), leak(self.axes)).optional_axes(leak(self.optional_axes));
        if self.is_optional { spec.optional() } else { spec }
    }
}

impl From<&OpShapes<'_>> for OpShapesForm {
    fn from(shapes: &OpShapes) -> Self {
        let parameters = shapes.parameters().iter();
        OpShapesForm {
            node: Document(shapes.node().clone()),
            inputs: shapes.inputs().iter().map(|shape| shape.as_deref().map(wide)).collect(),
            parameters: parameters.map(|(role, shape)| ((*role).to_owned(), wide(shape))).collect(),
        }
    }
}

/// An [`OpShapesForm`] as the operator's functions take it.
#[derive(Debug)]
pub struct OwnedShapes {
    node: Node,
    inputs: Vec<Option<Vec<usize>>>,
    parameters: Vec<(&'static str, Vec<usize>)>,
}

impl OpShapesForm {
    /// The shapes of a node of this operator.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a role that the operator does not have, or a length beyond the address space.
    pub fn into_shapes(self, spec: &OpSpec) -> Result<OwnedShapes> {
        let role = |name: &str| {
            let own = spec.parameters.iter().find(|parameter| parameter.role == name);
            own.map(|parameter| parameter.role).ok_or_else(|| {
                Error::unsupported("the operator has no tensor of this role").found(format!("'{name}'"))
            })
        };
        let inputs = self.inputs.iter().map(|shape| shape.as_deref().map(narrow).transpose());
        let parameters = self.parameters.iter().map(|(name, shape)| Ok((role(name)?, narrow(shape)?)));
        Ok(OwnedShapes {
            inputs: inputs.collect::<Result<_>>()?,
            parameters: parameters.collect::<Result<_>>()?,
            node: self.node.0,
        })
    }
}

impl OwnedShapes {
    /// The shapes.
    pub fn shapes(&self) -> OpShapes<'_> {
        OpShapes::new(&self.node, &self.inputs, &self.parameters)
    }
}

impl From<&OpCall<'_>> for OpValuesForm {
    fn from(call: &OpCall) -> Self {
        let bytes = |values: &&[f64]| Bytes::of_floats(values);
        OpValuesForm {
            inputs: call.inputs().iter().map(bytes).collect(),
            parameters: call.parameters().iter().map(bytes).collect(),
        }
    }
}

impl Bytes {
    /// The bytes of 64-bit floats, in little-endian order.
    pub fn of_floats(values: &[f64]) -> Self {
        Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// The 64-bit floats of which these are the bytes. Bytes beyond the last whole one are left out.
    pub fn floats(&self) -> Vec<f64> {
        self.0.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
    }
}

/// A shape as it crosses.
pub(crate) fn wide(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|len| *len as u64).collect()
}

/// A shape that crossed.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a length beyond the address space.
pub fn narrow(shape: &[u64]) -> Result<Vec<usize>> {
    let len = |len: &u64| {
        usize::try_from(*len).map_err(|_| {
            Error::unsupported("the length of an axis is beyond the address space").found(len.to_string())
        })
    };
    shape.iter().map(len).collect()
}

fn documents(axes: &[Axis]) -> Vec<Document<Axis>> {
    axes.iter().copied().map(Document).collect()
}

fn leak(axes: Vec<Document<Axis>>) -> &'static [Axis] {
    axes.into_iter().map(|Document(axis)| axis).collect::<Vec<_>>().leak()
}
