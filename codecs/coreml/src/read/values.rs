//! Where the elements of a program's values are.

use super::files::{Files, Run};
use super::program::{Data, Immediate, Value};
use crate::decode::{Numbers, Recipe};
use crate::format::Element;
use ckpt_api::{
    Compression, DType, Decoder, Encoding, Error, Extent, FileId, Packing, Result, Shape, Tensor,
};
use ckpt_containers::decoders::ProtobufNumbers;
use std::num::NonZeroU8;

/// Elements of a value that is in a file.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(super) element: Element,
    pub(crate) shape: Shape,
    pub(super) run: Run,
    form: Form,
}

/// How the bytes of a run have the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As they are.
    Plain,
    /// As numbers of a field.
    Numbers(ProtobufNumbers),
    /// As one that stands for all.
    Repeated,
}

/// A tensor and where its bytes are.
pub(super) struct Located {
    pub(super) tensor: Tensor,
    pub(super) extents: Vec<Extent>,
    pub(super) encoding: Encoding,
}

/// Finds the elements of a value; `None` for one without: texts, lists, no data.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for elements that do not fit the type.
pub(crate) fn stored(value: &Value, files: &mut Files<'_>) -> Result<Option<Stored>> {
    stored_at(value, files).map_err(|error| match error.context().offset {
        Some(_) => error,
        None => error.offset(value.at),
    })
}

fn stored_at(value: &Value, files: &mut Files<'_>) -> Result<Option<Stored>> {
    if matches!(value.data, Data::None | Data::Texts(_) | Data::Other) {
        return Ok(None);
    }
    let element = value.ty.element().ok_or_else(|| {
        Error::corrupt("a value has an unknown type of elements")
            .field("dataType")
            .found(value.ty.number.to_string())
            .expected("a number of MIL's types")
    })?;
    if element.dtype.is_none() {
        return Ok(None);
    }
    let lens = value.ty.known().ok_or_else(|| {
        Error::corrupt("the length of a constant's axis is not stated")
            .field("dimensions")
            .found("a free length")
            .expected("a number")
    })?;
    let shape = Shape::new(lens).map_err(|error| error.field("dimensions"))?;
    let (run, form) = match &value.data {
        Data::Blob { file, offset } => (files.blob(file, *offset, element, shape.elements())?, Form::Plain),
        Data::Immediate(immediate) => located(immediate, element, shape.elements(), files)?,
        _ => return Ok(None),
    };
    Ok(Some(Stored { element, shape, run, form }))
}

/// Checks that numbers of a field are as many as the elements.
fn located(immediate: &Immediate, element: Element, elements: u64, files: &Files<'_>) -> Result<(Run, Form)> {
    let Immediate { field, tag_bytes, range } = immediate;
    let len = range.end.saturating_sub(range.start);
    let run = Run { file: FileId(0), offset: range.start, len };
    let size = NonZeroU8::new(u8::try_from(element.bits / 8).unwrap_or(0)).unwrap_or(NonZeroU8::MIN);
    let width = u64::from(size.get());
    let (is_own, is_varint) = match field {
        1 => (element.dtype == Some(DType::F32), false),
        6 => (element.dtype == Some(DType::F64), false),
        2 | 5 => (!element.is_float() && !element.is_packed(), true),
        3 => (element.dtype == Some(DType::Bool), true),
        _ => (true, false),
    };
    if !is_own {
        return Err(Error::corrupt("a value has numbers of another kind than its type")
            .field("immediateValue")
            .found(format!("field {field}"))
            .expected(format!("the one of {}", element.name)));
    }
    let found = match (is_varint, *tag_bytes) {
        _ if *field == 7 => element.stored_len(elements).filter(|own| *own == len).map(|_| elements),
        (true, _) => Some(varints(files, run, (*tag_bytes).into())?),
        (false, tag) => {
            let each = width.saturating_add(tag.into());
            len.is_multiple_of(each).then(|| len / each)
        }
    };
    let form = match (*field, found) {
        (7, Some(_)) => Form::Plain,
        (7, None) if Some(len) == element.stored_len(1) && !element.is_packed() => Form::Repeated,
        (_, Some(count)) if count == elements => match (is_varint, *tag_bytes) {
            (false, 0) => Form::Plain,
            (_, tag_bytes) => Form::Numbers(ProtobufNumbers { tag_bytes, element_bytes: size, is_varint }),
        },
        (1 | 6, Some(1)) if *tag_bytes == 0 => Form::Repeated,
        _ => {
            return Err(Error::corrupt("a value does not have as many numbers as its shape")
                .offset(range.start)
                .field("immediateValue")
                .found(found.map_or(ckpt_api::count(len, "byte"), |count| ckpt_api::count(count, "number")))
                .expected(format!("{elements} of {}", element.name)));
        }
    };
    Ok((run, form))
}

