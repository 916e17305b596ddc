//! The stored tensors of a checkpoint, by name: parts of quantized weights.

use ckpt_api::{
    Contents, DType, Encoding, Endian, Error, Extent, Input, Limit, Limits, Packing, Result, Shape, Tensor,
    TensorId,
};
use std::collections::HashMap;

/// Bytes of a part that is read to learn what others are.
const MAX_READ: u64 = 64 << 10;

/// The stored tensors of a checkpoint.
pub(crate) struct Parts<'a> {
    contents: &'a Contents,
    input: &'a Input,
    limits: &'a Limits,
    by_name: HashMap<&'a str, TensorId>,
}

/// A stored tensor that is a part of a weight.
#[derive(Clone)]
pub(crate) struct Part<'a> {
    pub(crate) id: TensorId,
    pub(crate) tensor: &'a Tensor,
    /// Its bytes; `None` if it has no elements.
    pub(crate) extent: Option<Extent>,
    pub(crate) encoding: Encoding,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(contents: &'a Contents, input: &'a Input, limits: &'a Limits) -> Self {
        Parts { contents, input, limits, by_name: contents.checkpoint.by_name() }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str())
    }

    /// A text of the checkpoint's metadata.
    pub(crate) fn metadata(&self, namespace: &str, key: &str) -> Option<&'a str> {
        self.contents.checkpoint.metadata.text(namespace, key)
    }

    pub(crate) fn has(&self, stem: &str, ending: &str) -> bool {
        self.by_name.contains_key(format!("{stem}{ending}").as_str())
    }

    /// The part whose name is `stem` and `ending`; `None` if there is none.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if it is not stored whole and in order.
    pub(crate) fn find(&self, stem: &str, ending: &str) -> Result<Option<Part<'a>>> {
        let Some(id) = self.by_name.get(format!("{stem}{ending}").as_str()).copied() else { return Ok(None) };
        let (tensor, placement) = self.contents.tensor_at(id)?;
        let extent = placement.whole_extent(tensor).ok_or_else(|| {
            Error::unsupported("a part of a quantized weight is not stored whole and in order")
                .tensor(&tensor.name)
        })?;
        Ok(Some(Part { id, tensor, extent: extent.cloned(), encoding: placement.encoding.clone() }))
    }

    /// The part of this name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] without it, naming it and `beside`; those of [`Parts::find`].
    pub(crate) fn need(&self, stem: &str, ending: &str, beside: &str) -> Result<Part<'a>> {
        self.find(stem, ending)?.ok_or_else(|| {
            Error::corrupt("a quantized weight lacks one of its tensors")
                .tensor(format!("{stem}{ending}"))
                .found(format!("'{stem}{beside}' without it"))
                .expected("both, which describe the weight together")
        })
    }

    /// Reads a small part.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a large one; whatever keeps the file from being read.
    pub(crate) fn bytes(&self, part: &Part<'_>) -> Result<Vec<u8>> {
        let Some(extent) = &part.extent else { return Ok(Vec::new()) };
        if extent.len > MAX_READ {
            return Err(part.wrong(
                "a tensor that describes a quantized weight is too large",
                format!("{} bytes", extent.len),
                format!("at most {MAX_READ} bytes"),
            ));
        }
        let name = self.contents.files.get(extent.file.0);
        let file = self.input.file(name.ok_or_else(|| Error::defect("a part is in no file"))?)?;
        if extent.is_compressed() {
            return extent.open(&file)?.bytes(0, extent.len);
        }
        file.bytes(extent.offset, extent.len)
    }

    /// Reads the integers of a small part.
    ///
    /// # Errors
    /// As [`Parts::bytes`]; [`ckpt_api::Kind::Corrupt`] for another dtype than I64, I32 and U8.
    pub(crate) fn integers(&self, part: &Part<'_>) -> Result<Vec<i64>> {
        part.is_of(&[DType::I64, DType::I32, DType::U8])?;
        let size = part.tensor.dtype.bytes().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(1);
        let is_big = part.encoding.endian == Endian::Big;
        let integer = |bytes: &[u8]| {
            let mut own = bytes.to_vec();
            if is_big {
                own.reverse();
            }
            let is_negative = part.tensor.dtype != DType::U8 && own.last().is_some_and(|last| *last >= 0x80);
            own.resize(8, if is_negative { 0xff } else { 0 });
            i64::from_le_bytes(own.try_into().unwrap_or_default())
        };
        Ok(self.bytes(part)?.chunks_exact(size).map(integer).collect())
    }

    /// The shape that a part states as a list of lengths.
    ///
    /// # Errors
    /// As [`Parts::integers`]; [`ckpt_api::Kind::Corrupt`] for a length that is negative.
    pub(crate) fn shape(&self, lens: &Part<'_>) -> Result<Shape> {
        let found = self.integers(lens)?;
        let shape: Option<Vec<u64>> = found.iter().map(|len| u64::try_from(*len).ok()).collect();
        let shape = shape.ok_or_else(|| {
            lens.wrong("a shape is negative", format!("{found:?}"), "lengths of at least 0".to_owned())
        })?;
        self.limits
            .check(Limit::Rank, shape.len() as u64)
            .map_err(|error| error.tensor(&lens.tensor.name))?;
        Shape::new(shape).map_err(|error| error.tensor(&lens.tensor.name))
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.limits
    }
}

impl Part<'_> {
    pub(crate) fn shape(&self) -> &Shape {
        &self.tensor.shape
    }

    pub(crate) fn dtype(&self) -> DType {
        self.tensor.dtype
    }

    /// Whether its elements have one of these dtypes.
    pub(crate) fn is_of(&self, dtypes: &[DType]) -> Result<()> {
        let plain = self.encoding.packing == Packing::Bytes && self.tensor.quantization.is_none();
        if dtypes.contains(&self.tensor.dtype) && plain {
            return Ok(());
        }
        let expected: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
        Err(self.wrong(
            "a tensor of a quantized weight has another dtype",
            self.tensor.dtype.name().to_owned(),
            expected.join(", "),
        ))
    }

    /// Whether its shape is this.
    pub(crate) fn has_shape(&self, expected: &[u64], why: &str) -> Result<()> {
        if self.shape()[..] == *expected {
            return Ok(());
        }
        let lens: Vec<String> = expected.iter().map(u64::to_string).collect();
        Err(self.wrong(
            "the tensors of a quantized weight do not fit each other",
            self.shape().to_string(),
            format!("[{}]: {why}", lens.join(", ")),
        ))
    }

    /// The rows and columns of a matrix.
    pub(crate) fn matrix(&self) -> Result<[u64; 2]> {
        match self.shape()[..] {
            [rows, columns] => Ok([rows, columns]),
            _ => Err(self.wrong(
                "a tensor of a quantized weight has another number of axes",
                self.shape().to_string(),
                "a matrix".to_owned(),
            )),
        }
    }

    /// An error about this part.
    pub(crate) fn wrong(&self, what: &str, found: String, expected: String) -> Error {
        Error::corrupt(what).tensor(&self.tensor.name).found(found).expected(expected)
    }
}
