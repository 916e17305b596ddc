//! safetensors files without a detour: bytes go straight from the file into arrays, and from arrays into the file.

mod jobs;
mod spans;

use crate::elements;
use crate::errors::Failure;
use crate::source::room;
use crate::work::{Interrupted, long, short};
use ckpt::api::{DType, Error, File, FileId, Limits, Name, OutputFile};
use ckpt::store::{IntoInput, LocalStore, StageRequest, Store};
use ckpt_buffers::{Array, Storage, View};
use ckpt_safetensors::{Entry, Header};
use jobs::{CHUNK, in_parallel};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use spans::{Span, Whole, spans};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Bytes up to which tensors are read on the thread that asks.
const SHORT: u64 = 4 << 20;

/// Name, dtype as safetensors calls it, shape, and the range of bytes in the file.
type Described = (String, String, Vec<u64>, u64, u64);

/// Name, dtype as safetensors calls it, shape, and an object with the buffer protocol.
type Given<'py> = (String, String, Vec<u64>, Bound<'py, PyAny>);

/// Name, dtype as safetensors calls it, shape, and the array of bytes that the tensor begins in, where it does.
type Loaded<'py> = (Bound<'py, PyString>, Bound<'py, PyString>, Bound<'py, PyTuple>, Bound<'py, Array>, u64);

/// `__metadata__`.
type Pairs = BTreeMap<String, String>;

/// An open safetensors file.
#[pyclass(frozen, module = "ckpt._ckpt")]
pub(crate) struct SafetensorsFile {
    file: File,
    /// Whether reading may take long: the file is behind a URL.
    is_remote: bool,
    header: Header,
    start: u64,
    /// The number of each tensor in the header, once one was asked for by its name.
    numbers: OnceLock<HashMap<Name, usize>>,
}

#[pymethods]
impl SafetensorsFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let is_remote = url(&path).is_some();
        let open = move || {
            let file = path.into_input(crate::codecs::registry().addresses(), &Limits::default())?.main()?;
            let (header, start) = read_header(&file)?;
            Ok(SafetensorsFile { file, is_remote, header, start, numbers: OnceLock::new() })
        };
        match is_remote {
            true => long(py, Interrupted::Abandoned, move |_| open()),
            false => short(py, open),
        }
    }

    /// What `pickle` and `copy.deepcopy` call.
    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "an open file is neither pickled nor copied: pass its path or URL, and call safe_open there",
        ))
    }

    /// The tensors, in the order of their bytes.
    fn entries(&self) -> Vec<Described> {
        described(&self.header, self.start)
    }

    /// One tensor; `None` where there is none of this name.
    fn entry(&self, name: &str) -> Option<Described> {
        let (name, entry) = self.find(name)?;
        Some(describe(name, entry, self.start))
    }

    fn metadata(&self) -> Option<Pairs> {
        self.header.pairs.clone()
    }

    /// Reads whole tensors, or else all, in the order of their bytes. Small ones share arrays.
    #[pyo3(signature = (names=None))]
    fn load<'py>(&self, py: Python<'py>, names: Option<Vec<String>>) -> PyResult<Vec<Loaded<'py>>> {
        let chosen = || match names {
            None => Ok(in_order(&self.header)),
            Some(names) => names.iter().map(|name| self.known(name)).collect::<Result<Vec<_>, Failure>>(),
        };
        let chosen = chosen().map_err(|failure| failure.into_python(py))?;
        let whole = chosen.iter().map(|(name, entry)| self.whole(name, entry));
        let whole = whole.collect::<Result<Vec<Whole<'_>>, Failure>>();
        let (spans, places) = spans(whole.map_err(|failure| failure.into_python(py))?.into_iter());
        let arrays = self.storages(py, spans)?.into_iter();
        let arrays = arrays.map(|storage| Bound::new(py, elements::bytes(storage)?));
        let arrays = arrays.collect::<PyResult<Vec<Bound<'_, Array>>>>()?;
        let loaded = chosen.into_iter().zip(places).map(|((name, entry), (array, offset))| {
            let (name, native) = (PyString::new(py, name), PyString::intern(py, &entry.dtype.to_string()));
            Ok((name, native, PyTuple::new(py, &entry.shape[..])?, arrays[array].clone(), offset))
        });
        loaded.collect()
    }

    /// Reads rows of a tensor into a new array.
    fn rows(&self, py: Python<'_>, name: &str, first: u64, last: u64) -> PyResult<Array> {
        let part = self.part(name, first, last).map_err(|failure| failure.into_python(py))?;
        let storage = self.storages(py, vec![part.span])?.pop().unwrap_or_else(|| Vec::new().into());
        match part.dtype.bits() {
            Some(bits) if bits % 8 != 0 => elements::bytes(storage),
            _ => elements::array(storage, &part.shape, part.dtype),
        }
    }
}

/// Rows of a tensor.
struct Part {
    span: Span,
    dtype: DType,
    shape: Vec<u64>,
}

