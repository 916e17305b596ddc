//! Locates the bytes of a tensor: in the model, in a typed field, or in a file of external data.

use super::model::LOCATION;
use crate::format::message::{Chunk, Tensor as Stored};
use crate::format::{STRING, dtype, is_packed};
use ckpt_api::fields::varint;
use ckpt_api::{
    DType, Encoding, Error, Extent, Fields, File, FileId, Input, Limits, Packing, Placement, Result, Shape,
    Tensor, TensorId, Viewed,
};
use ckpt_containers::decoders::ProtobufNumbers;
use std::collections::HashMap;
use std::num::NonZeroU8;
use std::ops::Range;

/// Turns the tensors of a model into those of a checkpoint.
pub(crate) struct Locator<'a> {
    input: &'a Input,
    file: &'a File,
    limits: &'a Limits,
    /// Names of the model and of the files of external data.
    pub(crate) files: Vec<String>,
    /// The file of each location.
    pub(crate) ids: HashMap<String, FileId>,
    /// External data of any tensors can be the same bytes.
    viewed: Viewed,
}

impl<'a> Locator<'a> {
    /// `entry` is the model's name.
    pub(crate) fn new(input: &'a Input, file: &'a File, limits: &'a Limits, entry: &str) -> Self {
        let mut viewed = Viewed::default();
        viewed.open(file.len(), []);
        Locator { input, file, limits, files: vec![entry.to_owned()], ids: HashMap::new(), viewed }
    }

    /// Returns the tensor and its place.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for strings; [`ckpt_api::Kind::Corrupt`] for bytes that do not fit the shape.
    pub(crate) fn locate(
        &mut self,
        stored: &Stored,
        name: &str,
        id: TensorId,
    ) -> Result<(Tensor, Placement)> {
        self.located(stored, name, id).map_err(|error| error.tensor(name))
    }

    fn located(&mut self, stored: &Stored, name: &str, id: TensorId) -> Result<(Tensor, Placement)> {
        let dtype = dtype_of(stored)?;
        let tensor = Tensor::new(name, dtype, shape_of(stored)?);
        let mut encoding = Encoding::row_major(&tensor);
        if is_packed(dtype) {
            encoding = encoding.with_packing(Packing::Bits);
        }
        let len = encoding.padded_len(tensor.shape.elements()).ok_or_else(|| {
            Error::unsupported("the tensor has too many bytes").found(format!("{} of {dtype}", tensor.shape))
        })?;
        let extents = self.extents(stored, &tensor, len)?;
        let placement = Placement::new(id, &tensor.name, extents, encoding);
        Ok((tensor, placement))
    }

    fn extents(&mut self, stored: &Stored, tensor: &Tensor, len: u64) -> Result<Vec<Extent>> {
        if stored.is_external() {
            if stored.raw.is_some() || !stored.typed.is_empty() {
                return Err(Error::corrupt("the tensor is stored both in the model and as external data"));
            }
            let extent = self.external(&stored.external, len)?;
            self.viewed.add(tensor).map_err(|error| error.help("give each tensor bytes of its own"))?;
            return Ok(vec![extent]);
        }
        let raw = stored.raw.clone().filter(|raw| !raw.is_empty() || stored.typed.is_empty());
        match raw {
            Some(_) if !stored.typed.is_empty() => {
                Err(Error::corrupt("the tensor is stored twice: as bytes and as numbers"))
            }
            Some(raw) => {
                let found = raw.end.saturating_sub(raw.start);
                if found != len {
                    return Err(Error::corrupt("the tensor's data do not fit its shape")
                        .field("raw_data")
                        .offset(raw.start)
                        .found(ckpt_api::count(found, "byte"))
                        .expected(format!("{len} for {} of {}", tensor.shape, tensor.dtype)));
                }
                Ok(vec![Extent::new(FileId(0), raw.start, len)])
            }
            None => self.typed(&stored.typed, tensor, len),
        }
    }

