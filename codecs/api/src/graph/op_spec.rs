//! The definition of an operator that a codec registers.

use crate::{Axis, Error, Node, Result, Text};
use std::fmt;

/// An operator beyond ONNX's, as the codec defines it whose graphs use it: what a node may have, the shape of the
/// result, and a reference implementation.
///
/// A codec registers its operators with [`Codec::ops`](crate::Codec::ops); their nodes have
/// [`Op::custom`](crate::Op::custom) with the same name. The CPU runs the reference implementation. Where the engine
/// has a faster kernel for the name, the kernel computes the same, and tests compare the two.
///
/// ```
/// use ckpt_api::{Axis, InputSpec, OpCall, OpShapes, OpSpec, OutputView, ParameterSpec, Result};
///
/// /// Prelu: `x < 0 ? slope·x : x`, with a slope for each column.
/// const PRELU: OpSpec = OpSpec::new("example.Prelu", shape, reference)
///     .inputs(&[InputSpec::real()])
///     .parameters(&[ParameterSpec::new("slope", &[Axis::Out])]);
///
/// fn shape(shapes: &OpShapes) -> Result<Vec<usize>> {
///     let &[rows, columns] = shapes.input(0) else { return Err(shapes.misfit(0, "[rows, columns]")) };
///     shapes.check_parameter("slope", &[columns])?;
///     Ok(vec![rows, columns])
/// }
///
/// fn reference(call: &OpCall, y: &mut OutputView) -> Result<()> {
///     let (x, slope) = (call.input(0), call.parameter("slope"));
///     let &[rows, columns] = x.shape() else { return Ok(()) };
///     for row in 0..rows {
///         for column in 0..columns {
///             let value = x.at([row, column]);
///             y.set([row, column], if value < 0.0 { slope.at([column]) * value } else { value });
///         }
///     }
///     Ok(())
/// }
/// # assert_eq!(PRELU.name, "example.Prelu");
/// ```
///
/// # For implementers
/// - The engine checks the node before it asks for the shape: inputs and parameters are those that the spec declares, the
///   required ones are present, a tensor has the declared axes, and no attribute is unknown.
/// - `shape` checks everything else. `reference` runs only on shapes that `shape` accepted.
/// - A node has one output. An operator with several results concatenates them; a `Split` follows it.
/// - Arithmetic is binary64. The engine converts inputs and tensors to binary64, divides quantized integers by their
///   scale, and rounds the result to the type of the run.
/// - The functions are pure: the same arguments give the same bits. Neither panics, whatever the node.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OpSpec {
    /// Name, with the namespace of the codec: `example.Prelu`.
    pub name: &'static str,
    /// The inputs, in order.
    pub inputs: &'static [InputSpec],
    /// The tensors that a node may be bound to.
    pub parameters: &'static [ParameterSpec],
    /// The attributes that a node may have. Any other is an error, because it could change the result.
    pub attributes: &'static [&'static str],
    definition: Definition,
}

/// Checks shapes and attributes, and returns the shape of the result.
pub type ResultShape = fn(&OpShapes) -> Result<Vec<usize>>;
/// Computes the result, whose elements are 0 before the call.
pub type Reference = fn(&OpCall, &mut OutputView) -> Result<()>;

#[derive(Clone, Copy, Debug)]
enum Definition {
    Functions { shape: ResultShape, reference: Reference },
    Hosted(&'static dyn HostedOp),
}

/// An operator whose definition is no function of the program, such as one in a plugin.
pub trait HostedOp: fmt::Debug + Send + Sync {
    /// As [`ResultShape`].
    ///
    /// # Errors
    /// As [`ResultShape`].
    fn shape(&self, shapes: &OpShapes) -> Result<Vec<usize>>;

    /// As [`Reference`].
    ///
    /// # Errors
    /// As [`Reference`].
    fn compute(&self, call: &OpCall, result: &mut OutputView) -> Result<()>;
}

/// An input of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputSpec {
    /// What the input holds.
    pub kind: InputKind,
    /// Whether a node may leave the input out.
    pub is_optional: bool,
}

/// What an input holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputKind {
    /// Real numbers.
    Real,
    /// Indices into a tensor. The engine checks each before the operator runs.
    Index {
        /// Role of the tensor.
        role: &'static str,
        /// An index is less than the product of the lengths of these axes.
        axes: &'static [Axis],
        /// Whether −1 stands for no index.
        is_padded: bool,
    },
}

