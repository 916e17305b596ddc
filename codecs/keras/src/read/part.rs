//! One HDF5 file, alone or in an archive.

use crate::format::{DTYPE, OPAQUE};
use ckpt_api::{
    Compression, Contents, DType, Encoding, Endian, Error, Extent, File, FileId, Limit, Limits, Placement,
    Result, Rules, Setting, Tensor, TensorId, text,
};
use ckpt_containers::zip::Member;
use ckpt_hdf5::{AttributeValue, Dataset, Datatype, Tree, attribute};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How often the bytes of a compressed member may be decompressed, in bytes: once for each dataset.
const MOST_DECOMPRESSED: u64 = 4 << 30;

/// An HDF5 file.
pub(crate) struct Part {
    pub(crate) tree: Tree,
    /// Its name for people.
    pub(crate) shown: String,
    pub(crate) file: FileId,
    /// Where it begins in the file.
    pub(crate) start: u64,
    /// Bytes of it.
    pub(crate) len: u64,
    /// How it is compressed in an archive.
    compression: Option<Compression>,
}

impl Part {
    pub(crate) fn open(file: &File, shown: &str, limits: &Limits) -> Result<Self> {
        let tree = ckpt_hdf5::read(file, limits)?;
        let shown = shown.to_owned();
        Ok(Part { tree, shown, file: FileId(0), start: 0, len: file.len(), compression: None })
    }

    /// Opens the weights of an archive.
    pub(crate) fn of_member(archive: &File, member: &Member, limits: &Limits) -> Result<Self> {
        let whole =
            Extent::new(FileId(0), member.start, member.len).with_compression(member.compression.clone());
        let file = whole.open(archive)?;
        let Some(compression) = member.compression.clone() else {
            return Ok(Part { start: member.start, ..Self::open(&file, archive.name(), limits)? });
        };
        // It is read at many places, and would be decompressed again for each.
        limits.check(Limit::ChunkBytes, member.len)?;
        let held = File::new(Arc::new(file.bytes(0, member.len)?), archive.name())?;
        let part = Self::open(&held, archive.name(), limits)?;
        let again = (part.tree.datasets.len() as u64).saturating_mul(member.len);
        if again > MOST_DECOMPRESSED {
            return Err(Error::unsupported(
                "the weights are compressed, and have too many tensors to decompress each",
            )
            .found(ckpt_api::count(part.tree.datasets.len(), "tensor"))
            .help("unpack the archive and pack it again without compression: zip -0"));
        }
        Ok(Part { start: member.start, compression: Some(compression), ..part })
    }

    /// Checks that the index expects the datasets in this file.
    pub(crate) fn check_groups(&self, expected: &BTreeSet<String>) -> Result<()> {
        let group =
            |dataset: &Dataset| dataset.path.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        let found: BTreeSet<String> = self.tree.datasets.iter().map(group).collect();
        let help = "the files are of different checkpoints: copy all of them again";
        match expected.symmetric_difference(&found).next() {
            None => Ok(()),
            Some(group) if found.contains(group) => {
                Err(Error::corrupt("the file has tensors that the index does not expect in it")
                    .found(group)
                    .help(help))
            }
            Some(group) => {
                Err(Error::corrupt("the index names tensors that the file lacks").found(group).help(help))
            }
        }
    }

    /// Adds the file's datasets as tensors. Texts and references are no numbers of a model: a note names them.
    pub(crate) fn add_to(
        &self,
        contents: &mut Contents,
        untagged: &Untagged<'_>,
        rules: &mut Rules,
    ) -> Result<()> {
        if self.tree.end != self.len {
            let error = Error::corrupt("bytes follow the end of the HDF5 file")
                .offset(self.start.saturating_add(self.tree.end))
                .found(ckpt_api::count(self.len.saturating_sub(self.tree.end), "byte"));
            rules.mend(&self.shown, "they are left out", error)?;
        }
        for left in &self.tree.left {
            let copy = copied(&left.error).tensor(&left.path);
            match left.has_content {
                true => rules.mend(&left.path, "it is left out", copy)?,
                false => contents
                    .notes
                    .push(format!("'{}' is left out: {}", left.path, left.error.message()).into()),
            }
        }
        for dataset in &self.tree.datasets {
            if matches!(dataset.datatype, Datatype::Text | Datatype::FixedText { .. } | Datatype::Reference) {
                let what = dataset.datatype.name();
                contents.notes.push(
                    format!(
                        "'{}' holds {what}, no numbers: it is no tensor, and only an unchanged copy keeps it",
                        dataset.path
                    )
                    .into(),
                );
                continue;
            }
            match self.tensor(dataset, untagged, contents) {
                Ok(()) => {}
                Err(error) => rules.mend(&dataset.path, "it is left out", error.tensor(&dataset.path))?,
            }
        }
        Ok(())
    }