/// How many varints a run has.
fn varints(files: &Files<'_>, run: Run, tag_bytes: u64) -> Result<u64> {
    let ends = files.bytes(run)?.iter().filter(|byte| **byte < 0x80).count() as u64;
    // A tag is a varint of one byte.
    Ok(if tag_bytes > 0 { ends / 2 } else { ends })
}

impl Stored {
    /// What the elements are read as.
    pub(crate) fn dtype(&self) -> DType {
        self.element.dtype.unwrap_or(DType::U8)
    }

    /// Whether the bytes in the file are the elements.
    pub(super) fn is_plain(&self) -> bool {
        self.form == Form::Plain
    }

    /// The tensor of this name.
    pub(super) fn tensor(&self, name: &str) -> Result<Located> {
        let tensor = Tensor::new(name, self.dtype(), self.shape.clone());
        let is_packed = matches!(self.dtype(), DType::I4 | DType::U4) && self.element.is_packed();
        let packing = if is_packed { Packing::Bits } else { Packing::Bytes };
        let encoding = Encoding::row_major(&tensor).with_packing(packing);
        let Run { file, offset, len } = self.run;
        let bytes = tensor.value_bytes();
        let extents = match self.form {
            _ if self.shape.elements() == 0 => Vec::new(),
            Form::Plain if self.element.is_packed() && !is_packed => {
                self.bits().extents(file, offset, |_| Ok(()))?
            }
            Form::Plain => vec![Extent::new(file, offset, len)],
            Form::Numbers(numbers) => {
                vec![Extent::new(file, offset, bytes).with_compression(numbers.compression(len))]
            }
            Form::Repeated => {
                let repeated = Compression::new(Decoder::REPEATED, len);
                vec![Extent::new(file, offset, bytes).with_compression(repeated)]
            }
        };
        Ok(Located { tensor, extents, encoding })
    }

    /// Integers of few bits, as bytes.
    fn bits(&self) -> Recipe {
        Recipe {
            bits: self.element.bits,
            is_signed: self.element.is_signed(),
            is_high_first: false,
            width: 1,
            elements: self.shape.elements(),
            numbers: Numbers::Plain,
            mask: None,
        }
    }

    /// The bytes of the elements, each of whole bytes, within the limit of headers.
    pub(crate) fn elements(&self, files: &Files<'_>) -> Result<Vec<u8>> {
        let bytes = files.bytes(self.run)?;
        let width = self.dtype().bytes().unwrap_or(1);
        let len = self.shape.elements().saturating_mul(width);
        files.check(len)?;
        let len = usize::try_from(len).unwrap_or(0);
        if self.element.is_packed() {
            return crate::decode::decoded(&self.bits(), &bytes);
        }
        Ok(match self.form {
            Form::Plain => bytes,
            Form::Repeated => bytes.iter().copied().cycle().take(len).collect(),
            Form::Numbers(numbers) => {
                let compression = numbers.compression(self.run.len);
                let extent = Extent::new(self.run.file, self.run.offset, len as u64);
                extent.with_compression(compression).open(files.get(self.run.file)?)?.bytes(0, len as u64)?
            }
        })
    }
}
