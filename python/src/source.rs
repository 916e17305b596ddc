//! An open checkpoint.

use crate::codecs::registry;
use crate::elements;
use crate::errors::{Failure, json};
use crate::options::Reading;
use crate::work::{Interrupted, long, short};
use ckpt::TensorRef;
use ckpt::api::Error;
use ckpt_buffers::{Array, Storage, ViewMut};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes up to which a tensor is read on the thread that asks: a few milliseconds.
const SHORT: u64 = 4 << 20;

/// A checkpoint that was opened, and may have been closed. Threads share it.
#[pyclass(frozen, module = "ckpt._ckpt")]
pub(crate) struct Source {
    open: RwLock<Option<Arc<ckpt::Source>>>,
}

/// What is known of a tensor: dtype, shape, axes, role, metadata as JSON, the name of blocks that cannot be decoded, and
/// whether the elements are strings.
type Description = (&'static str, Vec<u64>, Option<Vec<String>>, String, String, Option<String>, bool);

impl Source {
    /// The open checkpoint.
    pub(crate) fn get(&self) -> Result<Arc<ckpt::Source>, Failure> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let closed = || {
            Error::usage("the checkpoint is closed").help("read within the `with` block, or open it again")
        };
        Ok(Arc::clone(open.as_ref().ok_or_else(closed)?))
    }

    fn of(&self, py: Python<'_>) -> PyResult<Arc<ckpt::Source>> {
        self.get().map_err(|failure| failure.into_python(py))
    }
}

