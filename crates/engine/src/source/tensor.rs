//! One tensor of an opened checkpoint: what is known of it, and its elements.

use super::Source;
use crate::element::{Element, check_exact};
use crate::execute::{Checking, TensorStream};
use crate::layout::{Part, Rows, TargetLayout, Transfer, compile, rows};
use crate::resources::Budget;
use ckpt_api::{
    Axis, Blocks, DType, Encoding, Error, Metadata, Quantization, Result, Role, Shape, Tensor, TensorId,
};
use std::marker::PhantomData;
use std::ops::Range;

/// A tensor of an opened [`Source`], or some of its rows. Nothing is read until a method asks for elements.
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let model = ckpt::open("examples/data/digits")?;
/// let kernel = model.tensor("digits/hidden/kernel")?;
/// assert_eq!((kernel.dtype().name(), &kernel.shape()[..]), ("f32", &[64, 32][..]));
/// let all: Vec<f32> = kernel.read()?;
/// let some: Vec<f32> = kernel.rows(10..20)?.read()?;
/// assert_eq!(some, all[10 * 32..20 * 32]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TensorRef<'a> {
    source: &'a Source,
    id: TensorId,
    tensor: &'a Tensor,
    shape: Shape,
    /// Rows of the tensor; `None` for all.
    rows: Option<Range<u64>>,
}

impl<'a> TensorRef<'a> {
    fn new(source: &'a Source, id: TensorId, tensor: &'a Tensor) -> Self {
        TensorRef { source, id, tensor, shape: tensor.shape.clone(), rows: None }
    }

