//! One tensor of a file: what its view states, and where its bytes are.

use super::layout::{Use, place};
use super::rebuild::made;
use super::view::{Made, Quantizer, View};
use crate::container::{Record, Saved};
use ckpt_api::{
    Affine, DType, Endian, Error, File, Limits, Placement, Quantization, Result, Tensor, TensorId,
};
use ckpt_containers::pickle::Id;
use ckpt_containers::zip::Member;

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
    /// With its scales and zero points, if it is quantized.
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
        let tensor = Tensor::new(name, dtype, view.shape.clone()).with_quantization(self.quantization(view)?);
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

    /// What the integers of a quantized tensor stand for.
    fn quantization(self, view: &View<'_>) -> Result<Option<Quantization>> {
        let quantization = match view.quantizer {
            None => return Ok(None),
            Some(Quantizer::Tensor { scale, zero_point }) => tensor_quantization(scale, zero_point)?,
            Some(Quantizer::Channel { scales, zero_points, axis }) => {
                let axis = usize::try_from(axis).map_err(|_| unlisted())?;
                Affine::new(self.numbers(scales)?, self.numbers(zero_points)?, Some(axis))?.into()
            }
        };
        if !quantization.fits(&view.shape) {
            return Err(Error::corrupt("a quantized tensor has other scales than its axis has indices")
                .found(quantization.to_string())
                .expected(format!("one for each, of shape {}", view.shape)));
        }
        Ok(Some(quantization))
    }

    /// The numbers of a small tensor.
    fn numbers(self, id: Id) -> Result<Vec<f64>> {
        let Made::Tensor(view) = made(&self.saved.tree, id)? else { return Err(unlisted()) };
        let dtype = view.element.dtype.ok_or_else(unlisted)?;
        let tensor = Tensor::new("", dtype, view.shape.clone());
        let record = self.record(&view)?;
        let (placement, _) = place((TensorId(0), &tensor), &view, record, self.saved.endian, self.limits)?;
        let [extent] = &placement.extents[..] else { return Err(unlisted()) };
        let is_plain = tensor.shape.rank() == 1 && placement.window().is_none() && extent.len == record.len;
        if !is_plain || tensor.shape.elements() > MOST_SCALES {
            return Err(unlisted());
        }
        self.check_crc(record)?;
        let bytes = extent.open(self.file)?.bytes(0, extent.len)?;
        numbers(&bytes, dtype, self.saved.endian).ok_or_else(unlisted)
    }
}

/// What the integers of a tensor with one scale stand for.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a scale that is not finite, and for a zero point that no quantized type has.
pub(crate) fn tensor_quantization(scale: f64, zero_point: i64) -> Result<Quantization> {
    Ok(Affine::new([scale], [exact(zero_point).ok_or_else(unlisted)?], None)?.into())
}

fn unlisted() -> Error {
    Error::unsupported("the scales of the quantized tensor are no plain list of numbers")
}

fn numbers(bytes: &[u8], dtype: DType, endian: Endian) -> Option<Vec<f64>> {
    fn all<const N: usize>(bytes: &[u8], endian: Endian, of: fn([u8; N]) -> Option<f64>) -> Option<Vec<f64>> {
        let (chunks, _) = bytes.as_chunks::<N>();
        let one = |chunk: &[u8; N]| {
            let mut chunk = *chunk;
            if endian == Endian::Big {
                chunk.reverse();
            }
            of(chunk)
        };
        chunks.iter().map(one).collect()
    }
    match dtype {
        DType::F64 => all(bytes, endian, |bytes| Some(f64::from_le_bytes(bytes))),
        DType::F32 => all(bytes, endian, |bytes| Some(f32::from_le_bytes(bytes).into())),
        DType::I64 => all(bytes, endian, |bytes| exact(i64::from_le_bytes(bytes))),
        _ => None,
    }
}

/// The number as a float, if there is one.
fn exact(number: i64) -> Option<f64> {
    // Zero points of PyTorch are those of its quantized types, of at most 32 bits.
    i32::try_from(number).ok().map(f64::from)
}