    fn tensor(&self, dataset: &Dataset, untagged: &Untagged<'_>, contents: &mut Contents) -> Result<()> {
        let (dtype, endian) = dtype(dataset, untagged)?;
        let is_stated = attribute(&dataset.attributes, DTYPE).is_some();
        if matches!(dataset.datatype, Datatype::Opaque { .. }) && !is_stated {
            let why = if untagged.chosen.is_some() {
                "as the option says"
            } else {
                "as the model's layers have it"
            };
            contents.notes.push(
                format!(
                    "'{}' does not state what its opaque bytes are: taken as {dtype}, {why}",
                    dataset.path
                )
                .into(),
            );
        }
        if let Datatype::Enumeration { dtype, .. } = dataset.datatype {
            contents.notes.push(format!(
                "'{}' is an enumeration: its integers are read as {dtype}; only an unchanged copy keeps the names of values",
                dataset.path
            ).into());
        }
        let id = TensorId(contents.checkpoint.tensors.len());
        let tensor = Tensor::new(&dataset.path, dtype, dataset.shape.clone());
        let extents =
            dataset.stored.extents.iter().map(|extent| self.extent(extent)).collect::<Result<Vec<_>>>()?;
        let encoding = Encoding::row_major(&tensor).with_endian(endian);
        let placement =
            Placement::new(id, &tensor.name, extents, encoding).with_window(dataset.stored.window.clone());
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
        Ok(())
    }

    /// The same bytes in the file that the part is in.
    fn extent(&self, extent: &Extent) -> Result<Extent> {
        let mut own = extent.clone();
        own.file = self.file;
        match &self.compression {
            None => own.offset = own.offset.saturating_add(self.start),
            Some(_) if own.compression().is_some() => {
                return Err(Error::unsupported(
                    "chunks are compressed in an archive that is compressed, too",
                )
                .help("unpack the archive and pack it again without compression: zip -0"));
            }
            Some(compression) => {
                let (before, len) = (own.offset, own.len);
                let after = self.len.saturating_sub(before).saturating_sub(len);
                own.offset = self.start;
                own = own.with_compression(compression.clone().skipping(before).followed_by(after));
            }
        }
        Ok(own)
    }
}

/// The same error, with what it says.
fn copied(error: &Error) -> Error {
    let mut copy = Error::new(error.kind(), error.message());
    let context = error.context();
    if let Some(offset) = context.offset {
        copy = copy.offset(offset);
    }
    if let Some(found) = context.found {
        copy = copy.found(found);
    }
    if let Some(expected) = context.expected {
        copy = copy.expected(expected);
    }
    match context.help {
        Some(help) => copy.help(help),
        None => copy,
    }
}

/// What opaque elements are whose dataset does not state it. `h5py` stores any array of `V2` so.
pub(crate) struct Untagged<'a> {
    /// The dtype that the user chose.
    pub(crate) chosen: Option<DType>,
    /// Whether a layer of the model holds its variables in bfloat16.
    pub(crate) has_bfloat16: &'a dyn Fn() -> bool,
}

impl Untagged<'_> {
    fn dtype(&self, size: u32) -> Option<DType> {
        self.chosen.or_else(|| (size == 2 && (self.has_bfloat16)()).then_some(DType::Bf16))
    }
}

/// The dtype of a dataset. What NumPy does not know, Keras stores as opaque bytes; newer versions name it.
fn dtype(dataset: &Dataset, untagged: &Untagged<'_>) -> Result<(DType, Endian)> {
    match dataset.datatype {
        Datatype::Number { dtype, endian } | Datatype::Enumeration { dtype, endian } => Ok((dtype, endian)),
        Datatype::Opaque { size } => {
            let named = attribute(&dataset.attributes, DTYPE).and_then(AttributeValue::text);
            let fits = |dtype: DType| dtype.bytes() == Some(size.into());
            let dtype = match named {
                Some(named) => OPAQUE.iter().find(|(_, name)| *name == named).map(|(dtype, _)| *dtype),
                None => untagged.dtype(size),
            };
            dtype.filter(|dtype| fits(*dtype)).map(|dtype| (dtype, Endian::Little)).ok_or_else(|| {
                let error = Error::unsupported("the file does not state what the tensor's bytes are").found(
                    match named {
                        Some(named) => format!("{}, dtype '{named}'", dataset.datatype.name()),
                        None => dataset.datatype.name(),
                    },
                );
                match named {
                    Some(_) => error.expected("bfloat16, float8_e4m3fn or float8_e5m2"),
                    None => error
                        .expected("an attribute 'dtype', or a configuration whose layers hold bfloat16")
                        .help(text![
                            "if you know what they are, state it with ",
                            Setting::READ_OPTION.of("dtype=bfloat16")
                        ]),
                }
            })
        }
        _ => Err(Error::unsupported("the elements of the dataset are not plain numbers")
            .found(dataset.datatype.name())
            .expected("integers, floats, complex numbers or booleans")),
    }
}
