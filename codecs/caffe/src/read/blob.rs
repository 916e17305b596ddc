//! A blob: its shape, and where its numbers are.

use crate::format::{MOST_AXES, WIRE};
use ckpt_api::{
    DType, Encoding, Error, Extent, File, FileId, Limits, Placement, Result, Shape, Tensor, TensorId,
};
use ckpt_containers::decoders::ProtobufNumbers;
use ckpt_containers::protobuf::{Field, Value, Wire};
use std::num::NonZeroU8;
use std::ops::Range;

/// The most bytes of the lengths of a blob's axes: each has at most ten, and the field a tag and a length.
const MOST_LIST: u64 = (MOST_AXES as u64 + 2) * 10;
/// Numbers of the dtypes of raw data.
const RAW: [(i64, DType); 3] = [(0, DType::F64), (1, DType::F32), (2, DType::F16)];

/// A blob of a layer.
#[derive(Clone)]
pub(crate) struct Blob {
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    /// The numbers: their bytes, or fields with one each.
    data: Data,
}

#[derive(Clone)]
enum Data {
    Packed(Range<u64>),
    /// Fields of one number each, with a tag of one byte, one after the other.
    Single(Range<u64>),
}

/// What the fields of a blob state.
#[derive(Default)]
struct Stated {
    shape: Option<Vec<i64>>,
    old_shape: [Option<i64>; 4],
    floats: Option<Data>,
    doubles: Option<Data>,
    raw: Option<Range<u64>>,
    raw_type: i64,
}

impl Blob {
    /// Reads the blob in this range.
    pub(crate) fn read(file: &File, limits: &Limits, range: Range<u64>) -> Result<Blob> {
        let end = range.end;
        let start = range.start;
        let mut wire = Wire::within(file, limits, &WIRE, range)?;
        let mut stated = Stated::default();
        while let Some(field) = wire.field(end)? {
            stated.take(&mut wire, &field)?;
            wire.skip(&field)?;
        }
        let shape = stated.shape().map_err(|error| error.offset(start))?;
        stated.located(shape).map_err(|error| error.offset(start))
    }

    /// The bytes of the numbers, if they are one after the other.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        match &self.data {
            Data::Packed(range) => Some(range.clone()),
            Data::Single(_) => None,
        }
    }

    /// Describes the blob, and where its numbers are.
    pub(crate) fn described(&self, id: TensorId, name: String) -> (Tensor, Placement) {
        let tensor = Tensor::new(name, self.dtype, self.shape.clone());
        let bytes = tensor.value_bytes();
        let extent = match &self.data {
            Data::Packed(range) => Extent::new(FileId(0), range.start, bytes),
            Data::Single(range) => {
                let element = if self.dtype == DType::F64 { 8 } else { 4 };
                let element_bytes = NonZeroU8::new(element).unwrap_or(NonZeroU8::MIN);
                let numbers = ProtobufNumbers { tag_bytes: 1, element_bytes, is_varint: false };
                let stored = range.end.saturating_sub(range.start);
                Extent::new(FileId(0), range.start, bytes).with_compression(numbers.compression(stored))
            }
        };
        let placement = Placement::new(id, tensor.name.clone(), vec![extent], Encoding::row_major(&tensor));
        (tensor, placement)
    }
}

impl Stated {
    fn take(&mut self, wire: &mut Wire<'_>, field: &Field) -> Result<()> {
        match field.number {
            number @ 1..=4 => {
                let axis = usize::try_from(number).unwrap_or(0).saturating_sub(1);
                if let Some(own) = self.old_shape.get_mut(axis) {
                    *own = Some(wire.int(field)?);
                }
            }
            5 => numbers(&mut self.floats, wire, field, 4)?,
            7 => {
                let range = wire.range(field)?;
                let dims = self.shape.get_or_insert_default();
                while let Some(field) = wire.field(range.end)? {
                    let len = field.span.end.saturating_sub(field.span.start);
                    let is_list = field.number == 1;
                    if is_list && len <= MOST_LIST {
                        wire.ints(&field, dims)?;
                    }
                    if is_list && (len > MOST_LIST || dims.len() > MOST_AXES) {
                        return Err(Error::corrupt("a blob has more axes than Caffe allows")
                            .offset(range.start)
                            .found(ckpt_api::count(len, "byte"))
                            .expected(format!("the lengths of at most {MOST_AXES} axes")));
                    }
                    wire.skip(&field)?;
                }
            }
            8 => numbers(&mut self.doubles, wire, field, 8)?,
            10 => self.raw_type = wire.int(field)?,
            12 => self.raw = Some(wire.range(field)?),
            _ => {}
        }
        Ok(())
    }

