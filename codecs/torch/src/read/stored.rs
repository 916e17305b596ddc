//! One tensor of a file: what its view states, and where its bytes lie.

use super::layout::{Use, place};
use super::rebuild::{Made, Quantizer, View, made};
use crate::container::{Record, Saved};
use crate::format::ID;
use crate::pickle::Id;
use ckpt_api::zip::Member;
use ckpt_api::{DType, Endian, Error, File, Limits, MetadataValue, Placement, Result, Tensor, TensorId};

/// Scales of one tensor.
const MOST_SCALES: u64 = 1 << 16;

/// A file whose container was read.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a File,
    pub(crate) saved: &'a Saved,
    pub(crate) limits: &'a Limits,
}

/// A tensor of a file.
pub(crate) struct Stored<'a> {
    /// With its scales and zero points as metadata, if it is quantized.
    pub(crate) tensor: Tensor,
    pub(crate) placement: Placement,
    pub(crate) used: Use,
    /// The storage.
    pub(crate) record: &'a Record,
}

impl<'a> Source<'a> {
    /// Finds the tensor of a view.
    ///
    /// # Errors
    /// Those of [`place`]; [`ckpt_api::Kind::Corrupt`] if the storage is missing; [`ckpt_api::Kind::Unsupported`] for
    /// scales that are no plain list.
    pub(crate) fn stored(self, view: &View<'_>, id: TensorId, name: &str) -> Result<Stored<'a>> {
        let dtype =
            view.element.dtype.ok_or_else(|| Error::unsupported("the tensor's type is not supported"))?;
        let mut tensor = Tensor::new(name, dtype, view.shape.clone());
        self.quantize(&mut tensor, view)?;
        let record = self.record(view)?;
        let (placement, used) = place((id, &tensor), view, record, self.saved.endian, self.limits)?;
        Ok(Stored { tensor, placement, used, record })
    }

    /// Compares the checksum of a storage, if it has one.
    ///
    /// # Errors
    /// Those of [`Member::check_crc`].
    pub(crate) fn check_crc(self, record: &Record) -> Result<()> {
        let Some(crc) = record.crc else { return Ok(()) };
        let member = Member { start: record.start, len: record.len, compression: record.compression.clone() };
        member.check_crc(self.file, crc)
    }

    fn record(self, view: &View<'_>) -> Result<&'a Record> {
        let key = view.storage.key;
        self.saved.records.get(key).ok_or_else(|| {
            Error::corrupt("the storage of a tensor is missing")
                .expected(format!("the storage '{}'", key.escape_debug()))
                .help("the file is damaged or was changed: get it again")
        })
    }

    /// Keeps what the integers of a quantized tensor stand for as its metadata.
    fn quantize(self, tensor: &mut Tensor, view: &View<'_>) -> Result<()> {
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
    fn numbers(self, id: Id) -> Result<MetadataValue> {
        let unsupported =
            || Error::unsupported("the scales of the quantized tensor are no plain list of numbers");
        let Made::Tensor(view) = made(&self.saved.tree, id)? else { return Err(unsupported()) };
        let dtype = view.element.dtype.ok_or_else(unsupported)?;
        let tensor = Tensor::new("", dtype, view.shape.clone());
        let record = self.record(&view)?;
        let (placement, _) = place((TensorId(0), &tensor), &view, record, self.saved.endian, self.limits)?;
        let [extent] = &placement.extents[..] else { return Err(unsupported()) };
        let is_plain = tensor.shape.rank() == 1 && placement.window().is_none() && extent.len == record.len;
        if !is_plain || tensor.shape.elements() > MOST_SCALES {
            return Err(unsupported());
        }
        self.check_crc(record)?;
        let bytes = extent.open(self.file)?.bytes(0, extent.len)?;
        numbers(&bytes, dtype, self.saved.endian).ok_or_else(unsupported)
    }
}

fn numbers(bytes: &[u8], dtype: DType, endian: Endian) -> Option<MetadataValue> {
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
        DType::F64 => Some(all(bytes, endian, f64::from_le_bytes)),
        DType::F32 => Some(all(bytes, endian, f32::from_le_bytes)),
        DType::I64 => Some(all(bytes, endian, i64::from_le_bytes)),
        _ => None,
    }
}
