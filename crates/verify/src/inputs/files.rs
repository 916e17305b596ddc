//! Reads input arrays from files.

use super::idx;
use crate::parameters::SourceParameters;
use ckpt_api::{Error, Input, Limits, Result, text};
use ckpt_engine::formats::Formats;
use ckpt_engine::settings;
use ckpt_engine::source::{OpenOptions, Source};
use ckpt_forward::{Array, Parameters, Value};
use std::path::PathBuf;

/// A file of arrays: any format that can be read, or IDX.
#[derive(Clone, Debug, Default)]
pub struct InputFile {
    /// Name of the input that the file is for. If left out, arrays are assigned by their names, or to the only input
    /// that is left.
    pub input: Option<String>,
    /// The file.
    pub path: PathBuf,
    /// Name of one array of the file; all of them if left out.
    pub key: Option<String>,
    /// Limits on reading the file.
    pub limits: Limits,
}

/// An array of a file.
pub(super) struct NamedArray {
    /// Empty for IDX, which has no names.
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) array: Array,
}

impl InputFile {
    /// The names of the inputs that the arrays are for, as far as they have names.
    pub(super) fn names(&self, formats: &Formats) -> Result<Vec<String>> {
        if let Some(input) = &self.input {
            return Ok(vec![input.clone()]);
        }
        let input = formats.addresses().input(&self.path, &self.limits)?;
        if input.is_file() && idx::is_idx(&input.main()?) {
            return Ok(Vec::new());
        }
        let source = self.open(formats, input)?;
        Ok(source.checkpoint().tensors.iter().map(|tensor| tensor.name.to_string()).collect())
    }

    fn open(&self, formats: &Formats, input: Input) -> Result<Source> {
        let options = OpenOptions::new().limits(self.limits.clone());
        Source::open(formats, input, &options)
    }

    /// Reads the arrays that are wanted, in at most `memory` bytes.
    pub(super) fn read(&self, formats: &Formats, memory: u64) -> Result<Vec<NamedArray>> {
        let input = formats.addresses().input(&self.path, &self.limits)?;
        if let Some(array) = read_idx(&input, memory)? {
            return Ok(vec![array]);
        }
        let source = self.open(formats, input)?;
        let parameters = SourceParameters::new(&source, memory);
        let tensors = source.checkpoint().tensors.iter();
        let wanted: Vec<&str> = match &self.key {
            Some(key) => vec![key],
            None => tensors.map(|tensor| tensor.name.as_str()).collect(),
        };
        let load = |name: &str| {
            let array = parameters.load(name)?;
            let shape = parameters.tensor(name).map(|tensor| tensor.shape.to_vec()).unwrap_or_default();
            let shape = shape.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
            let shape = shape.map_err(|_| Error::limit("too large for this machine").tensor(name))?;
            Ok(NamedArray { name: name.to_owned(), shape, array })
        };
        wanted.into_iter().map(load).collect()
    }

    /// Returns the path as errors and reports show it.
    pub(super) fn shown(&self) -> String {
        ckpt_api::Address::display(&self.path)
    }
}

fn read_idx(input: &Input, memory: u64) -> Result<Option<NamedArray>> {
    if !input.is_file() {
        return Ok(None);
    }
    let file = input.main()?;
    if !idx::is_idx(&file) {
        return Ok(None);
    }
    if file.len() > memory / 4 {
        return Err(Error::limit("the file needs more memory than the forward pass may use")
            .found(ckpt_engine::words::count(file.len(), "element"))
            .help(text!["allow more with ", settings::FORWARD_MEMORY]));
    }
    let (shape, array) = idx::read(&file)?;
    Ok(Some(NamedArray { name: String::new(), shape, array }))
}

/// Reads the only array of a file, or the one that `file` names, in at most `memory` bytes.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a file of several arrays; whatever keeps it from being read.
pub fn read_array(formats: &Formats, file: &InputFile, memory: u64) -> Result<Value> {
    let shown = file.shown();
    let mut arrays = file.read(formats, memory).map_err(|error| error.file(shown.as_str()))?;
    let count = arrays.len();
    match (arrays.pop(), count) {
        (Some(NamedArray { shape, array, .. }), 1) => Value::new(shape, array),
        _ => {
            Err(Error::usage("the file does not hold exactly one array").file(shown).found(count.to_string()))
        }
    }
}
