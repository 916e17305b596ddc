//! Reads the header of one file: metadata, descriptions of tensors, and where the data begins.

use crate::encodings;
use crate::format::{ALIGNMENT, DEFAULT_ALIGNMENT, MAGIC, MOST_AXES, TensorType, VERSION, removed};
use crate::padding::Padding;
use crate::value::Reader;
use ckpt_api::fields::{array, count, le, number};
use ckpt_api::{
    DType, Encoding, Endian, Error, Fields, File, Limit, Limits, MetadataMap, MetadataValue, Result, Rules,
    Shape, Tensor,
};
use nom::{Parser, multi};
use std::collections::HashSet;

/// Bytes that a key and its value take at least: the key's length, a type, and one byte.
const MIN_PAIR: u64 = 13;
/// Bytes that the description of a tensor takes at least: the name's length, no axes, a type, an offset.
const MIN_TENSOR: u64 = 24;

/// The header of a file.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) endian: Endian,
    /// Keys and values, in the file's order.
    pub(crate) pairs: MetadataMap,
    /// Tensors, in the file's order.
    pub(crate) tensors: Vec<Stored>,
    /// Whether the file ends with its last tensor, and not at the next multiple of the alignment.
    pub(crate) is_unpadded: bool,
    /// What is between the header and the data.
    pub(crate) padding: Padding,
}

/// A tensor of a file.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) tensor: Tensor,
    pub(crate) encoding: Encoding,
    /// Offset of its first byte in the file.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) len: u64,
    /// What follows it.
    pub(crate) padding: Padding,
}

impl Header {
    /// Reads and checks the header of a file.
    pub(crate) fn read(file: &File, limits: &Limits, rules: &mut Rules) -> Result<Self> {
        let mut fields = Fields::new(file);
        let (version, endian) = version(&mut fields)?;
        let tensors = read_count(&mut fields, endian, MIN_TENSOR, "the number of tensors")?;
        limits.check(Limit::Tensors, tensors).map_err(|error| error.field("the number of tensors"))?;
        let pairs = read_count(&mut fields, endian, MIN_PAIR, "the number of keys")?;
        let pairs = read_pairs(&mut fields, pairs, endian, limits)?;
        let alignment = alignment(&pairs, Error::corrupt)?;
        let mut tensors = read_tensors(&mut fields, tensors, endian, limits)?;
        let header = fields.position();
        let is_unpadded = locate(&mut tensors, header, alignment, file.len(), rules)?;
        let after =
            |end: u64| Padding::read(file, end..end.checked_next_multiple_of(alignment).unwrap_or(end));
        for stored in tensors.iter_mut().filter(|stored| stored.len > 0) {
            stored.padding = after(stored.offset.saturating_add(stored.len))?;
        }
        Ok(Header { version, endian, pairs, tensors, is_unpadded, padding: after(header)? })
    }
}

/// Reads the magic number and the version; the version's bytes show the byte order.
fn version(fields: &mut Fields) -> Result<(u32, Endian)> {
    let found = fields.parse(array::<4>)?;
    if found != MAGIC {
        return Err(Error::corrupt("the file does not begin with GGUF")
            .offset(0)
            .found(format!("'{}'", found.escape_ascii()))
            .help("the file is not a GGUF file, or is damaged"));
    }
    let number = fields.parse(le::<u32>)?;
    let (version, endian) = match number & 0xffff {
        0 => (number.swap_bytes(), Endian::Big),
        _ => (number, Endian::Little),
    };
    match version {
        2 | VERSION => Ok((version, endian)),
        1 => Err(Error::unsupported("the file has version 1 of GGUF, which is out of use")
            .offset(4)
            .expected("version 2 or 3")
            .help("convert the original model again with a current llama.cpp")),
        other => Err(Error::unsupported("the file has an unknown version of GGUF")
            .offset(4)
            .found(format!("version {other}"))
            .expected("version 2 or 3")),
    }
}

fn read_count(fields: &mut Fields, endian: Endian, min_bytes: u64, field: &str) -> Result<u64> {
    let read = fields.parse(|input| count(min_bytes, number::<u64>(endian))(input));
    read.map_err(|error| error.field(field))
}

