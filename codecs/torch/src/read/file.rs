//! Reads one file: its tensors, and where their bytes lie.

use super::layout::{Use, place, repeated_bytes};
use super::rebuild::{Made, Quantizer, View, has_attributes, made};
use super::walk::{Found, branch, walk};
use super::{notes, roles};
use crate::container::{self, Record, Saved};
use crate::format::ID;
use crate::pickle::Id;
use crate::write;
use ckpt_api::zip::Member;
use ckpt_api::{
    Contents, Endian, Error, Extent, File, Kind, Limit, Limits, MetadataValue, MissingGraph, Result, Rules,
    Tensor, TensorId,
};
use std::collections::{BTreeMap, HashMap};

/// Bytes of all views that repeat elements of their storages, and how many of them each byte of the file allows.
const FREE_REPEATED: u64 = 1 << 30;
const REPEATED_PER_BYTE: u64 = 64;
/// Scales of one tensor.
const MOST_SCALES: u64 = 1 << 16;

/// Reads one file. `root` is the path of the part to read.
pub(crate) fn read(file: &File, root: Option<&str>, rules: &mut Rules, limits: &Limits) -> Result<Contents> {
    let saved = container::open(file, limits)?;
    if let Some(danger) = saved.names.danger() {
        rules.mend("pickle", "nothing is called, and what it would make is left out", danger.error())?;
    }
    let start = root.map_or(Ok(saved.tree.root()), |root| branch(&saved.tree, root))?;
    let mut found = walk(&saved.tree, start, ID)?;
    for (name, _) in found.tensors.iter().filter(|(_, id)| has_attributes(&saved.tree, *id)) {
        found.dropped.add(name, || "attributes of the tensor".to_owned());
    }
    limits.check(Limit::Tensors, found.tensors.len() as u64)?;
    let mut reader = Reader {
        file,
        saved: &saved,
        limits,
        contents: Contents::default(),
        repeated: 0,
        partly: BTreeMap::new(),
        wholly: HashMap::new(),
        meta: Vec::new(),
    };
    for (name, id) in &found.tensors {
        let done = reader.add(name, *id).map_err(|error| error.tensor(name));
        match done {
            Err(error) if error.kind() == Kind::Unsupported => rules.mend(name, "it is left out", error)?,
            done => done?,
        }
    }
    reader.check_partly_read()?;
    let Reader { mut contents, meta, .. } = reader;
    roles::assign(&saved.tree, &found.optimizers, &mut contents.checkpoint.tensors);
    contents.notes = notes::of(&saved, &found, &meta, root);
    contents.missing_graph = missing_graph(&saved, &found);
    contents.checkpoint.metadata = found.metadata;
    if root.is_none() {
        write::keep(&saved, &mut contents, limits)?;
    }
    Ok(contents)
}

fn missing_graph(saved: &Saved, found: &Found) -> Option<MissingGraph> {
    let reason = match (saved.is_script, found.modules) {
        (true, _) => "a TorchScript archive states its layers as code, which is not read",
        (false, 0) => return None,
        _ => "a pickled module states its layers as classes of Python, which are not read",
    };
    Some(MissingGraph { reason: reason.to_owned(), is_unstated: true, help: None })
}

struct Reader<'a> {
    file: &'a File,
    saved: &'a Saved,
    limits: &'a Limits,
    contents: Contents,
    /// Bytes of views that repeat elements of their storages.
    repeated: u64,
    /// Storages whose checksum no tensor covers, by their first byte.
    partly: BTreeMap<u64, &'a Record>,
    /// Storages whose checksum some tensor covers.
    wholly: HashMap<u64, ()>,
    /// Names of tensors without data.
    meta: Vec<String>,
}

impl<'a> Reader<'a> {
    fn add(&mut self, name: &str, id: Id) -> Result<()> {
        let view = match made(&self.saved.tree, id)? {
            Made::Tensor(view) => view,
            Made::Meta => {
                self.meta.push(name.to_owned());
                return Ok(());
            }
            Made::Unsupported(error) => return Err(error),
            Made::Other => return Err(Error::defect("a tensor is none on second sight")),
        };
        let Some(dtype) = view.element.dtype else {
            return Err(Error::defect("a tensor has no type on second sight"));
        };
        let mut tensor = Tensor::new(name, dtype, view.shape.clone());
        self.quantize(&mut tensor, &view)?;
        let record = self.record(&view)?;
        let id = TensorId(self.contents.checkpoint.tensors.len());
        let (placement, use_) = place((id, &tensor), &view, record, self.saved.endian, self.limits)?;
        let is_part = |extent: &Extent| extent.len != record.len;
        let is_whole = placement.window.is_none() && !placement.extents.iter().any(is_part);
        if record.compression.is_some() && !is_whole && tensor.shape.elements() > 0 {
            return Err(Error::unsupported("the tensor is a part of a storage that is compressed")
                .help("save it again with torch.save, which does not compress"));
        }
        self.repeat(repeated_bytes(&placement, &tensor))?;
        match use_ {
            Use::Whole => drop(self.wholly.insert(record.start, ())),
            Use::Part => drop(self.partly.insert(record.start, record)),
        }
        self.contents.checkpoint.tensors.push(tensor);
        self.contents.placements.push(placement);
        Ok(())
    }