    /// The name.
    pub fn name(&self) -> &'a str {
        &self.tensor.name
    }

    /// The type of the elements, as [`TensorRef::bytes`] returns them.
    pub fn dtype(&self) -> DType {
        self.source.canonical(self.id).dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What each axis means. `None` if the format does not record it.
    pub fn axes(&self) -> Option<&'a [Axis]> {
        self.tensor.axes.as_deref()
    }

    /// What the tensor is for.
    pub fn role(&self) -> Role {
        self.tensor.role
    }

    /// What its integers stand for. `None` if the checkpoint does not state it.
    pub fn quantization(&self) -> Option<&'a Quantization> {
        self.tensor.quantization.as_ref()
    }

    /// What formats record of this tensor alone.
    pub fn metadata(&self) -> &'a Metadata {
        &self.tensor.metadata
    }

    /// Rows of the tensor: a range of indices of its first axis. Reading them reads little else of the file, and
    /// verifies only checksums of stored pieces that it reads from end to end.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for rows that do not exist, and for a tensor without axes.
    pub fn rows(&self, rows: Range<u64>) -> Result<TensorRef<'a>> {
        let count = self.shape.first().copied();
        if rows.start > rows.end || count.is_none_or(|count| rows.end > count) {
            return Err(Error::usage("the tensor has no such rows")
                .tensor(self.name())
                .found(format!("rows {}..{}", rows.start, rows.end))
                .expected(
                    count.map_or("a tensor with an axis".to_owned(), |count| format!("within 0..{count}")),
                ));
        }
        let mut lens = self.shape.to_vec();
        lens[..1].fill(rows.end - rows.start);
        let before = self.rows.as_ref().map_or(0, |rows| rows.start);
        let rows = Some(before + rows.start..before + rows.end);
        Ok(TensorRef { shape: Shape::new(lens)?, rows, ..self.clone() })
    }

    /// Reads all elements, in row-major order. Conversions are exact: 16-bit floats can be read as `f32`, 64-bit
    /// integers cannot.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a type that does not hold every value, naming those that do;
    /// [`ckpt_api::Kind::Unsupported`] for opaque blocks; [`ckpt_api::Kind::Corrupt`] for a checksum that does not
    /// match; [`ckpt_api::Kind::Io`].
    pub fn read<T: Element>(&self) -> Result<Vec<T>> {
        let mut reader = self.reader::<T>()?;
        let mut elements = Vec::new();
        reserve(&mut elements, self.shape.elements()).map_err(|error| error.tensor(self.name()))?;
        while let Some(decoded) = reader.next(|bytes| T::decode(bytes, &mut elements))? {
            decoded.map_err(|error| error.tensor(self.name()))?;
        }
        Ok(elements)
    }

    /// Reads the elements in order, a chunk at a time, in bounded memory. A checksum that does not match is an error of
    /// the chunk that completes it.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let model = ckpt::open("examples/data/digits")?;
    /// let mut sum = 0.0;
    /// for chunk in model.tensor("digits/hidden/kernel")?.chunks::<f32>()? {
    ///     sum += chunk?.iter().sum::<f32>();
    /// }
    /// assert!(sum.is_finite());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`TensorRef::read`].
    pub fn chunks<T: Element>(&self) -> Result<Chunks<'a, T>> {
        Ok(Chunks { name: self.name(), reader: Some(self.reader::<T>()?), elements: PhantomData })
    }

    /// Reads the elements as bytes: little-endian, row-major, each in whole bytes; strings one after the other.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a checksum that does not match; [`ckpt_api::Kind::Io`].
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut reader = Reader::new(self, &self.source.canonical(self.id))?;
        let mut all = Vec::new();
        while reader.next(|bytes| all.extend_from_slice(bytes))?.is_some() {}
        Ok(all)
    }

    /// How many bytes [`TensorRef::bytes`] returns.
    pub fn byte_len(&self) -> u64 {
        match (self.lengths(), self.dtype().bytes().filter(|_| self.opaque_blocks().is_none())) {
            (Some(lengths), _) => lengths.iter().fold(0, |sum: u64, len| sum.saturating_add(*len)),
            (None, Some(size)) => self.shape.elements().saturating_mul(size),
            (None, None) => self.source.bytes_of(self.id),
        }
    }

    /// Reads what [`TensorRef::bytes`] returns into memory of the caller's.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let model = ckpt::open("examples/data/digits")?;
    /// let bias = model.tensor("digits/hidden/bias")?;
    /// let mut bytes = [0; 32 * 4];
    /// assert_eq!(bias.byte_len(), 128);
    /// bias.read_into(&mut bytes)?;
    /// assert_eq!(bytes[..], bias.bytes()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`TensorRef::bytes`]; [`ckpt_api::Kind::Usage`] if the memory has another length than
    /// [`TensorRef::byte_len`].
    pub fn read_into(&self, buffer: &mut [u8]) -> Result<()> {
        let unfit = |found: usize| {
            Error::usage("the memory does not have the tensor's size")
                .tensor(self.name())
                .found(crate::words::count(found as u64, "byte"))
                .expected(crate::words::count(self.byte_len(), "byte"))
        };
        let len = buffer.len();
        if len as u64 != self.byte_len() {
            return Err(unfit(len));
        }
        let mut reader = Reader::new(self, &self.source.canonical(self.id))?;
        let mut filled = 0;
        let mut take = |bytes: &[u8]| {
            let end = filled + bytes.len();
            let free = buffer.get_mut(filled..end);
            filled = end;
            free.map(|free| free.copy_from_slice(bytes))
        };
        while let Some(taken) = reader.next(&mut take)? {
            taken.ok_or_else(|| unfit(len))?;
        }
        if filled == len { Ok(()) } else { Err(unfit(len)) }
    }

    /// The blocks in which the elements are stored, where nobody can decode them; [`TensorRef::bytes`] returns them as
    /// they are.
    pub fn opaque_blocks(&self) -> Option<&'a Blocks> {
        let placement = self.source.contents.placements.get(self.id.0)?;
        placement.encoding.blocks().filter(|blocks| blocks.is_opaque())
    }

    /// Reads what [`TensorRef::bytes`] returns, a chunk of whole elements at a time (of strings, any bytes), in bounded
    /// memory.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let model = ckpt::open("examples/data/digits")?;
    /// let kernel = model.tensor("digits/hidden/kernel")?;
    /// let len: usize = kernel.byte_chunks()?.map(|chunk| chunk.map(|bytes| bytes.len())).sum::<ckpt::Result<_>>()?;
    /// assert_eq!(len, 64 * 32 * 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`TensorRef::bytes`].
    pub fn byte_chunks(&self) -> Result<ByteChunks<'a>> {
        Ok(ByteChunks { reader: Some(Reader::new(self, &self.source.canonical(self.id))?) })
    }

    /// The bytes of each string, in row-major order; `None` for elements that all have the same size.
    pub fn lengths(&self) -> Option<&'a [u64]> {
        let lengths = self.tensor.lengths.as_deref()?;
        let Some(rows) = &self.rows else { return Some(lengths) };
        let row: u64 = self.tensor.shape.iter().skip(1).product();
        let at = |row_number: u64| usize::try_from(row_number.saturating_mul(row)).unwrap_or(usize::MAX);
        lengths.get(at(rows.start)..at(rows.end))
    }

    /// Reads the elements as an array of this shape.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let model = ckpt::open("examples/data/digits")?;
    /// let kernel = model.tensor("digits/hidden/kernel")?.array::<f32>()?;
    /// assert_eq!(kernel.shape(), [64, 32]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`TensorRef::read`].
    #[cfg(feature = "ndarray")]
    pub fn array<T: Element>(&self) -> Result<ndarray::ArrayD<T>> {
        let too_large = || Error::limit("the tensor is too large for this machine").tensor(self.name());
        let lens = self.shape.iter().map(|len| usize::try_from(*len).map_err(|_| too_large()));
        let lens = lens.collect::<Result<Vec<usize>>>()?;
        ndarray::ArrayD::from_shape_vec(lens, self.read()?)
            .map_err(|error| too_large().found(error.to_string()))
    }

    /// Fails if nobody can read the elements: [`TensorRef::bytes`] returns their blocks then.
    pub fn refuse_opaque(&self) -> Result<()> {
        match self.source.canonical(self.id).blocks() {
            Some(blocks) => Err(blocks.refusal().tensor(self.name())),
            None => Ok(()),
        }
    }

    fn reader<T: Element>(&self) -> Result<Reader<'a>> {
        self.refuse_opaque()?;
        let mut encoding = self.source.canonical(self.id);
        check_exact::<T>(encoding.dtype).map_err(|error| error.tensor(self.name()))?;
        encoding.dtype = T::DTYPE;
        Reader::new(self, &encoding)
    }
}