/// A tensor that a node of an operator is bound to.
///
/// A tensor may store its axes in any order; [`OpShapes`] and [`OpCall`] have them in the order of `axes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterSpec {
    /// Role.
    pub role: &'static str,
    /// Meaning of the axes, slowest first.
    pub axes: &'static [Axis],
    /// The axes that a tensor may lack. Their length is then 1.
    pub optional_axes: &'static [Axis],
    /// Whether a node may lack the tensor.
    pub is_optional: bool,
}

impl OpSpec {
    /// Returns an operator without inputs, parameters and attributes.
    pub const fn new(name: &'static str, shape: ResultShape, reference: Reference) -> Self {
        OpSpec::of(name, Definition::Functions { shape, reference })
    }

    /// Returns an operator whose definition is no function of the program, without inputs, parameters and attributes.
    pub const fn hosted(name: &'static str, op: &'static dyn HostedOp) -> Self {
        OpSpec::of(name, Definition::Hosted(op))
    }

    const fn of(name: &'static str, definition: Definition) -> Self {
        OpSpec { name, inputs: &[], parameters: &[], attributes: &[], definition }
    }

    /// Declares the inputs, in order. Optional ones come last.
    #[must_use]
    pub const fn inputs(mut self, inputs: &'static [InputSpec]) -> Self {
        self.inputs = inputs;
        self
    }

    /// Declares the tensors.
    #[must_use]
    pub const fn parameters(mut self, parameters: &'static [ParameterSpec]) -> Self {
        self.parameters = parameters;
        self
    }

    /// Declares the attributes, by name.
    #[must_use]
    pub const fn attributes(mut self, attributes: &'static [&'static str]) -> Self {
        self.attributes = attributes;
        self
    }

    /// Checks shapes and attributes, and returns the shape of the result.
    ///
    /// # Errors
    /// Those of the definition, which says what does not fit.
    pub fn shape(&self, shapes: &OpShapes) -> Result<Vec<usize>> {
        match self.definition {
            Definition::Functions { shape, .. } => shape(shapes),
            Definition::Hosted(op) => op.shape(shapes),
        }
    }

    /// Computes the result, whose elements are 0 before the call.
    ///
    /// # Errors
    /// Those of the definition.
    pub fn compute(&self, call: &OpCall, result: &mut OutputView) -> Result<()> {
        match self.definition {
            Definition::Functions { reference, .. } => reference(call, result),
            Definition::Hosted(op) => op.compute(call, result),
        }
    }
}

impl InputSpec {
    /// Returns an input of real numbers.
    pub const fn real() -> Self {
        InputSpec { kind: InputKind::Real, is_optional: false }
    }

    /// Returns an input of indices into the tensor in `role`: each is less than the product of the lengths of `axes`.
    pub const fn index(role: &'static str, axes: &'static [Axis]) -> Self {
        InputSpec { kind: InputKind::Index { role, axes, is_padded: false }, is_optional: false }
    }

    /// Returns the same input, in which −1 stands for no index. Real numbers stay as they are.
    #[must_use]
    pub const fn padded(mut self) -> Self {
        if let InputKind::Index { role, axes, .. } = self.kind {
            self.kind = InputKind::Index { role, axes, is_padded: true };
        }
        self
    }

    /// Returns the same input, which a node may leave out.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }
}

impl ParameterSpec {
    /// Returns a tensor that a node must have, with these axes, slowest first.
    pub const fn new(role: &'static str, axes: &'static [Axis]) -> Self {
        ParameterSpec { role, axes, optional_axes: &[], is_optional: false }
    }

    /// Declares the axes that the tensor may lack.
    #[must_use]
    pub const fn optional_axes(mut self, axes: &'static [Axis]) -> Self {
        self.optional_axes = axes;
        self
    }

    /// Returns the same tensor, which a node may lack.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }
}

/// A node of a registered operator, with the shapes of its inputs and tensors.
#[derive(Clone, Debug)]
pub struct OpShapes<'a> {
    node: &'a Node,
    inputs: &'a [Option<Vec<usize>>],
    parameters: &'a [(&'static str, Vec<usize>)],
}