    /// Adds the bytes of a view that repeats elements: a few bytes of a file can state any number of them.
    fn repeat(&mut self, bytes: u64) -> Result<()> {
        let most = self.file.len().saturating_mul(REPEATED_PER_BYTE).max(FREE_REPEATED);
        let repeated = self.repeated.checked_add(bytes).filter(|repeated| *repeated <= most || bytes == 0);
        self.repeated = repeated.ok_or_else(|| {
            Error::unsupported("the tensors repeat the elements of their storages too often")
                .found(format!("{} beside those of the tensors before", ckpt_api::count(bytes, "byte")))
                .expected(format!("at most {most} in all"))
                .help("save the tensors without the axes along which it is expanded")
        })?;
        Ok(())
    }

    fn record(&self, view: &View<'_>) -> Result<&'a Record> {
        let key = view.storage.key;
        self.saved.records.get(key).ok_or_else(|| {
            Error::corrupt("the storage of a tensor is missing")
                .expected(format!("the storage '{}'", key.escape_debug()))
                .help("the file is damaged or was changed: get it again")
        })
    }

    /// Compares the checksums that no tensor's extents have: of storages that tensors share in part.
    fn check_partly_read(&self) -> Result<()> {
        for (start, record) in &self.partly {
            let Some(crc) = record.crc.filter(|_| !self.wholly.contains_key(start)) else { continue };
            let member =
                Member { start: record.start, len: record.len, compression: record.compression.clone() };
            member.check_crc(self.file, crc)?;
        }
        Ok(())
    }

    /// Keeps what the integers of a quantized tensor stand for as its metadata.
    fn quantize(&self, tensor: &mut Tensor, view: &View<'_>) -> Result<()> {
        let Some(quantizer) = view.quantizer else { return Ok(()) };
        let mut keep = |key: &str, value: MetadataValue| tensor.metadata.insert(ID, key, value);
        match quantizer {
            Quantizer::Tensor { scale, zero_point } => {
                keep("scale", scale.into());
                keep("zero_point", zero_point.into());
            }
            Quantizer::Channel { scales, zero_points, axis } => {
                keep("axis", MetadataValue::integer(axis));
                keep("scale", self.numbers(scales)?);
                keep("zero_point", self.numbers(zero_points)?);
            }
        }
        Ok(())
    }

    /// The numbers of a small tensor.
    fn numbers(&self, id: Id) -> Result<MetadataValue> {
        let unsupported =
            || Error::unsupported("the scales of the quantized tensor are no plain list of numbers");
        let Made::Tensor(view) = made(&self.saved.tree, id)? else { return Err(unsupported()) };
        let dtype = view.element.dtype.ok_or_else(unsupported)?;
        let tensor = Tensor::new("", dtype, view.shape.clone());
        let record = self.record(&view)?;
        let (placement, _) = place((TensorId(0), &tensor), &view, record, self.saved.endian, self.limits)?;
        let [extent] = &placement.extents[..] else { return Err(unsupported()) };
        let is_plain = tensor.shape.rank() == 1 && placement.window.is_none() && extent.len == record.len;
        if !is_plain || tensor.shape.elements() > MOST_SCALES {
            return Err(unsupported());
        }
        if let Some(crc) = record.crc {
            let member =
                Member { start: record.start, len: record.len, compression: record.compression.clone() };
            member.check_crc(self.file, crc)?;
        }
        let bytes = extent.open(self.file)?.bytes(0, extent.len)?;
        numbers(&bytes, dtype, self.saved.endian).ok_or_else(unsupported)
    }
}

fn numbers(bytes: &[u8], dtype: ckpt_api::DType, endian: Endian) -> Option<MetadataValue> {
    fn all<const N: usize, T: Into<MetadataValue>>(
        bytes: &[u8],
        endian: Endian,
        of: fn([u8; N]) -> T,
    ) -> MetadataValue {
        let (chunks, _) = bytes.as_chunks::<N>();
        let one = |chunk: &[u8; N]| {
            let mut chunk = *chunk;
            if endian == Endian::Big {
                chunk.reverse();
            }
            of(chunk).into()
        };
        MetadataValue::List(chunks.iter().map(one).collect())
    }
    match dtype {
        ckpt_api::DType::F64 => Some(all(bytes, endian, f64::from_le_bytes)),
        ckpt_api::DType::F32 => Some(all(bytes, endian, f32::from_le_bytes)),
        ckpt_api::DType::I64 => Some(all(bytes, endian, i64::from_le_bytes)),
        _ => None,
    }
}