fn read_pairs(fields: &mut Fields, count: u64, endian: Endian, limits: &Limits) -> Result<MetadataMap> {
    let mut pairs = MetadataMap::new();
    let mut reader = Reader::new(endian, limits);
    for _ in 0..count {
        let start = fields.position();
        let len = read_count(fields, endian, 1, "the length of a key")?;
        let key = fields.text(len, limits, Limit::NameBytes).map_err(|error| error.field("a key"))?;
        if key.is_empty() {
            return Err(Error::corrupt("a key is empty").offset(start));
        }
        let value = reader.read(fields).map_err(|error| error.field(key.as_str()))?;
        if pairs.get(&key).is_some() {
            return Err(Error::corrupt("the metadata has a key twice").offset(start).field(key));
        }
        pairs.insert(key, value);
    }
    Ok(pairs)
}

/// Returns the alignment that the metadata states; `error` makes the error for one that is none.
pub(crate) fn alignment(pairs: &MetadataMap, error: impl Fn(&'static str) -> Error) -> Result<u64> {
    let Some(value) = pairs.get(ALIGNMENT) else { return Ok(DEFAULT_ALIGNMENT.into()) };
    match value {
        MetadataValue::U32(alignment) if alignment.is_power_of_two() => Ok((*alignment).into()),
        other => Err(error("the alignment is no power of two of the type u32")
            .field(ALIGNMENT)
            .found(other.to_string().chars().take(80).collect::<String>())
            .expected("a power of two, stored as u32")),
    }
}

fn read_tensors(fields: &mut Fields, count: u64, endian: Endian, limits: &Limits) -> Result<Vec<Stored>> {
    let mut tensors: Vec<Stored> = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for _ in 0..count {
        let len = read_count(fields, endian, 1, "the length of a tensor's name")?;
        let name =
            fields.text(len, limits, Limit::NameBytes).map_err(|error| error.field("a tensor's name"))?;
        let stored = read_tensor(fields, name.clone(), endian).map_err(|error| error.tensor(name))?;
        tensors.push(stored);
    }
    let mut names = HashSet::with_capacity(tensors.len());
    match tensors.iter().find(|stored| !names.insert(stored.tensor.name.as_str())) {
        Some(stored) => Err(Error::corrupt("two tensors have the same name").tensor(&stored.tensor.name)),
        None => Ok(tensors),
    }
}

/// Reads what follows the name. The offset is still relative to the data.
fn read_tensor(fields: &mut Fields, name: String, endian: Endian) -> Result<Stored> {
    let start = fields.position();
    let rank = fields.parse(number::<u32>(endian))?;
    if rank > MOST_AXES {
        return Err(Error::corrupt("the tensor has more axes than GGUF allows")
            .offset(start)
            .found(rank.to_string())
            .expected(format!("at most {MOST_AXES}")));
    }
    let mut dims = fields.parse(|input| multi::count(number::<u64>(endian), rank as usize).parse(input))?;
    dims.reverse();
    let shape = Shape::new(dims).map_err(|error| error.offset(start))?;
    let start = fields.position();
    let id = fields.parse(number::<u32>(endian))?;
    let kind = TensorType::from_id(id).ok_or_else(|| unknown(id).offset(start))?;
    let dtype = match kind {
        TensorType::Plain(dtype) => dtype,
        TensorType::Blocks(_) => DType::F32,
    };
    let mut tensor = Tensor::new(name, dtype, shape);
    let mut encoding = Encoding::row_major(&tensor);
    match kind {
        TensorType::Plain(_) => encoding = encoding.with_endian(endian),
        TensorType::Blocks(block_type) => {
            let row = tensor.shape.last().copied().unwrap_or(1);
            let elements = u64::from(block_type.elements());
            if !row.is_multiple_of(elements) {
                return Err(Error::corrupt("the rows are no multiple of a block")
                    .offset(start)
                    .found(format!("rows of {row} elements of {}", kind.name()))
                    .expected(format!("a multiple of {elements}")));
            }
            encoding = encoding.in_blocks(encodings::of(block_type, endian).cloned());
            tensor.blocks = encoding.blocks().cloned().map(Box::new);
        }
    }
    let len = encoding.stored_len(tensor.shape.elements());
    let len = len.ok_or_else(|| Error::corrupt("the tensor has too many bytes").offset(start))?;
    let offset = fields.parse(number::<u64>(endian))?;
    Ok(Stored { tensor, encoding, offset, len, padding: Padding::Zeros })
}

fn unknown(id: u32) -> Error {
    match removed(id) {
        Some(name) => Error::unsupported(format!("llama.cpp no longer has the type {name}"))
            .found(format!("type {id}"))
            .help("quantize the original model again with a current llama.cpp"),
        None => Error::unsupported("the tensor has an unknown type")
            .found(format!("type {id}"))
            .help("the file is newer than this program, or damaged"),
    }
}

/// Makes offsets absolute, and checks that the tensors follow each other and the file has their bytes. Returns whether
/// the padding after the last tensor is missing.
fn locate(
    tensors: &mut [Stored],
    header: u64,
    alignment: u64,
    file_len: u64,
    rules: &mut Rules,
) -> Result<bool> {
    let aligned = |at: u64| at.checked_next_multiple_of(alignment).ok_or_else(too_far);
    let data = aligned(header)?;
    for stored in tensors.iter_mut() {
        stored.place(data, alignment, file_len).map_err(|error| error.tensor(&stored.tensor.name))?;
    }
    check_overlap(tensors)?;
    let mut next = data;
    for stored in tensors.iter() {
        if stored.offset != next {
            let error = Error::corrupt("the tensor does not follow the one before it")
                .offset(stored.offset)
                .tensor(&stored.tensor.name)
                .expected(format!("a tensor at offset {next}"));
            rules.mend(&stored.tensor.name, "it is read where the header places it", error)?;
        }
        next = aligned(stored.offset.saturating_add(stored.len))?;
    }
    let end = tensors.iter().map(|stored| stored.offset.saturating_add(stored.len)).max().unwrap_or(header);
    let padded = aligned(end)?;
    if file_len != padded && file_len != end {
        let error = Error::corrupt("the file does not end after its last tensor")
            .offset(end)
            .found(format!("a file of {file_len} bytes"))
            .expected(format!("{end} bytes, or {padded} with padding"))
            .help("the file was appended to or damaged: copy it again");
        rules.mend("the end of the file", "the bytes after the last tensor are ignored", error)?;
    }
    Ok(file_len < padded)
}

fn too_far() -> Error {
    Error::corrupt("the tensor lies beyond what a file can hold")
}

impl Stored {
    /// Makes the offset absolute, and checks that the file has the tensor's bytes.
    fn place(&mut self, data: u64, alignment: u64, file_len: u64) -> Result<()> {
        if !self.offset.is_multiple_of(alignment) {
            return Err(Error::corrupt("the tensor's offset is no multiple of the alignment")
                .found(self.offset.to_string())
                .expected(format!("a multiple of {alignment}")));
        }
        let start = data.checked_add(self.offset);
        let end = start.and_then(|start| start.checked_add(self.len));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(too_far().found(format!("offset {}", self.offset)));
        };
        self.offset = start;
        if end > file_len && self.len > 0 {
            return Err(Error::corrupt("the file ends before the tensor does")
                .offset(start)
                .found(format!("a file of {file_len} bytes"))
                .expected(format!("at least {end} bytes"))
                .help("the file is cut short: copy it again"));
        }
        Ok(())
    }
}

fn check_overlap(tensors: &[Stored]) -> Result<()> {
    let mut ordered: Vec<&Stored> = tensors.iter().filter(|stored| stored.len > 0).collect();
    ordered.sort_by_key(|stored| stored.offset);
    for (before, stored) in ordered.iter().zip(ordered.iter().skip(1)) {
        let end = before.offset.saturating_add(before.len);
        if stored.offset < end {
            return Err(Error::corrupt("two tensors overlap")
                .tensor(&stored.tensor.name)
                .offset(stored.offset)
                .expected(format!("an offset from {end}, where '{}' ends", before.tensor.name)));
        }
    }
    Ok(())
}
