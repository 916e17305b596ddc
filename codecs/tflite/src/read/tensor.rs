//! Locates the bytes of constants.

use super::model::{Buffer, TensorTable};
use super::quantization::{Blocks, Scheme, scheme};
use super::sparsity::tree;
use crate::flat::{Flat, Table};
use crate::format::{Stored, stored_dtype};
use ckpt_api::{DType, Encoding, Error, Extent, FileId, Packing, Result, Shape, Tensor, Viewed};

/// What a tensor of the model is for a checkpoint.
pub(crate) enum Located {
    /// A value that is made when the model runs.
    Nothing,
    /// Texts.
    Strings,
    Constant(Box<Constant>),
}

/// A tensor of the checkpoint.
pub(crate) struct Constant {
    pub(crate) tensor: Tensor,
    pub(crate) extents: Vec<Extent>,
    pub(crate) encoding: Encoding,
    /// Scales that another tensor has.
    pub(crate) blocks: Option<Blocks>,
}

pub(crate) struct Locator<'a> {
    buffers: &'a [Buffer],
    /// Tensors can share buffers.
    viewed: Viewed,
}

impl<'a> Locator<'a> {
    pub(crate) fn new(flat: &Flat<'_>, buffers: &'a [Buffer]) -> Self {
        let mut viewed = Viewed::default();
        viewed.open(flat.file.len(), []);
        Locator { buffers, viewed }
    }

    /// Returns what a tensor is and, if it is a constant, where its bytes are.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a tensor that the interpreter refuses; [`ckpt_api::Kind::Unsupported`] for bytes in
    /// another file.
    pub(crate) fn locate(&mut self, table: &TensorTable<'_>, name: &str) -> Result<Located> {
        let stored = stored_dtype(table.dtype).ok_or_else(|| {
            Error::corrupt("the tensor has an unknown type")
                .field("type")
                .found(table.dtype.to_string())
                .expected("0 to 22")
        })?;
        if table.external_buffer != 0 {
            return Err(Error::unsupported("the tensor's bytes are in another file")
                .field("external_buffer")
                .found(format!("external buffer {}", table.external_buffer))
                .help("store the weights in the model: `ckpt` reads models of one file"));
        }
        let buffer = usize::try_from(table.buffer).ok().and_then(|number| self.buffers.get(number));
        let buffer = match (buffer, table.buffer) {
            (Some(buffer), _) => *buffer,
            // A model may have no buffers if it has no constants.
            (None, 0) => Buffer::default(),
            (None, number) => {
                return Err(Error::corrupt("the tensor is in a buffer that does not exist")
                    .field("buffer")
                    .found(number.to_string())
                    .expected(format!("less than {}", self.buffers.len())));
            }
        };
        if table.buffer == 0 || buffer.len == 0 || table.is_variable {
            return Ok(Located::Nothing);
        }
        let dtype = match stored {
            Stored::Elements(dtype) => dtype,
            Stored::Strings => return Ok(Located::Strings),
            Stored::Handle => {
                return Err(Error::unsupported("a handle has bytes")
                    .field("type")
                    .found(table.dtype.to_string()));
            }
        };
        self.constant(table, name, dtype, buffer).map(|constant| Located::Constant(Box::new(constant)))
    }

    fn constant(
        &mut self,
        table: &TensorTable<'_>,
        name: &str,
        dtype: DType,
        buffer: Buffer,
    ) -> Result<Constant> {
        let mut tensor = Tensor::new(name, dtype, shape(&table.shape)?);
        let mut blocks = None;
        match table.quantization.as_ref().map(|own| scheme(own, &table.shape)).transpose()? {
            // Scales of real numbers mean nothing.
            Some(Scheme::Affine(quantization)) if !dtype.is_float() => {
                tensor.quantization = Some(quantization)
            }
            Some(Scheme::Blocks(own)) => blocks = Some(own),
            _ => {}
        }
        let is_packed = matches!(dtype, DType::I4 | DType::U4 | DType::I2);
        let packing = if is_packed { Packing::Bits } else { Packing::Bytes };
        let encoding = Encoding::row_major(&tensor).with_packing(packing);
        self.viewed.add(&tensor).map_err(|error| error.help("give each tensor a buffer of its own"))?;
        let extents = match &table.sparsity {
            Some(own) => vec![sparse(own, &tensor, buffer)?],
            None => dense(&tensor, &encoding, buffer)?,
        };
        Ok(Constant { tensor, extents, encoding, blocks })
    }
}

/// The shape of a constant.
fn shape(lens: &[i32]) -> Result<Shape> {
    let known = lens.iter().map(|len| u64::try_from(*len).ok()).collect::<Option<Vec<u64>>>();
    let known = known.ok_or_else(|| {
        Error::corrupt("a length of the tensor is negative")
            .field("shape")
            .found(format!("{lens:?}"))
            .expected("lengths of 0 or more, as the tensor is stored")
    })?;
    Shape::new(known).map_err(|error| error.field("shape"))
}

fn dense(tensor: &Tensor, encoding: &Encoding, buffer: Buffer) -> Result<Vec<Extent>> {
    let needed = encoding.padded_len(tensor.shape.elements());
    // The interpreter takes a longer buffer.
    match needed.filter(|needed| *needed <= buffer.len) {
        Some(0) => Ok(Vec::new()),
        Some(needed) => Ok(vec![Extent::new(FileId(0), buffer.offset, needed)]),
        None => Err(misfit(tensor, buffer, needed.unwrap_or(u64::MAX))),
    }
}

/// The extent of a tensor of which only some elements are stored.
fn sparse(table: &Table<'_>, tensor: &Tensor, buffer: Buffer) -> Result<Extent> {
    let tree = tree(table, &tensor.shape)?;
    let element = tensor.dtype.bits().filter(|bits| bits.is_multiple_of(8)).and(tensor.dtype.bytes());
    let element = element.ok_or_else(|| {
        Error::unsupported("sparse tensors of packed elements are not supported")
            .field("type")
            .found(tensor.dtype.name())
    })?;
    let needed = tree.elements.saturating_mul(element);
    if needed > buffer.len {
        return Err(misfit(tensor, buffer, needed));
    }
    let compression = tree.compression(element, needed);
    Ok(Extent::new(FileId(0), buffer.offset, tensor.value_bytes()).with_compression(compression))
}

fn misfit(tensor: &Tensor, buffer: Buffer, needed: u64) -> Error {
    Error::corrupt("the tensor's buffer is too short")
        .offset(buffer.offset)
        .field("buffer")
        .found(ckpt_api::count(buffer.len, "byte"))
        .expected(format!("{needed} for {} of {}", tensor.shape, tensor.dtype))
}