/// Makes room for so many elements.
fn reserve<T>(elements: &mut Vec<T>, count: u64) -> Result<()> {
    let reserved = usize::try_from(count).ok().and_then(|count| elements.try_reserve_exact(count).ok());
    reserved.ok_or_else(|| {
        Error::limit("the tensor does not fit into memory")
            .found(crate::words::count(count, "element"))
            .help("read it with `TensorRef::chunks`, or read only some rows")
    })
}

/// The elements of a tensor in order, a chunk at a time; made by [`TensorRef::chunks`]. Ends after an error.
#[derive(Debug)]
pub struct Chunks<'a, T> {
    name: &'a str,
    /// `None` after the last chunk, or an error.
    reader: Option<Reader<'a>>,
    elements: PhantomData<T>,
}

impl<T: Element> Iterator for Chunks<'_, T> {
    type Item = Result<Vec<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        let decode = |bytes: &[u8]| {
            let mut elements = Vec::with_capacity(bytes.len() / T::SIZE);
            T::decode(bytes, &mut elements).map(|()| elements)
        };
        let chunk = match self.reader.as_mut()?.next(decode) {
            Ok(Some(Ok(elements))) => return Some(Ok(elements)),
            Ok(Some(Err(error))) => Some(Err(error.tensor(self.name))),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        };
        self.reader = None;
        chunk
    }
}