    /// Numbers in typed fields.
    fn typed(&self, chunks: &[Chunk], tensor: &Tensor, len: u64) -> Result<Vec<Extent>> {
        let (field, name, element) = typed_field(tensor.dtype);
        let mut extents = Vec::with_capacity(chunks.len().max(1));
        let mut total = 0u64;
        for chunk in chunks {
            if chunk.field != field {
                return Err(Error::corrupt("the tensor's numbers are in a field of another type")
                    .offset(chunk.range.start)
                    .found(format!("field {}", chunk.field))
                    .expected(format!("{name}, for {}", tensor.dtype)));
            }
            let extent = self.chunk(chunk, tensor.dtype, element)?;
            total = total.saturating_add(extent.len);
            extents.push(extent);
        }
        if total != len {
            let at = chunks.first().map_or(0, |chunk| chunk.range.start);
            let error = Error::corrupt("the tensor's data do not fit its shape")
                .field(if chunks.is_empty() { "raw_data" } else { name })
                .found(if chunks.is_empty() { "no data".to_owned() } else { ckpt_api::count(total, "byte") })
                .expected(format!("{len} for {} of {}", tensor.shape, tensor.dtype));
            return Err(if at > 0 { error.offset(at) } else { error });
        }
        Ok(extents)
    }

    fn chunk(&self, chunk: &Chunk, dtype: DType, element: NonZeroU8) -> Result<Extent> {
        let stored = chunk.range.end.saturating_sub(chunk.range.start);
        if chunk.is_plain() {
            return Ok(Extent::new(FileId(0), chunk.range.start, stored));
        }
        let is_varint = !matches!(chunk.field, 4 | 10);
        let size = u64::from(element.get());
        let len = match is_varint {
            true => self.varints(chunk, dtype)?.saturating_mul(size),
            false => stored / size.saturating_add(chunk.tag_bytes.into()) * size,
        };
        let numbers = ProtobufNumbers { tag_bytes: chunk.tag_bytes, element_bytes: element, is_varint };
        Ok(Extent::new(FileId(0), chunk.range.start, len).with_compression(numbers.compression(stored)))
    }

    /// Counts the varints of a chunk, and checks that each is a value of the dtype.
    fn varints(&self, chunk: &Chunk, dtype: DType) -> Result<u64> {
        let len = chunk.range.end.saturating_sub(chunk.range.start);
        let mut fields = Fields::range(self.file, chunk.range.start, len)?;
        let mut count = 0u64;
        while fields.remaining() > 0 {
            let at = fields.position();
            fields.skip(chunk.tag_bytes.into())?;
            let value = fields.parse(varint)? as i64;
            if !holds(dtype, value) {
                return Err(Error::corrupt("a number is no value of the tensor's type")
                    .offset(at)
                    .found(value.to_string())
                    .expected(dtype.name()));
            }
            count = count.saturating_add(1);
        }
        Ok(count)
    }

