//! Calls of the reference implementations that codecs register.

use crate::Array;
use ckpt_api::{Error, Node, OpCall, OpShapes, OpSpec, OutputView, Result};
use std::borrow::Cow;

/// A node of an operator that a codec registers, with all shapes known and checked.
#[derive(Clone, Debug)]
pub struct ReferenceCall {
    pub(crate) spec: OpSpec,
    pub(crate) node: Node,
    /// Shapes of the inputs; `None` for one that is left out.
    pub(crate) inputs: Vec<Option<Vec<usize>>>,
    /// Roles and shapes of the tensors that the node has.
    pub(crate) parameters: Vec<(&'static str, Vec<usize>)>,
    pub(crate) output: Vec<usize>,
}

impl ReferenceCall {
    /// Returns the operator's name.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// Computes the result in binary64. The operands are the inputs that are present, in order, and then the tensors.
    ///
    /// # Errors
    /// Those of the implementation; [`ckpt_api::Kind::Unsupported`] for other operands.
    pub fn compute(&self, operands: &[&Array]) -> Result<Array> {
        let given: Vec<Cow<[f64]>> = operands.iter().map(|array| array.as_f64()).collect();
        let mut left = given.iter().map(|values| &**values);
        let mut take = |shape: &[usize]| {
            let len = shape.iter().product::<usize>();
            left.next().filter(|values| values.len() == len).ok_or_else(|| {
                Error::unsupported("an operator got different operands than its node has")
                    .found(self.spec.name)
            })
        };
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for shape in &self.inputs {
            inputs.push(shape.as_ref().map_or(Ok(&[][..]), |shape| take(shape))?);
        }
        let parameters = self.parameters.iter().map(|(_, shape)| take(shape)).collect::<Result<Vec<_>>>()?;
        let shapes = OpShapes::new(&self.node, &self.inputs, &self.parameters);
        let mut values = vec![0.0; self.output.iter().product()];
        let mut output = OutputView::new(&self.output, &mut values);
        self.spec.compute(&OpCall::new(shapes, &inputs, &parameters), &mut output)?;
        Ok(Array::F64(values))
    }

    /// Returns the number of multiply-adds if each element of the result takes as many as the first input has elements in a
    /// row, as a product of matrices or a sum of selected columns does.
    pub(crate) fn operations(&self) -> u64 {
        let row = self.inputs.first().and_then(|shape| shape.as_ref()?.last().copied()).unwrap_or(1);
        let output = self.output.iter().fold(1, |product: u64, len| product.saturating_mul(*len as u64));
        output.saturating_mul(row as u64).saturating_add(self.scratch() as u64)
    }

    /// Returns the number of elements that [`ReferenceCall::compute`] holds besides its operands.
    pub(crate) fn scratch(&self) -> usize {
        let inputs = self.inputs.iter().flatten();
        let shapes = inputs.chain(self.parameters.iter().map(|(_, shape)| shape)).chain([&self.output]);
        shapes.map(|shape| shape.iter().product::<usize>()).fold(0, usize::saturating_add)
    }
}