impl<'a> OpShapes<'a> {
    /// Creates the shapes of `node`: those of its inputs, `None` for one that is left out, and those of its tensors by
    /// role.
    pub fn new(
        node: &'a Node,
        inputs: &'a [Option<Vec<usize>>],
        parameters: &'a [(&'static str, Vec<usize>)],
    ) -> Self {
        OpShapes { node, inputs, parameters }
    }

    /// Returns the node, for its attributes.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Returns the shapes of all inputs, in order; `None` for one that is left out.
    pub fn inputs(&self) -> &'a [Option<Vec<usize>>] {
        self.inputs
    }

    /// Returns the roles and shapes of the tensors that the node has.
    pub fn parameters(&self) -> &'a [(&'static str, Vec<usize>)] {
        self.parameters
    }

    /// Whether the node has the input at `index`.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// Returns the shape of an input; `[]` for one that is left out.
    pub fn input(&self, index: usize) -> &'a [usize] {
        self.inputs.get(index).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Returns the shape of the tensor in `role`, with the axes that the [`ParameterSpec`] declares; `[]` if the node
    /// lacks it.
    pub fn parameter(&self, role: &str) -> &'a [usize] {
        let found = self.parameters.iter().find(|(own, _)| *own == role);
        found.map_or(&[], |(_, shape)| shape)
    }

    /// Checks the shape of an input, if the node has it.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for another shape than `expected`.
    pub fn check_input(&self, index: usize, expected: &[usize]) -> Result<()> {
        match self.has_input(index) && self.input(index) != expected {
            true => Err(self.misfit(index, format!("{expected:?}"))),
            false => Ok(()),
        }
    }

    /// Checks the shape of the tensor in `role`, if the node has it.
    ///
    /// # Errors
    /// As [`OpShapes::check_input`].
    pub fn check_parameter(&self, role: &str, expected: &[usize]) -> Result<()> {
        match self.place(role) {
            Some(_) if self.parameter(role) != expected => {
                let error = Error::corrupt(format!("the shape of '{role}' does not fit the layer"));
                Err(error.found(format!("{:?}", self.parameter(role))).expected(format!("{expected:?}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error for an input whose shape does not fit the operator.
    pub fn misfit(&self, index: usize, expected: impl Into<Text>) -> Error {
        Error::corrupt("a value's shape does not fit the layer")
            .found(format!("{:?}", self.input(index)))
            .expected(expected)
    }

    fn place(&self, role: &str) -> Option<usize> {
        self.parameters.iter().position(|(own, _)| *own == role)
    }
}

/// A node of a registered operator, with the elements of its inputs and tensors.
#[derive(Clone, Debug)]
pub struct OpCall<'a> {
    shapes: OpShapes<'a>,
    inputs: &'a [&'a [f64]],
    parameters: &'a [&'a [f64]],
}

impl<'a> OpCall<'a> {
    /// Creates a call. `inputs` and `parameters` are parallel to those of `shapes`; an input that is left out has no
    /// elements.
    pub fn new(shapes: OpShapes<'a>, inputs: &'a [&'a [f64]], parameters: &'a [&'a [f64]]) -> Self {
        OpCall { shapes, inputs, parameters }
    }

    /// Returns the shapes.
    pub fn shapes(&self) -> &OpShapes<'a> {
        &self.shapes
    }

    /// Returns the node, for its attributes.
    pub fn node(&self) -> &'a Node {
        self.shapes.node
    }

    /// Returns the elements of all inputs, in order; none for one that is left out.
    pub fn inputs(&self) -> &'a [&'a [f64]] {
        self.inputs
    }

    /// Returns the elements of the tensors, in the order of their shapes.
    pub fn parameters(&self) -> &'a [&'a [f64]] {
        self.parameters
    }

    /// Returns an input; an absent one if the node leaves it out.
    pub fn input(&self, index: usize) -> InputView<'a> {
        let values = self.inputs.get(index).filter(|_| self.shapes.has_input(index));
        InputView { shape: self.shapes.input(index), values: values.copied() }
    }

    /// Returns the tensor in `role`, with the axes that the [`ParameterSpec`] declares; an absent one if the node lacks
    /// it.
    pub fn parameter(&self, role: &str) -> InputView<'a> {
        let values = self.shapes.place(role).and_then(|place| self.parameters.get(place));
        InputView { shape: self.shapes.parameter(role), values: values.copied() }
    }
}

/// The row-major elements of an input or a tensor.
#[derive(Clone, Copy, Debug)]
pub struct InputView<'a> {
    shape: &'a [usize],
    values: Option<&'a [f64]>,
}

impl<'a> InputView<'a> {
    /// Whether the node lacks it.
    pub fn is_absent(&self) -> bool {
        self.values.is_none()
    }