impl SafetensorsFile {
    fn find(&self, name: &str) -> Option<&(Name, Entry)> {
        let numbers = self.numbers.get_or_init(|| {
            let names = self.header.tensors.iter().map(|(name, _)| name.clone());
            names.zip(0..).collect()
        });
        self.header.tensors.get(*numbers.get(name)?)
    }

    fn known(&self, name: &str) -> Result<&(Name, Entry), Failure> {
        let missing = || Error::usage("the file has no such tensor").tensor(name).file(self.file.name());
        Ok(self.find(name).ok_or_else(missing)?)
    }

    fn whole<'h>(&self, name: &'h str, entry: &Entry) -> Result<Whole<'h>, Failure> {
        let (start, end) = entry.data_offsets;
        let (offset, len) = (self.start.saturating_add(start), end.saturating_sub(start));
        Ok(Whole { name, dtype: dtype(entry)?, offset, len })
    }

    fn part(&self, name: &str, first: u64, last: u64) -> Result<Part, Failure> {
        let (name, entry) = self.known(name)?;
        let whole = self.whole(name, entry)?;
        let count = entry.shape.first().copied().unwrap_or(0);
        if first > last || last > count {
            return Err(Error::usage("the tensor has no such rows").tensor(name.as_str()).into());
        }
        let row = whole.len.checked_div(count).unwrap_or(0);
        let mut shape = entry.shape.to_vec();
        shape.iter_mut().take(1).for_each(|len| *len = last - first);
        let offset = whole.offset.saturating_add(first * row);
        let span = Span { name: name.to_string(), offset, len: (last - first) * row };
        Ok(Part { span, dtype: whole.dtype, shape })
    }

    /// Reads spans into memory of their own.
    fn storages(&self, py: Python<'_>, spans: Vec<Span>) -> PyResult<Vec<Storage>> {
        let bytes = spans.iter().fold(0, |sum: u64, span| sum.saturating_add(span.len));
        let (file, is_remote) = (self.file.clone(), self.is_remote);
        let read = move |canceled: &_| {
            if is_remote {
                let ranges = spans.iter().map(|span| span.offset..span.offset.saturating_add(span.len));
                file.will_read(&ranges.collect::<Vec<_>>());
            }
            read(&file, &spans, canceled)
        };
        match is_remote {
            true => long(py, Interrupted::Abandoned, read),
            false if bytes <= SHORT => short(py, || read(&Arc::default())),
            false => long(py, Interrupted::Joined, read),
        }
    }
}

/// The dtype of an entry, as ckpt knows it.
fn dtype(entry: &Entry) -> Result<DType, Failure> {
    let unknown = || Error::unsupported("the dtype is not supported").found(entry.dtype.to_string());
    Ok(ckpt_safetensors::dtype(entry.dtype).ok_or_else(unknown)?)
}

fn describe(name: &str, entry: &Entry, start: u64) -> Described {
    let (from, to) = entry.data_offsets;
    let offset = |at: u64| start.saturating_add(at);
    (name.to_owned(), entry.dtype.to_string(), entry.shape.to_vec(), offset(from), offset(to))
}

/// The header and where the data begins. What is no file of the format is named if it is a text in the place of one.
fn read_header(file: &File) -> Result<(Header, u64), ckpt::Error> {
    Header::read(file, &Limits::default()).map_err(|error| ckpt::explain_file(error, file))
}

fn in_order(header: &Header) -> Vec<&(Name, Entry)> {
    let mut tensors: Vec<&(Name, Entry)> = header.tensors.iter().collect();
    tensors.sort_by_key(|(_, entry)| entry.data_offsets);
    tensors
}

fn described(header: &Header, start: u64) -> Vec<Described> {
    in_order(header).into_iter().map(|(name, entry)| describe(name, entry, start)).collect()
}

fn read(file: &File, spans: &[Span], canceled: &crate::work::Canceled) -> Result<Vec<Storage>, Failure> {
    let made = spans.iter().map(|span| room(span.len, &span.name));
    let mut storages = made.collect::<Result<Vec<Storage>, Failure>>()?;
    let mut pieces = Vec::new();
    for (span, storage) in spans.iter().zip(&mut storages) {
        let mut offset = span.offset;
        for piece in storage.as_mut_slice().chunks_mut(CHUNK) {
            let next = offset.saturating_add(piece.len() as u64);
            pieces.push((offset, piece));
            offset = next;
        }
    }
    in_parallel(pieces, canceled, |(offset, piece)| Ok(file.read_at(offset, piece)?))?;
    Ok(storages)
}

/// The tensors of a file in memory, and its pairs of strings.
#[pyfunction]
pub(crate) fn decode_safetensors(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
) -> PyResult<(Vec<Described>, Option<Pairs>)> {
    let view = View::get(data)?;
    short(py, move || {
        // The header alone is copied: the rest is checked by its length.
        let file = File::new(Arc::new(InMemory(view)), "bytes")?;
        let (header, start) = read_header(&file)?;
        let described = described(&header, start);
        Ok((described, header.pairs))
    })
}

