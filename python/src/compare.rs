//! Comparisons of two checkpoints.

use crate::codecs::registry;
use crate::errors::{Failure, json};
use crate::forward::{Given, inputs, no_arithmetic};
use crate::options::{Renaming, bytes};
use crate::source::Source;
use crate::work::{Interrupted, long};
use ckpt::api::Limits;
use ckpt::diff::Tolerance;
use ckpt::verify::{DEFAULT_MEMORY, NamedMapping, Options, html};
use pyo3::prelude::*;
use serde_json::json as object;
use std::path::PathBuf;
use std::sync::Arc;

fn tolerance(atol: Option<f64>, rtol: Option<f64>) -> Result<Option<Tolerance>, Failure> {
    Ok(Tolerance::given(("atol", atol), ("rtol", rtol))?)
}

/// Compares tensor by tensor; returns JSON.
#[pyfunction]
pub(crate) fn diff(
    py: Python<'_>,
    a: PyRef<'_, Source>,
    b: PyRef<'_, Source>,
    atol: Option<f64>,
    rtol: Option<f64>,
) -> PyResult<String> {
    let opened = a.get().and_then(|a| Ok((a, b.get()?)));
    let (a, b) = opened.map_err(|failure| failure.into_python(py))?;
    long(py, Interrupted::Abandoned, move |canceled| {
        let tolerance = tolerance(atol, rtol)?;
        let [a, b] = [a, b].map(|side| side.cancelable(Arc::clone(canceled)));
        let found = ckpt::diff::diff(&a, &b, tolerance)?;
        json(&object!({ "agrees": found.agrees(), "report": found }))
    })
}

/// Checks that the files that a receipt names still match it; returns JSON.
#[pyfunction]
pub(crate) fn check_receipt(
    py: Python<'_>,
    text: String,
    file: String,
    root: Option<PathBuf>,
) -> PyResult<String> {
    long(py, Interrupted::Abandoned, move |_| {
        let checked =
            ckpt::receipt::check(&crate::codecs::registry(), &text, root.as_deref(), &Limits::default());
        json(&checked.map_err(|error| error.file(file))?)
    })
}

/// What `ckpt.verify` makes of its arguments.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Verifying {
    renaming: Option<Renaming>,
    inputs: Given,
    devices: Vec<String>,
    arithmetic: String,
    per_layer: bool,
    atol: Option<f64>,
    rtol: Option<f64>,
    max_memory: Option<String>,
}

/// Compares what two checkpoints compute; returns whether they agree, the report as JSON, and as a page of HTML.
#[pyfunction]
pub(crate) fn verify(
    py: Python<'_>,
    a: PyRef<'_, Source>,
    b: PyRef<'_, Source>,
    options: Verifying,
) -> PyResult<(bool, String, String)> {
    let opened = a.get().and_then(|a| Ok((a, b.get()?)));
    let (a, b) = opened.map_err(|failure| failure.into_python(py))?;
    long(py, Interrupted::Abandoned, move |canceled| {
        let limits = Limits::default();
        let mapping = options.renaming.as_ref().map(|renaming| {
            let mapping = renaming.mapping(&limits)?;
            Ok::<_, Failure>(NamedMapping { name: renaming.shown(), mapping })
        });
        let wanted = Options {
            inputs: inputs(options.inputs)?,
            mapping: mapping.transpose()?,
            devices: options.devices,
            fast: match options.arithmetic.as_str() {
                "f32" => false,
                "fast" => true,
                other => return Err(no_arithmetic(other, "f32 or fast").into()),
            },
            per_layer: options.per_layer,
            tolerance: tolerance(options.atol, options.rtol)?,
            memory: options.max_memory.map_or(Ok(DEFAULT_MEMORY), |size| bytes(&size, "max_memory"))?,
            limits,
        };
        let [a, b] = [a, b].map(|side| side.cancelable(Arc::clone(canceled)));
        let found = ckpt::verify::verify(&registry(), &a, &b, &wanted)?;
        Ok((found.verdict.passes(), json(&found)?, html::page(&found)))
    })
}
