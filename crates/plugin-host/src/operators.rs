//! Operators that a plugin defines.

use super::pool::Pool;
use ckpt_api::{HostedOp, OpCall, OpShapes, OpSpec, OutputView, Result};
use ckpt_forms::{
    Bytes, Function, OpInputForm, OpParameterForm, OpShapesForm, OpValuesForm, OperatorForm, narrow,
};
use std::fmt;
use std::sync::Arc;

/// Axes of a result.
const MOST_AXES: usize = 64;

/// The operators of a plugin. They stay in memory until the process ends.
pub(crate) fn operators(stated: Vec<OperatorForm>, pool: &Arc<Pool>) -> &'static [OpSpec] {
    let hosted = stated.into_iter().zip(0..).map(|(form, number)| {
        let OperatorForm { name, inputs, parameters, attributes } = form;
        let name: &'static str = name.leak();
        let op = Box::leak(Box::new(Hosted { pool: Arc::clone(pool), number, name }));
        OpSpec::hosted(name, op)
            .inputs(inputs.into_iter().map(OpInputForm::into_spec).collect::<Vec<_>>().leak())
            .parameters(parameters.into_iter().map(OpParameterForm::into_spec).collect::<Vec<_>>().leak())
            .attributes(attributes.into_iter().map(|name| &*name.leak()).collect::<Vec<_>>().leak())
    });
    hosted.collect::<Vec<_>>().leak()
}

struct Hosted {
    pool: Arc<Pool>,
    number: u32,
    name: &'static str,
}

impl fmt::Debug for Hosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosted").field("name", &self.name).finish_non_exhaustive()
    }
}

impl HostedOp for Hosted {
    fn shape(&self, shapes: &OpShapes) -> Result<Vec<usize>> {
        let request = (self.number, OpShapesForm::from(shapes));
        let shape: Vec<u64> = self.pool.with(|instance| instance.call(Function::OperatorShape, &request))?;
        match shape.len() <= MOST_AXES {
            true => narrow(&shape),
            false => Err(self.pool.misuse("a result with more axes than any tensor has")),
        }
    }

    fn compute(&self, call: &OpCall, result: &mut OutputView) -> Result<()> {
        let shape: Vec<u64> = result.shape().iter().map(|len| *len as u64).collect();
        let request = (self.number, OpShapesForm::from(call.shapes()), shape, OpValuesForm::from(call));
        let bytes: Bytes = self.pool.with(|instance| instance.call(Function::RunOperator, &request))?;
        let elements = bytes.floats();
        if bytes.0.len() != size_of_val(result.values()) {
            return Err(self.pool.misuse("another number of elements than the result has"));
        }
        result.values().copy_from_slice(&elements);
        Ok(())
    }
}