    /// Returns the length of each axis.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Returns the elements, row-major.
    pub fn values(&self) -> &'a [f64] {
        self.values.unwrap_or_default()
    }

    /// Returns an element: 0 if the node lacks the tensor, so that an absent bias adds nothing; NaN beyond the shape.
    pub fn at<const N: usize>(&self, place: [usize; N]) -> f64 {
        match self.values {
            None => 0.0,
            Some(values) => {
                row_major(self.shape, place).and_then(|at| values.get(at).copied()).unwrap_or(f64::NAN)
            }
        }
    }

    /// Returns an element as an index; `None` for padding and beyond the shape. 0 if the node leaves the input out.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "indices are integers; a negative one stands for no index"
    )]
    pub fn index_at<const N: usize>(&self, place: [usize; N]) -> Option<usize> {
        let value = self.at(place);
        (value >= 0.0).then_some(value as usize)
    }
}

/// The row-major elements of a result.
#[derive(Debug)]
pub struct OutputView<'a> {
    shape: &'a [usize],
    values: &'a mut [f64],
}

impl<'a> OutputView<'a> {
    /// Creates a view of `values`, the elements of a tensor of `shape`.
    pub fn new(shape: &'a [usize], values: &'a mut [f64]) -> Self {
        OutputView { shape, values }
    }

    /// Returns the length of each axis.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Returns the elements, row-major.
    pub fn values(&mut self) -> &mut [f64] {
        self.values
    }

    /// Sets an element. Does nothing beyond the shape.
    pub fn set<const N: usize>(&mut self, place: [usize; N], value: f64) {
        if let Some(slot) = row_major(self.shape, place).and_then(|at| self.values.get_mut(at)) {
            *slot = value;
        }
    }
}

/// The position of an element in row-major order; `None` beyond the shape.
fn row_major<const N: usize>(shape: &[usize], place: [usize; N]) -> Option<usize> {
    let within = shape.len() == N && place.iter().zip(shape).all(|(at, len)| at < len);
    within.then(|| place.iter().zip(shape).fold(0, |flat, (at, len)| flat * len + at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    #[test]
    fn an_absent_tensor_reads_as_0_and_an_element_beyond_the_shape_as_nan() {
        let node = Node::new("n", Op::custom("example.Op"));
        let (inputs, parameters) = ([Some(vec![2, 3]), None], [("weight", vec![2])]);
        let shapes = OpShapes::new(&node, &inputs, &parameters);
        assert!(shapes.has_input(0) && !shapes.has_input(1) && !shapes.has_input(2));
        let call = OpCall::new(shapes, &[&[0.0, 1.0, 2.0, 3.0, 4.0, -1.0], &[]], &[&[7.0, 8.0]]);
        let (x, weight) = (call.input(0), call.parameter("weight"));
        assert_eq!((x.at([1, 1]), weight.at([1])), (4.0, 8.0));
        assert!(x.at([0, 3]).is_nan() && x.at([2, 0]).is_nan() && x.at([0]).is_nan());
        assert_eq!((x.index_at([1, 1]), x.index_at([1, 2]), x.index_at([2, 0])), (Some(4), None, None));
        assert!(call.input(1).is_absent() && call.parameter("bias").is_absent());
        assert_eq!((call.input(1).index_at([0]), call.parameter("bias").at([5])), (Some(0), 0.0));
    }

    #[test]
    fn a_result_is_set_by_place() {
        let mut values = [0.0; 6];
        let mut y = OutputView::new(&[2, 3], &mut values);
        y.set([1, 2], 5.0);
        y.set([2, 0], 9.0);
        assert_eq!(values, [0.0, 0.0, 0.0, 0.0, 0.0, 5.0]);
    }

    #[test]
    fn a_shape_that_does_not_fit_is_refused_with_both_shapes() {
        let node = Node::new("n", Op::custom("example.Op"));
        let (inputs, parameters) = ([Some(vec![2, 3])], [("weight", vec![2])]);
        let shapes = OpShapes::new(&node, &inputs, &parameters);
        assert!(shapes.check_input(0, &[2, 3]).is_ok() && shapes.check_input(1, &[9]).is_ok());
        assert!(
            shapes.check_parameter("weight", &[2]).is_ok() && shapes.check_parameter("bias", &[9]).is_ok()
        );
        let error = shapes.check_input(0, &[4]).unwrap_err().to_string();
        assert!(error.contains("[2, 3]") && error.contains("[4]"), "{error}");
        let error = shapes.check_parameter("weight", &[3]).unwrap_err().to_string();
        assert!(error.contains("weight") && error.contains("[2]") && error.contains("[3]"), "{error}");
    }
}
