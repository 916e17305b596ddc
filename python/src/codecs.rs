//! Codecs that a process adds: plugins, and those that are written in Python. Of these, what crosses are the forms of
//! `ckpt-forms`, as dicts.

use crate::errors::Failure;
use ckpt::Registry;
use ckpt::api::{
    Checkpoint, Codec, Contents, Error, File, FormatInfo, Input, Kind, Limit, Limits, Literal, Match,
    Options, OutputLayout, Result, Written,
};
use ckpt_forms::{
    CheckpointForm, ContentsForm, FormatForm, LiteralForm, MatchForm, OptionsForm, OutputLayoutForm,
    WrittenForm,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pythonize::{depythonize, pythonize};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

static ADDED: RwLock<Added> = RwLock::new(Added { ids: Vec::new(), registry: None });

/// What this process added to the formats of the package.
struct Added {
    ids: Vec<String>,
    /// The formats with all of them; `None` before the first.
    registry: Option<Registry>,
}

/// What comes with the package, and what this process added.
pub(crate) fn registry() -> Registry {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    added.registry.clone().unwrap_or_else(Registry::builtin)
}

/// Adds the codec of an id, in place of one that this process added before.
fn add(id: &str, addition: impl FnOnce(Registry) -> Result<Registry>) -> Result<()> {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let mut known = added.registry.clone().unwrap_or_else(Registry::builtin);
    let is_own = added.ids.iter().any(|other| other == id);
    if is_own {
        known.remove(id);
    }
    added.registry = Some(addition(known)?);
    if !is_own {
        added.ids.push(id.to_owned());
    }
    Ok(())
}

/// Registers a codec: an object of `ckpt._codecs`.
#[pyfunction]
pub(crate) fn register_codec(py: Python<'_>, codec: Py<PyAny>) -> PyResult<()> {
    let register = |codec: PythonCodec| {
        Ok(add(codec.info.id, |mut registry| {
            registry.add(codec.clone())?;
            Ok(registry)
        })?)
    };
    PythonCodec::new(py, codec).and_then(register).map_err(|failure| failure.into_python(py))
}

/// Loads a plugin; returns the id of its format.
#[pyfunction]
pub(crate) fn load_plugin(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let load = || {
        let builtin = Registry::builtin();
        let count = builtin.codecs().count();
        let alone = builtin.with_plugin_file(&path)?;
        let id = alone.codecs().nth(count).map(|codec| codec.info().id).unwrap_or_default();
        add(id, |registry| registry.with_plugin_file(&path))?;
        Ok(id.to_owned())
    };
    py.detach(load).map_err(|error: Error| Failure::from(error).into_python(py))
}

/// A codec in Python.
#[derive(Clone)]
struct PythonCodec {
    info: &'static FormatInfo,
    object: Arc<Py<PyAny>>,
}

impl PythonCodec {
    fn new(py: Python<'_>, object: Py<PyAny>) -> std::result::Result<Self, Failure> {
        let description = object.bind(py).call_method0("description")?;
        let form: FormatForm = depythonize(&description).map_err(PyErr::from)?;
        Ok(PythonCodec { info: form.into_info()?, object: Arc::new(object) })
    }

    /// Calls a method, and reads what it returns as a form.
    fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Vec<Py<PyAny>>>,
    ) -> Result<T> {
        Python::attach(|py| {
            let failed = |raised: PyErr| self.failed(py, method, raised);
            let arguments = pyo3::types::PyTuple::new(py, arguments(py).map_err(failed)?).map_err(failed)?;
            let found = self.object.bind(py).call_method1(method, arguments).map_err(failed)?;
            depythonize(&found).map_err(|error| {
                Error::unsupported(format!(
                    "what the codec '{}' returns is not what it must be",
                    self.info.id
                ))
                .field(method.to_owned())
                .found(error.to_string())
                .help("the guide's page \"Codecs in Python\" lists the keys")
            })
        })
    }

    /// The error of an exception: of the same kind if it is one of this package's.
    fn failed(&self, py: Python<'_>, method: &str, raised: PyErr) -> Error {
        let value = raised.value(py);
        let text = value.to_string();
        let class = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        let error = match kind(py, &raised) {
            Some(kind) => {
                let known = |name: &str| value.getattr(name).ok()?.extract::<String>().ok();
                let mut error = Error::new(kind, text);
                if let Some(tensor) = known("tensor") {
                    error = error.tensor(tensor);
                }
                if let Some(help) = known("help") {
                    error = error.help(help);
                }
                error
            }
            None => Error::unsupported(format!("the codec '{}' failed", self.info.id))
                .field(method.to_owned())
                .found(if text.is_empty() { class } else { format!("{class}: {text}") }),
        };
        error.caused_by(raised)
    }
}

