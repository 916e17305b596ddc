//! Samples: valid checkpoints of a format, with what they hold.

use ckpt_api::{Axis, DType, Input, MetadataValue, Role};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::{Bound, Range, RangeBounds};

/// A valid checkpoint of the codec's format, and what a correct codec reads from it.
///
/// Build the bytes and the expected values by hand or with another tool, never with the codec: a mistake that the
/// codec makes in both directions would agree with itself.
///
/// ```
/// use ckpt_conformance::Sample;
/// let bytes = [b"VLT1".as_slice(), &1f32.to_le_bytes(), &2f32.to_le_bytes()].concat();
/// let files = [("m.vault".to_owned(), bytes)].into();
/// let sample = Sample::new("two numbers", "m.vault", files).floats("w", &[2], &[1.0, 2.0]);
/// assert_eq!(sample.output, "m.vault");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// What it shows, for messages.
    pub name: &'static str,
    /// The file that a user would name; empty for the directory.
    pub entry: String,
    /// All files by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Options for reading.
    pub read: Vec<(String, String)>,
    /// Options for writing.
    pub write: Vec<(String, String)>,
    /// Name to write under.
    pub output: String,
    /// Whether the format has no sign of its own, so that probing gives [`ckpt_api::Match::Possible`].
    pub headerless: bool,
    /// What a correct codec reads.
    pub expected: Expected,
    /// Why writing what was read gives other bytes; `None` if it gives the same files byte for byte.
    pub rewritten: Option<&'static str>,
    /// Bytes of which every tensor's offset is a multiple, as the format demands.
    pub alignment: u64,
    /// Why two tensors may have the same bytes; `None` if the format forbids it.
    pub shared: Option<&'static str>,
    /// Files that may be followed by bytes, with the reason.
    pub open_ended: BTreeMap<String, &'static str>,
    /// Bytes that a reader ignores.
    pub ignored: Vec<Ignored>,
    /// What is stated beside names, dtypes, shapes and values.
    pub facts: Vec<Fact>,
}

/// Something that a correct codec reads beside names, dtypes, shapes and values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fact {
    /// A value of the checkpoint's metadata.
    Metadata {
        /// Its namespace.
        namespace: String,
        /// Its key.
        key: String,
        /// The value.
        value: MetadataValue,
    },
    /// A value of a tensor's metadata.
    TensorMetadata {
        /// The tensor's name.
        tensor: String,
        /// Its namespace.
        namespace: String,
        /// Its key.
        key: String,
        /// The value.
        value: MetadataValue,
    },
    /// The integer that stands for 1.0 in the tensor of this name.
    Scale(String, NonZeroU32),
    /// What the axes of the tensor of this name mean.
    Axes(String, Vec<Axis>),
    /// The role of the tensor of this name.
    Role(String, Role),
}

/// The tensors of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Exactly these tensors, in any order.
    Tensors(Vec<ExpectedTensor>),
    /// Tensors that no other tool can read, with the reason: values are then only compared with themselves.
    Unknown(&'static str),
    /// Not stated: the kit refuses the sample.
    Unstated,
}

/// One tensor that a correct codec reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedTensor {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its dtype.
    pub dtype: DType,
    /// Its logical shape.
    pub shape: Vec<u64>,
    /// Its value: little-endian, row-major, one element in whole bytes; the concatenated elements for strings; the
    /// blocks of a tensor that is stored in [`ckpt_api::Blocks`].
    pub value: Vec<u8>,
}

/// Bytes of a file that have no effect on what is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The file.
    pub file: String,
    /// The bytes.
    pub range: Range<usize>,
    /// Why a reader ignores them.
    pub why: &'static str,
}