/// Memory of Python's, as a file.
struct InMemory(View);

impl std::fmt::Debug for InMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InMemory")
    }
}

impl ckpt::api::ReadAt for InMemory {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.bytes().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let rest =
            usize::try_from(offset).ok().and_then(|offset| self.0.bytes().get(offset..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// A header, and the bytes that follow it.
struct Laid {
    header: Vec<u8>,
    views: Vec<View>,
    len: u64,
}

/// Lays tensors out as safetensors does: those of wide elements first, then by name.
fn laid_out(py: Python<'_>, tensors: Vec<Given<'_>>, metadata: Option<Pairs>) -> PyResult<Laid> {
    let mut held = Vec::with_capacity(tensors.len());
    for (name, native, shape, object) in tensors {
        let view = View::get(&object)?;
        let entry = serde_json::from_value(native.as_str().into());
        let entry = entry.map(|dtype| Entry {
            dtype,
            shape: shape.into(),
            data_offsets: (0, view.bytes().len() as u64),
        });
        let entry = entry.map_err(|_| {
            let error = Error::unsupported("safetensors has no such dtype").tensor(name.as_str());
            Failure::from(error.found(native)).into_python(py)
        })?;
        held.push((name, entry, view));
    }
    held.sort_by(|(a, own, _), (b, other, _)| other.dtype.cmp(&own.dtype).then_with(|| a.cmp(b)));
    let mut header = Header { pairs: metadata, ..Header::default() };
    let (mut views, mut end) = (Vec::with_capacity(held.len()), 0u64);
    for (name, entry, view) in held {
        let start = end;
        end = end.saturating_add(entry.data_offsets.1);
        header.tensors.push((name.into(), Entry { data_offsets: (start, end), ..entry }));
        views.push(view);
    }
    short(py, move || {
        let header = header.to_bytes(|start| start)?;
        // What other readers check, and duplicate names.
        Header::parse(header.get(8..).unwrap_or_default())?;
        let len = end.saturating_add(header.len() as u64);
        Ok(Laid { header, views, len })
    })
}

/// A file of these tensors, in this order.
#[pyfunction]
pub(crate) fn encode_safetensors<'py>(
    py: Python<'py>,
    tensors: Vec<Given<'py>>,
    metadata: Option<Pairs>,
) -> PyResult<Bound<'py, PyBytes>> {
    let file = laid_out(py, tensors, metadata)?;
    let len = usize::try_from(file.len)?;
    PyBytes::new_with(py, len, |bytes| {
        py.detach(|| {
            let mut rest = bytes;
            for part in std::iter::once(&file.header[..]).chain(file.views.iter().map(View::bytes)) {
                let (piece, after) = rest.split_at_mut(part.len().min(rest.len()));
                piece.copy_from_slice(&part[..piece.len()]);
                rest = after;
            }
        });
        Ok(())
    })
}

/// The path as a URL. A file or a directory of this machine that has this very name comes first.
fn url(path: &Path) -> Option<&str> {
    let url = path.to_str().filter(|url| url.contains("://") && !path.exists())?;
    path.parent().is_none_or(|directory| !directory.is_dir()).then_some(url)
}

/// The store that a path or a URL lies in, and its name there.
fn place(path: &Path) -> Result<(Arc<dyn Store>, String), Failure> {
    match url(path).and_then(|url| url.rsplit_once('/')) {
        Some((directory, name)) => Ok((ckpt::store::open(&format!("{directory}/"))?, name.to_owned())),
        None => {
            let (store, name) = LocalStore::of(path)?;
            Ok((Arc::new(store), name))
        }
    }
}

/// Writes a file of these tensors, in this order. It replaces one of the same name when it is complete.
#[pyfunction]
pub(crate) fn write_safetensors(
    py: Python<'_>,
    path: PathBuf,
    tensors: Vec<Given<'_>>,
    metadata: Option<Pairs>,
) -> PyResult<()> {
    let Laid { header, views, len } = laid_out(py, tensors, metadata)?;
    long(py, Interrupted::Joined, move |canceled| {
        let (store, name) = place(&path)?;
        let files = [OutputFile::new(name.clone(), len)];
        let mut request = StageRequest::new(&name, &files);
        request.overwrite = true;
        let stage = store.stage(&request)?;
        let file = stage.file(FileId(0))?;
        let mut pieces = Vec::new();
        let mut offset = 0u64;
        for part in std::iter::once(&header[..]).chain(views.iter().map(View::bytes)) {
            for piece in part.chunks(CHUNK) {
                pieces.push((offset, piece));
                offset = offset.saturating_add(piece.len() as u64);
            }
        }
        in_parallel(pieces, canceled, |(offset, piece)| Ok(file.write_at(offset, piece)?))?;
        stage.commit(false)?;
        Ok(())
    })
}