/// The kind of an exception of this package.
fn kind(py: Python<'_>, raised: &PyErr) -> Option<Kind> {
    const KINDS: [(&str, Kind); 8] = [
        ("CorruptError", Kind::Corrupt),
        ("UnsupportedError", Kind::Unsupported),
        ("LimitError", Kind::Limit),
        ("LossyError", Kind::Lossy),
        ("MappingError", Kind::Mapping),
        ("MismatchError", Kind::Mismatch),
        ("UsageError", Kind::Usage),
        ("InputOutputError", Kind::Io),
    ];
    let module = py.import("ckpt._errors").ok()?;
    let is_it = |name: &str| module.getattr(name).is_ok_and(|class| raised.is_instance(py, &class));
    KINDS.into_iter().find(|(name, _)| is_it(name)).map(|(_, kind)| kind)
}

fn dict(py: Python<'_>, form: &impl serde::Serialize) -> PyResult<Py<PyAny>> {
    Ok(pythonize(py, form)?.unbind())
}

fn options_of(py: Python<'_>, options: &Options) -> PyResult<Py<PyAny>> {
    let values = PyDict::new(py);
    for (name, value) in OptionsForm::from(options).values {
        values.set_item(name, value)?;
    }
    Ok(values.into_any().unbind())
}

impl Codec for PythonCodec {
    fn info(&self) -> &FormatInfo {
        self.info
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let verdict: MatchForm = self.call("probe", |py| Ok(vec![CodecInput::of(input, py)?]))?;
        Ok(verdict.into())
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        let form: ContentsForm =
            self.call("read", |py| Ok(vec![CodecInput::of(input, py)?, options_of(py, options)?]))?;
        form.into_contents(limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        let form: OutputLayoutForm = self.call("place", |py| {
            let name = pyo3::types::PyString::new(py, name).into_any().unbind();
            Ok(vec![dict(py, &CheckpointForm::from(checkpoint.clone()))?, name, options_of(py, options)?])
        })?;
        let layout = form.into_layout(&Limits::default())?;
        layout.check(checkpoint).map_err(|error| match error.kind() {
            Kind::Defect => {
                Error::unsupported(format!("the codec '{}' places tensors wrongly", self.info.id))
                    .found(error.to_string())
            }
            _ => error,
        })?;
        Ok(layout)
    }

    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        let literals: Vec<LiteralForm> = self.call("finish", |py| {
            let written: Vec<WrittenForm> = written.iter().map(WrittenForm::from).collect();
            Ok(vec![dict(py, &OutputLayoutForm::from(placed.clone()))?, dict(py, &written)?])
        })?;
        Ok(literals.into_iter().map(LiteralForm::into_literal).collect())
    }
}

/// What a codec in Python reads: the file that the user named, and those beside it.
#[pyclass(frozen, module = "ckpt._ckpt")]
pub(crate) struct CodecInput {
    input: Input,
    /// The files that were read, by name.
    files: Mutex<HashMap<String, File>>,
}

impl CodecInput {
    fn of(input: &Input, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let own = CodecInput { input: input.clone(), files: Mutex::default() };
        Ok(Py::new(py, own)?.into_any())
    }

    fn file(&self, name: Option<&str>) -> Result<File> {
        let name = name.unwrap_or(self.input.entry());
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(name) {
            return Ok(file.clone());
        }
        let file = self.input.file(name)?;
        self.input.limits().check(Limit::Files, files.len() as u64 + 1)?;
        files.insert(name.to_owned(), file.clone());
        Ok(file)
    }
}

#[pymethods]
impl CodecInput {
    #[getter]
    fn entry(&self) -> &str {
        self.input.entry()
    }

    #[getter]
    fn is_directory(&self) -> bool {
        self.input.is_directory()
    }

    #[pyo3(signature = (directory=""))]
    fn list(&self, py: Python<'_>, directory: &str) -> PyResult<Vec<String>> {
        py.detach(|| self.input.list(directory)).map_err(|error| Failure::from(error).into_python(py))
    }

    #[pyo3(signature = (name=None))]
    fn size(&self, py: Python<'_>, name: Option<&str>) -> PyResult<u64> {
        let file = py.detach(|| self.file(name));
        file.map(|file| file.len()).map_err(|error| Failure::from(error).into_python(py))
    }

    #[pyo3(signature = (offset, length, name=None))]
    fn read(&self, py: Python<'_>, offset: u64, length: u64, name: Option<&str>) -> PyResult<Py<PyBytes>> {
        let bytes = py.detach(|| {
            self.input.limits().check(Limit::HeaderBytes, length)?;
            let file = self.file(name)?;
            file.bytes(offset, length.min(file.len().saturating_sub(offset)))
        });
        bytes
            .map(|bytes| PyBytes::new(py, &bytes).unbind())
            .map_err(|error| Failure::from(error).into_python(py))
    }
}