    fn external(&mut self, pairs: &[(String, String, Range<u64>)], len: u64) -> Result<Extent> {
        let value =
            |key: &str| pairs.iter().rfind(|(known, ..)| known == key).map(|(_, value, _)| value.as_str());
        let number = |key: &'static str| -> Result<Option<u64>> {
            let Some(text) = value(key) else { return Ok(None) };
            text.trim().parse().map(Some).map_err(|_| {
                Error::corrupt("a number of the external data is not valid")
                    .field(key)
                    .found(format!("'{}'", text.escape_debug()))
            })
        };
        let location = value(LOCATION).filter(|location| !location.is_empty());
        let location = location.ok_or_else(|| Error::corrupt("the external data has no location"))?;
        // A length of 0 is one that is not stated: the data go as far as the shape says.
        let stated = number("length")?.filter(|stated| *stated > 0).unwrap_or(len);
        let offset = number("offset")?.unwrap_or(0);
        if stated != len {
            return Err(Error::corrupt("the tensor's data do not fit its shape")
                .field("length")
                .found(ckpt_api::count(stated, "byte"))
                .expected(len.to_string()));
        }
        offset
            .checked_add(len)
            .ok_or_else(|| Error::corrupt("the external data ends after the last offset"))?;
        Ok(Extent::new(self.file_of(location)?, offset, len))
    }

    fn file_of(&mut self, location: &str) -> Result<FileId> {
        if let Some(id) = self.ids.get(location) {
            return Ok(*id);
        }
        let leaves = |what: &str| {
            Error::corrupt(what)
                .field("location")
                .found(format!("'{}'", location.escape_debug()))
                .expected("a path relative to the model, inside its directory")
        };
        let parts: Vec<&str> = location.split('/').filter(|part| *part != ".").collect();
        let name = parts.join("/");
        if location.contains(['\\', '\0', ':'])
            || parts.is_empty()
            || parts.iter().any(|part| *part == ".." || part.is_empty())
        {
            return Err(leaves("the external data lies outside the model's directory"));
        }
        self.input.check_links(&name).map_err(|error| error.field("location"))?;
        self.limits.check(ckpt_api::Limit::Files, self.files.len() as u64 + 1)?;
        let id = FileId(self.files.len());
        // One that is missing is named when its bytes are needed.
        let len = self.input.file(&name).map_or(u64::MAX, |file| file.len());
        self.viewed.open(len, [len]);
        self.files.push(name);
        self.ids.insert(location.to_owned(), id);
        Ok(id)
    }
}

/// The dtype of a tensor.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for strings, [`ckpt_api::Kind::Corrupt`] for an unknown number.
pub(crate) fn dtype_of(stored: &Stored) -> Result<DType> {
    if stored.data_type == STRING {
        return Err(Error::unsupported("tensors of strings are not supported").field("data_type"));
    }
    dtype(stored.data_type).ok_or_else(|| {
        Error::corrupt("the tensor has an unknown data type")
            .field("data_type")
            .found(stored.data_type.to_string())
    })
}

pub(crate) fn shape_of(stored: &Stored) -> Result<Shape> {
    let dims = stored.dims.iter().map(|dim| u64::try_from(*dim).ok()).collect::<Option<Vec<_>>>();
    let dims = dims.ok_or_else(|| {
        Error::corrupt("a length of the tensor is negative").field("dims").found(format!("{:?}", stored.dims))
    })?;
    Shape::new(dims).map_err(|error| error.field("dims"))
}

/// The field that has the numbers of a dtype, its name, and the bytes of one number's element.
fn typed_field(dtype: DType) -> (u64, &'static str, NonZeroU8) {
    let (field, name) = match dtype {
        DType::F32 | DType::C64 => (4, "float_data"),
        DType::F64 | DType::C128 => (10, "double_data"),
        DType::I64 => (7, "int64_data"),
        DType::U32 | DType::U64 => (11, "uint64_data"),
        _ => (5, "int32_data"),
    };
    let bytes = u8::try_from(dtype.component_bytes()).ok().and_then(NonZeroU8::new);
    (field, name, bytes.unwrap_or(NonZeroU8::MIN))
}

/// Whether a number of `int32_data`, `int64_data` or `uint64_data` is a value of the dtype, or its bits.
fn holds(dtype: DType, value: i64) -> bool {
    match dtype {
        DType::I64 | DType::U64 => true,
        DType::U32 => u32::try_from(value).is_ok(),
        DType::I32 => i32::try_from(value).is_ok(),
        DType::I16 => i16::try_from(value).is_ok(),
        DType::I8 => i8::try_from(value).is_ok(),
        DType::U16 | DType::F16 | DType::Bf16 => u16::try_from(value).is_ok(),
        DType::Bool => matches!(value, 0 | 1),
        // Pairs of small integers may have the sign of a byte.
        DType::I4 | DType::I2 => i8::try_from(value).is_ok() || u8::try_from(value).is_ok(),
        _ => u8::try_from(value).is_ok(),
    }
}