#[pymethods]
impl Source {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, reading: Reading) -> PyResult<Self> {
        let opened = long(py, Interrupted::Abandoned, move |_| {
            let registry = registry();
            let options = reading.options(&registry)?;
            Ok(ckpt::Source::open(&registry, path, &options)?)
        })?;
        Ok(Source { open: RwLock::new(Some(Arc::new(opened))) })
    }

    /// What `pickle` and `copy.deepcopy` call.
    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "an open checkpoint is neither pickled nor copied: pass its path or URL, and call ckpt.open there; to copy \
             values, use ckpt.load, or numpy() and torch() of a tensor",
        ))
    }

    fn close(&self, py: Python<'_>) {
        // Elsewhere, another thread may still read: it has its own reference.
        py.detach(|| self.open.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    #[getter]
    fn closed(&self) -> bool {
        self.get().is_err()
    }

    #[getter]
    fn format(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.of(py)?.format())
    }

    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<String> {
        let source = self.of(py)?;
        Ok(source.input().display(source.input().entry()))
    }

    /// The names, in the checkpoint's order.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.of(py)?.tensors().map(|tensor| tensor.name().to_owned()).collect())
    }

    /// The names of the tensors that patterns keep.
    fn selected(&self, py: Python<'_>, include: Vec<String>, exclude: Vec<String>) -> PyResult<Vec<String>> {
        let source = self.of(py)?;
        let names = source.selected(&include, &exclude);
        let names = names.map(|names| names.into_iter().map(str::to_owned).collect());
        names.map_err(|error| Failure::from(error).into_python(py))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.of(py)?.tensors().len())
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(self.of(py)?.tensor(name).is_ok())
    }

    fn describe(&self, py: Python<'_>, name: &str) -> PyResult<Description> {
        let source = self.of(py)?;
        let described = || -> Result<Description, Failure> {
            let tensor = source.tensor(name)?;
            let axes = tensor.axes().map(|axes| axes.iter().map(|axis| axis.name().to_owned()).collect());
            Ok((
                tensor.dtype().name(),
                tensor.shape().to_vec(),
                axes,
                tensor.role().name().to_owned(),
                json(tensor.metadata())?,
                tensor.opaque_blocks().map(|blocks| blocks.name().to_owned()),
                tensor.lengths().is_some(),
            ))
        };
        described().map_err(|failure| failure.into_python(py))
    }

    /// Reads a tensor, or rows of it; with `one`, one row, without the axis of rows.
    #[pyo3(signature = (name, rows=None, one=false))]
    fn read(&self, py: Python<'_>, name: &str, rows: Option<(u64, u64)>, one: bool) -> PyResult<Array> {
        let source = self.of(py)?;
        let (len, shape, dtype, is_raw) = {
            let tensor = selected(&source, name, rows).map_err(|failure| failure.into_python(py))?;
            let is_raw = tensor.opaque_blocks().is_some() || tensor.lengths().is_some();
            (tensor.byte_len(), tensor.shape().clone(), tensor.dtype(), is_raw)
        };
        let name = name.to_owned();
        let storage = match len <= SHORT {
            true => short(py, move || read(&source, &name, rows))?,
            false => long(py, Interrupted::Abandoned, move |canceled| {
                read(&source.cancelable(Arc::clone(canceled)), &name, rows)
            })?,
        };
        match is_raw {
            true => elements::bytes(storage),
            false => elements::array(storage, shape.get(usize::from(one)..).unwrap_or_default(), dtype),
        }
    }

    /// Reads a tensor, or rows of it, into memory of the caller's.
    #[pyo3(signature = (name, rows, out))]
    fn read_into(
        &self,
        py: Python<'_>,
        name: &str,
        rows: Option<(u64, u64)>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (source, name) = (self.of(py)?, name.to_owned());
        let mut view = ViewMut::get(out)?;
        long(py, Interrupted::Joined, move |canceled| {
            let source = source.cancelable(Arc::clone(canceled));
            Ok(selected(&source, &name, rows)?.read_into(view.bytes_mut())?)
        })
    }

    /// Reads a tensor of strings, or rows of it.
    #[pyo3(signature = (name, rows=None))]
    fn strings<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        rows: Option<(u64, u64)>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let source = self.of(py)?;
        let (mut bytes, lengths) = short(py, || {
            let tensor = selected(&source, name, rows)?;
            Ok((tensor.bytes()?, tensor.lengths().unwrap_or_default().to_vec()))
        })?;
        let mut strings = Vec::with_capacity(lengths.len());
        for len in lengths {
            let rest = bytes.split_off(usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len()));
            strings.push(PyBytes::new(py, &std::mem::replace(&mut bytes, rest)));
        }
        Ok(strings)
    }

    fn graph(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let source = self.of(py)?;
        let graph = source.checkpoint().graph.as_ref();
        graph.map(json).transpose().map_err(|failure| failure.into_python(py))
    }

    fn metadata(&self, py: Python<'_>) -> PyResult<String> {
        json(&self.of(py)?.checkpoint().metadata).map_err(|failure| failure.into_python(py))
    }

    fn notes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.of(py)?.contents().all_notes().map(str::to_owned).collect())
    }

    /// Describes the checkpoint, as JSON and as a page of HTML; with `stats`, reads all values.
    fn inspect(&self, py: Python<'_>, stats: bool) -> PyResult<(String, String)> {
        let source = self.of(py)?;
        long(py, Interrupted::Abandoned, move |canceled| {
            let found = ckpt::inspect::inspect(&source.cancelable(Arc::clone(canceled)), stats)?;
            Ok((json(&found)?, ckpt::inspect::html::page(&found)))
        })
    }

    /// Hashes every tensor; returns JSON.
    fn digest(&self, py: Python<'_>, threads: usize) -> PyResult<String> {
        let source = self.of(py)?;
        long(py, Interrupted::Abandoned, move |canceled| {
            json(&ckpt::digest::digest(&source.cancelable(Arc::clone(canceled)), threads)?)
        })
    }
}

fn selected<'s>(
    source: &'s ckpt::Source,
    name: &str,
    rows: Option<(u64, u64)>,
) -> Result<TensorRef<'s>, Failure> {
    let tensor = source.tensor(name)?;
    match rows {
        None => Ok(tensor),
        Some((start, stop)) => Ok(tensor.rows(Range { start, end: stop })?),
    }
}

fn read(source: &ckpt::Source, name: &str, rows: Option<(u64, u64)>) -> Result<Storage, Failure> {
    let tensor = selected(source, name, rows)?;
    let mut storage = room(tensor.byte_len(), name)?;
    tensor.read_into(storage.as_mut_slice())?;
    Ok(storage)
}

/// Memory for so many bytes of a tensor.
pub(crate) fn room(len: u64, name: &str) -> Result<Storage, Failure> {
    let too_large = |error: std::io::Error| {
        Error::limit("the tensor does not fit into memory")
            .tensor(name)
            .found(ckpt::api::count(len, "byte"))
            .caused_by(error)
            .help("read only some rows, such as tensor[10:20]")
    };
    let len = usize::try_from(len).map_err(|_| too_large(std::io::ErrorKind::OutOfMemory.into()))?;
    Ok(Storage::zeroed(len).map_err(too_large)?)
}