/// The bytes of a tensor in order, a chunk at a time; made by [`TensorRef::byte_chunks`]. Ends after an error.
#[derive(Debug)]
pub struct ByteChunks<'a> {
    /// `None` after the last chunk, or an error.
    reader: Option<Reader<'a>>,
}

impl Iterator for ByteChunks<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.reader.as_mut()?.next(<[u8]>::to_vec).transpose();
        if !matches!(chunk, Some(Ok(_))) {
            self.reader = None;
        }
        chunk
    }
}

/// Reads parts of a tensor one after the other.
struct Reader<'a> {
    source: &'a Source,
    transfer: Transfer<'a>,
    parts: std::vec::IntoIter<Part>,
    checking: Checking,
    stream: Option<TensorStream<'a>>,
    /// Elements of the tensor that are before the next part, for errors.
    position: u64,
    /// Bytes still to be left out, and to be handed out after them; `None` for all.
    skip: usize,
    left: Option<u64>,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("tensor", &self.transfer.tensor).finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    fn new(from: &TensorRef<'a>, encoding: &Encoding) -> Result<Self> {
        let source = from.source;
        let (tensor, placement) = source.contents.tensor_at(from.id)?;
        let route = compile(tensor, placement, &TargetLayout::read(encoding), &[])?;
        let transfer = route.into_transfer(tensor, placement, encoding);
        let size = encoding.dtype.bytes();
        let (found, checking, first) = match &from.rows {
            None => {
                let windowed = transfer.source.window().is_some();
                let all = Rows { parts: vec![transfer.everything()], skip: 0 };
                (all, if windowed { Checking::Before } else { Checking::Whole }, 0)
            }
            Some(range) => {
                let row: u64 = tensor.shape.iter().skip(1).product();
                (rows(tensor, &transfer, range.clone()), Checking::Whole, range.start * row)
            }
        };
        Ok(Reader {
            source,
            parts: found.parts.into_iter(),
            checking,
            stream: None,
            position: first - found.skip,
            skip: usize::try_from(found.skip * size.unwrap_or(0)).unwrap_or(usize::MAX),
            left: size.filter(|_| from.rows.is_some()).map(|size| from.shape.elements() * size),
            transfer,
        })
    }

    /// Hands the next bytes to `take`; `None` after the last.
    fn next<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => {
                    let Some(part) = self.parts.next() else { return Ok(None) };
                    let (files, transfer) = (&*self.source.files, self.transfer.clone());
                    let stream = TensorStream::new(files, transfer, &part, self.checking, Budget::default())?;
                    let stream = stream.starting_at(self.position);
                    if let Part::Box(region) = &part {
                        self.position += region.shape.elements();
                    }
                    self.stream.insert(stream)
                }
            };
            if let Some(bytes) = stream.read_next()? {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                let bytes = bytes.get(skipped..).unwrap_or_default();
                let wanted =
                    self.left.map_or(bytes.len(), |left| usize::try_from(left).unwrap_or(usize::MAX));
                let bytes = bytes.get(..wanted).unwrap_or(bytes);
                self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
                return Ok(Some(take(bytes)));
            }
            self.stream = None;
        }
    }
}

impl Source {
    /// A tensor by its name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a name that does not exist, with the nearest that does.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let model = ckpt::open("examples/data/digits")?;
    /// let bias: Vec<f32> = model.tensor("digits/hidden/bias")?.read()?;
    /// assert_eq!(bias.len(), 32);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tensor(&self, name: &str) -> Result<TensorRef<'_>> {
        let found = self.find(name).and_then(|id| Some((id, self.checkpoint().tensors.get(id.0)?)));
        found.map(|(id, tensor)| TensorRef::new(self, id, tensor)).ok_or_else(|| {
            let names = self.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str());
            Error::usage("no such tensor").tensor(name).help(ckpt_api::nearest(name, names))
        })
    }

    /// All tensors, in the checkpoint's order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorRef<'_>> {
        let tensors = self.checkpoint().tensors.iter().enumerate();
        tensors.map(|(id, tensor)| TensorRef::new(self, TensorId(id), tensor))
    }
}
