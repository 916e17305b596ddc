//! Tensors in memory, written in any format.

use crate::codecs::registry;
use crate::convert::Settings;
use crate::errors::{Failure, json};
use crate::options::limits;
use crate::planned::losses;
use crate::work::{Interrupted, long};
use ckpt::api::{DType, Error};
use ckpt::{Execution, Writer};
use ckpt_buffers::View;
use pyo3::prelude::*;
use serde_json::json as object;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

/// A tensor that Python owns.
struct Held {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
    view: View,
}

impl ckpt::View for Held {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn shape(&self) -> Vec<u64> {
        self.shape.clone()
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.view.bytes())
    }
}

/// Name, dtype, shape, and an object with the buffer protocol.
type Given<'py> = (String, String, Vec<u64>, Bound<'py, PyAny>);

/// Writes tensors as a checkpoint; returns the summary and the losses as JSON.
#[pyfunction]
pub(crate) fn save(
    py: Python<'_>,
    path: PathBuf,
    tensors: Vec<Given<'_>>,
    metadata: Vec<(String, String)>,
    settings: Settings,
    sync: bool,
) -> PyResult<String> {
    let held = tensors.into_iter().map(|(name, dtype, shape, object)| {
        let dtype = dtype
            .parse()
            .map_err(|error: Error| Failure::from(error.tensor(name.as_str())).into_python(py))?;
        Ok(Held { dtype, shape, view: View::get(&object)?, name })
    });
    let held = held.collect::<PyResult<Vec<Held>>>()?;
    long(py, Interrupted::Joined, move |canceled| {
        let registry = registry();
        let conversion = settings.conversion(limits(&[])?)?;
        let namespace = match &conversion.to {
            Some(id) => registry.writer(id)?,
            None => registry.for_extension(&path.to_string_lossy())?,
        };
        let namespace = namespace.info().id;
        let execution = Execution::new().sync(sync).canceled(Arc::clone(canceled));
        let mut writer = Writer::to(path)
            .registry(registry)
            .policy(conversion.policy)
            .resources(conversion.resources)
            .overwrite(conversion.overwrite)
            .execution(execution)
            .format(namespace);
        for (key, value) in conversion.options {
            writer = writer.set(key, value);
        }
        for (key, value) in metadata {
            writer = writer.metadata(namespace, &key, value);
        }
        for tensor in &held {
            writer = writer.view(&tensor.name, tensor)?;
        }
        let summary = writer.finish()?;
        json(&object!({ "summary": summary, "losses": losses(&summary.losses) }))
    })
}
