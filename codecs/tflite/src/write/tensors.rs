//! The tensors of a new model.

use super::flat::{Field, Table};
use crate::format::{dtype_number, field};
use ckpt_api::{DType, Encoding, Error, Loss, LossKind, Packing, Quantization, Result, Shape, Tensor};

/// How a tensor is stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) encoding: Encoding,
    /// Bytes of its elements.
    pub(super) len: u64,
    /// What becomes of its scales.
    pub(super) loss: Option<Loss>,
    quantization: Option<Table>,
}

impl Stored {
    /// Returns how a tensor is stored; `None` for one that the format does not have.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a tensor that is too large.
    pub(super) fn of(tensor: &Tensor) -> Result<Option<Self>> {
        let Some(dtype) = holder(tensor.dtype) else { return Ok(None) };
        let is_packed = matches!(dtype, DType::I4 | DType::U4 | DType::I2);
        let packing = if is_packed { Packing::Bits } else { Packing::Bytes };
        let encoding = Encoding::row_major(tensor).with_dtype(dtype).with_packing(packing);
        let too_large = || Error::unsupported("the tensor has too many bytes").tensor(&tensor.name);
        let len = encoding.padded_len(tensor.shape.elements()).ok_or_else(too_large)?;
        let (quantization, loss) = match &tensor.quantization {
            Some(own) if !dtype.is_float() => quantization(tensor, own),
            _ => (None, None),
        };
        Ok(Some(Stored { encoding, len, loss, quantization }))
    }

    /// The bytes of the tensor's buffer: at least one, for a buffer without bytes is no constant.
    pub(super) fn buffer_len(&self) -> u64 {
        self.len.max(1)
    }

    /// The table of the tensor, in this buffer.
    pub(super) fn table(&self, tensor: &Tensor, buffer: u32) -> Result<Table> {
        let number = dtype_number(self.encoding.dtype).unwrap_or_default();
        let table = Table::default()
            .with(
                field::tensor::SHAPE,
                Field::I32s(lengths(&tensor.shape).map_err(|error| error.tensor(&tensor.name))?),
            )
            .with(field::tensor::TYPE, Field::I8(number))
            .with(field::tensor::BUFFER, Field::U32(buffer))
            .with(field::tensor::NAME, Field::Text(tensor.name.to_string()));
        Ok(match &self.quantization {
            Some(own) => table.with(field::tensor::QUANTIZATION, Field::Table(own.clone())),
            None => table,
        })
    }
}

/// The lengths of a shape, as the format has them.
pub(super) fn lengths(shape: &Shape) -> Result<Vec<i32>> {
    let lens = shape.iter().map(|len| i32::try_from(*len)).collect::<std::result::Result<_, _>>();
    lens.map_err(|_| {
        Error::unsupported("an axis is too long for the format")
            .found(shape.to_string())
            .expected(format!("at most {}", i32::MAX))
    })
}

/// The dtype to store `dtype` as: itself or one that holds every value exactly; `None` if there is none.
fn holder(dtype: DType) -> Option<DType> {
    dtype.holder(|dtype| dtype_number(dtype).is_some())
}

/// The table of scales and zero points, and the loss if the format's numbers are others.
fn quantization(tensor: &Tensor, own: &Quantization) -> (Option<Table>, Option<Loss>) {
    let lost = |detail: &str| Some(Loss::new(LossKind::ScaleDropped, &tensor.name, detail));
    let (scales, zero_points, axis) = match own {
        Quantization::Units { scale } => {
            return (None, lost(&format!("the format has no integers of {scale} units per 1.0")));
        }
        Quantization::Affine(affine) => {
            (affine.scales().to_vec(), affine.zero_points().to_vec(), affine.axis())
        }
    };
    let narrow = scales.iter().map(|scale| narrowed(*scale)).collect::<Option<Vec<f32>>>();
    let Some(narrow) = narrow else {
        return (None, lost("scales are numbers of 32 bits, and these have more"));
    };
    let points = zero_points.iter().map(|zero| whole(*zero)).collect::<Option<Vec<i64>>>();
    let Some(points) = points else { return (None, lost("zero points are integers, and these are not")) };
    let axis = axis.and_then(|axis| i32::try_from(axis).ok()).unwrap_or(0);
    let table =
        Table::default().with(2, Field::F32s(narrow)).with(3, Field::I64s(points)).with(6, Field::I32(axis));
    (Some(table), None)
}

/// A number in 32 bits, if they hold it.
#[expect(clippy::cast_possible_truncation, reason = "what is lost is found")]
fn narrowed(number: f64) -> Option<f32> {
    let narrow = number as f32;
    (f64::from(narrow) == number).then_some(narrow)
}

/// A whole number of 32 bits, if it is one.
#[expect(clippy::cast_possible_truncation, reason = "what is lost is found")]
fn whole(number: f64) -> Option<i64> {
    let integer = number as i32;
    (f64::from(integer) == number).then_some(integer.into())
}