    /// The shape, or the four axes of a blob of 2014.
    fn shape(&self) -> Result<Shape> {
        let dims = match &self.shape {
            Some(dims) => dims.clone(),
            None => self.old_shape.iter().map(|dim| dim.unwrap_or(0)).collect(),
        };
        let lengths: Option<Vec<u64>> =
            dims.iter().map(|dim| u64::try_from(*dim).ok().filter(|dim| *dim > 0)).collect();
        let lengths = lengths.ok_or_else(|| {
            Error::corrupt("the shape of a blob has lengths that no axis has")
                .found(format!("{dims:?}"))
                .expected("at least 1 each")
        })?;
        Shape::new(lengths)
    }

    /// Finds the numbers, which fit the shape.
    fn located(self, shape: Shape) -> Result<Blob> {
        let raw = match self.raw {
            None => None,
            Some(range) => {
                let dtype = RAW.into_iter().find(|(number, _)| *number == self.raw_type);
                let (_, dtype) = dtype.ok_or_else(|| {
                    Error::unsupported("a blob has raw data of an unknown type")
                        .found(self.raw_type.to_string())
                        .expected("0 (double), 1 (float) or 2 (half)")
                })?;
                Some((Data::Packed(range), dtype))
            }
        };
        let floats = self.floats.map(|data| (data, DType::F32));
        let doubles = self.doubles.map(|data| (data, DType::F64));
        let mut all = [floats, doubles, raw].into_iter().flatten();
        let (data, dtype) = all.next().ok_or_else(|| {
            let error = Error::corrupt("a blob has a shape and no numbers");
            error.found("no numbers").expected(shape.to_string())
        })?;
        if all.next().is_some() {
            return Err(Error::corrupt("a blob has numbers of several types")
                .found("float, double or raw data beside each other")
                .expected("one of them"));
        }
        let bytes = dtype.bytes().unwrap_or(1);
        let (stored, unit) = match &data {
            Data::Packed(range) => (range.end.saturating_sub(range.start), bytes),
            Data::Single(range) => (range.end.saturating_sub(range.start), bytes.saturating_add(1)),
        };
        if shape.elements().checked_mul(unit) == Some(stored) {
            return Ok(Blob { shape, dtype, data });
        }
        let found = match stored % unit {
            0 => ckpt_api::count(stored / unit, "number"),
            _ => ckpt_api::count(stored, "byte"),
        };
        Err(Error::corrupt("the numbers of a blob do not fit its shape")
            .found(found)
            .expected(format!("{} of {dtype}", shape)))
    }
}

/// Adds a field of numbers, packed or one.
fn numbers(data: &mut Option<Data>, wire: &Wire<'_>, field: &Field, bytes: u64) -> Result<()> {
    let span = field.span.clone();
    let is_single = match (&field.value, bytes) {
        (Value::Fixed32(_), 4) | (Value::Fixed64, 8) => span.end.saturating_sub(span.start) == bytes + 1,
        _ => false,
    };
    let next = match data.take() {
        None if is_single => Data::Single(span),
        None => Data::Packed(wire.range(field)?),
        Some(Data::Single(before)) if is_single && before.end == span.start => {
            Data::Single(before.start..span.end)
        }
        // What a writer never does, and nothing else can be told of.
        Some(Data::Packed(range)) if range.is_empty() => Data::Packed(wire.range(field)?),
        Some(_) => {
            return Err(Error::unsupported("the numbers of a blob are in several pieces")
                .offset(span.start)
                .found("another piece")
                .expected("packed numbers, or fields of one number, one after the other"));
        }
    };
    *data = Some(next);
    Ok(())
}