impl Sample {
    /// A sample without options that is written under its own name. State its tensors with [`Sample::tensor`].
    pub fn new(name: &'static str, entry: &str, files: BTreeMap<String, Vec<u8>>) -> Self {
        Sample {
            name,
            entry: entry.to_owned(),
            files,
            read: Vec::new(),
            write: Vec::new(),
            output: entry.to_owned(),
            headerless: false,
            expected: Expected::Unstated,
            rewritten: None,
            alignment: 1,
            shared: None,
            open_ended: BTreeMap::new(),
            ignored: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// Adds an expected tensor; `value` is little-endian and row-major in logical axis order.
    #[must_use]
    pub fn tensor(mut self, name: &str, dtype: DType, shape: &[u64], value: impl Into<Vec<u8>>) -> Self {
        let tensor =
            ExpectedTensor { name: name.to_owned(), dtype, shape: shape.to_vec(), value: value.into() };
        match &mut self.expected {
            Expected::Tensors(tensors) => tensors.push(tensor),
            expected => *expected = Expected::Tensors(vec![tensor]),
        }
        self
    }

    /// Adds an expected tensor of [`DType::F32`], row-major in logical axis order.
    #[must_use]
    pub fn floats(self, name: &str, shape: &[u64], values: &[f32]) -> Self {
        let value: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, DType::F32, shape, value)
    }

    /// Expects a value in the checkpoint's metadata.
    #[must_use]
    pub fn metadata(mut self, namespace: &str, key: &str, value: impl Into<MetadataValue>) -> Self {
        let (namespace, key) = (namespace.to_owned(), key.to_owned());
        self.facts.push(Fact::Metadata { namespace, key, value: value.into() });
        self
    }

    /// Expects a value in a tensor's metadata.
    #[must_use]
    pub fn tensor_metadata(
        mut self,
        tensor: &str,
        namespace: &str,
        key: &str,
        value: impl Into<MetadataValue>,
    ) -> Self {
        let (tensor, namespace, key) = (tensor.to_owned(), namespace.to_owned(), key.to_owned());
        self.facts.push(Fact::TensorMetadata { tensor, namespace, key, value: value.into() });
        self
    }

    /// Expects that a tensor's integers have a scale: this one stands for 1.0.
    ///
    /// # Panics
    /// For a scale of 0.
    #[must_use]
    pub fn scale(mut self, tensor: &str, scale: u32) -> Self {
        let scale = NonZeroU32::new(scale).unwrap_or_else(|| panic!("'{tensor}': no scale is 0"));
        self.facts.push(Fact::Scale(tensor.to_owned(), scale));
        self
    }

    /// Expects that a tensor's axes have these meanings.
    #[must_use]
    pub fn axes(mut self, tensor: &str, axes: impl Into<Vec<Axis>>) -> Self {
        self.facts.push(Fact::Axes(tensor.to_owned(), axes.into()));
        self
    }

    /// Expects that a tensor has this role.
    #[must_use]
    pub fn role(mut self, tensor: &str, role: Role) -> Self {
        self.facts.push(Fact::Role(tensor.to_owned(), role));
        self
    }

    /// Expects no tensors at all.
    #[must_use]
    pub fn without_tensors(mut self) -> Self {
        self.expected = Expected::Tensors(Vec::new());
        self
    }

    /// Expects tensors whose values nothing but the codec can read, and states why.
    #[must_use]
    pub fn unknown_values(mut self, why: &'static str) -> Self {
        self.expected = Expected::Unknown(why);
        self
    }

    /// Adds an option for reading.
    #[must_use]
    pub fn reading(mut self, key: &str, value: &str) -> Self {
        self.read.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Adds an option for writing.
    #[must_use]
    pub fn writing(mut self, key: &str, value: &str) -> Self {
        self.write.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sets the name to write under.
    #[must_use]
    pub fn written_as(mut self, output: &str) -> Self {
        output.clone_into(&mut self.output);
        self
    }

    /// Expects [`ckpt_api::Match::Possible`] from probing, because the format has no sign of its own.
    #[must_use]
    pub fn headerless(mut self) -> Self {
        self.headerless = true;
        self
    }

    /// Allows that writing what was read gives other bytes, and states why.
    #[must_use]
    pub fn rewritten(mut self, why: &'static str) -> Self {
        self.rewritten = Some(why);
        self
    }

    /// Demands that every tensor begins at a multiple of `bytes`, when reading and when writing.
    #[must_use]
    pub fn aligned(mut self, bytes: u64) -> Self {
        self.alignment = bytes;
        self
    }

    /// Allows that two tensors have the same bytes, and states why.
    #[must_use]
    pub fn sharing(mut self, why: &'static str) -> Self {
        self.shared = Some(why);
        self
    }

    /// Allows bytes after the end of `file`, and states why. They must not change what is read.
    #[must_use]
    pub fn open_ended(mut self, file: &str, why: &'static str) -> Self {
        self.open_ended.insert(file.to_owned(), why);
        self
    }

    /// Allows that changes to these bytes of `file` have no effect, and states why.
    #[must_use]
    pub fn ignoring(mut self, file: &str, range: impl RangeBounds<usize>, why: &'static str) -> Self {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => usize::MAX,
        };
        self.ignored.push(Ignored { file: file.to_owned(), range: start..end, why });
        self
    }

    pub(crate) fn input(&self) -> Input {
        self.input_of(self.files.clone())
    }

    pub(crate) fn input_of(&self, files: BTreeMap<String, Vec<u8>>) -> Input {
        Input::memory(&self.entry, files)
    }

    /// The sample's files with other bytes in one of them.
    pub(crate) fn with_file(&self, file: &str, bytes: Vec<u8>) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.files.clone();
        files.insert(file.to_owned(), bytes);
        files
    }

    pub(crate) fn ignores(&self, file: &str, position: usize) -> bool {
        self.ignored.iter().any(|ignored| ignored.file == file && ignored.range.contains(&position))
    }

    /// What names the checkpoint among the files that were written.
    pub(crate) fn written_entry(&self, files: &BTreeMap<String, Vec<u8>>) -> &str {
        match self.files.contains_key(&self.output) || !files.contains_key(&self.entry) {
            true => &self.output,
            false => &self.entry,
        }
    }
}
