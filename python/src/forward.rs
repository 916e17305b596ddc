//! Forward passes.

use crate::codecs::registry;
use crate::elements;
use crate::errors::{Failure, json};
use crate::options::bytes;
use crate::source::Source;
use crate::work::{Interrupted, long};
use ckpt::api::{DType, Error};
use ckpt::verify::{DEFAULT_MEMORY, Inputs, devices};
use ckpt_buffers::{Array, Storage};
use ckpt_forward::{Arithmetic, Array as Numbers, Value};
use pyo3::prelude::*;
use std::sync::Arc;

/// The name of an input, if it has one, the code of its numbers (`f`, `d` or `i`), its shape, and its bytes.
type GivenArray = (Option<String>, String, Vec<usize>, Vec<u8>);

/// The name of an output, its dtype, and its elements.
type Output = (String, &'static str, Array);

/// The inputs of a graph.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Given {
    arrays: Vec<GivenArray>,
    seed: u64,
    batch: usize,
}

pub(crate) fn inputs(given: Given) -> Result<Inputs, Failure> {
    let arrays =
        given.arrays.into_iter().map(|(name, code, shape, bytes)| Ok((name, value(&code, shape, &bytes)?)));
    let arrays = arrays.collect::<Result<_, Failure>>()?;
    Ok(Inputs { arrays, seed: given.seed, batch: given.batch, ..Inputs::default() })
}

fn value(code: &str, shape: Vec<usize>, bytes: &[u8]) -> Result<Value, Failure> {
    fn numbers<T, const N: usize>(bytes: &[u8], decode: impl Fn([u8; N]) -> T) -> Vec<T> {
        bytes.as_chunks().0.iter().map(|bytes| decode(*bytes)).collect()
    }
    let array = match code {
        "f" => Numbers::F32(numbers(bytes, f32::from_le_bytes)),
        "d" => Numbers::F64(numbers(bytes, f64::from_le_bytes)),
        "i" => Numbers::I32(numbers(bytes, i32::from_le_bytes)),
        other => return Err(Error::defect("no numbers have this code").found(other).into()),
    };
    Ok(Value::new(shape, array)?)
}

/// Runs a graph; returns the outputs by name with their dtypes, and the device, inputs and notes as JSON.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    model: PyRef<'_, Source>,
    given: Given,
    device: String,
    arithmetic: String,
    integers: Option<i32>,
    max_memory: Option<String>,
) -> PyResult<(Vec<Output>, String)> {
    let source = model.get().map_err(|failure| failure.into_python(py))?;
    let (outputs, report) = long(py, Interrupted::Abandoned, move |canceled| {
        let memory = max_memory.map_or(Ok(DEFAULT_MEMORY), |size| bytes(&size, "max_memory"))?;
        let mut device = match arithmetic.as_str() {
            "f32" => devices::open(&device, Arithmetic::F32),
            "f64" => devices::open(&device, Arithmetic::F64),
            "f32-in-f64" => devices::open(&device, Arithmetic::F32InF64),
            "fast" => devices::open_fast(&device),
            other => Err(no_arithmetic(other, "f32, f64, f32-in-f64 or fast")),
        }?;
        let source = source.cancelable(Arc::clone(canceled));
        let inputs = inputs(given)?;
        let pass = ckpt::verify::run(&registry(), &source, &inputs, integers, &mut *device, memory)?;
        let report = json(&pass)?;
        Ok((pass.outputs, report))
    })?;
    let array = |(name, value): (String, Value)| {
        let shape: Vec<u64> = value.shape.iter().map(|len| *len as u64).collect();
        let (dtype, bytes) = stored(&value.array);
        Ok((name, dtype.name(), elements::array(Storage::from(bytes), &shape, dtype)?))
    };
    Ok((outputs.into_iter().map(array).collect::<PyResult<_>>()?, report))
}

/// The error for an arithmetic with another name than the `expected` ones.
pub(crate) fn no_arithmetic(found: &str, expected: &str) -> Error {
    Error::usage("no such arithmetic").field("arithmetic").found(format!("'{found}'")).expected(expected)
}

fn stored(numbers: &Numbers) -> (DType, Vec<u8>) {
    match numbers {
        Numbers::F32(values) => (DType::F32, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Numbers::F64(values) => (DType::F64, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Numbers::I32(values) => (DType::I32, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
    }
}
