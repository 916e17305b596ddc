//! Where a weight's bytes are, and how they encode its values.

use super::stream::{Range, Stream};
use crate::decode::{Cursor, Numbers};
use crate::format::manifest::Quantization;
use ckpt_api::{Compression, DType, Encoding, Error, Extent, Limit, Limits, Result, Tensor};

/// Decoded bytes of an extent, at most: so many are kept while they are read.
const DECODED: u64 = 1 << 20;

/// Takes the bytes of a tensor. One of texts gets their lengths.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] if the files have too few bytes; [`ckpt_api::Kind::Limit`].
pub(super) fn locate(
    tensor: &mut Tensor,
    quantization: Option<Quantization>,
    stream: &mut Stream,
    limits: &Limits,
) -> Result<(Vec<Extent>, Encoding)> {
    let encoding = Encoding::row_major(tensor);
    match (quantization, tensor.dtype) {
        (Some(Quantization::Half), _) => Ok((narrow(tensor, Numbers::Halves, stream)?, encoding)),
        (Some(Quantization::Affine { is_16_bit, scale, min }), dtype) => {
            let is_whole = dtype == DType::I32;
            let numbers = Numbers::Integers { scale, min, is_16_bit, is_whole };
            Ok((narrow(tensor, numbers, stream)?, encoding))
        }
        (None, DType::String) => {
            let (extents, lengths) = texts(tensor, stream, limits)?;
            tensor.lengths = Some(lengths.into());
            Ok((extents, encoding))
        }
        (None, _) => Ok((plain(tensor, &encoding, stream)?, encoding)),
    }
}

/// The bytes of elements that are stored as they are. An element may begin in one file and end in the next.
fn plain(tensor: &Tensor, encoding: &Encoding, stream: &mut Stream) -> Result<Vec<Extent>> {
    let len = encoding.stored_len(tensor.shape.elements()).ok_or_else(too_large)?;
    let ranges = stream.take(len)?;
    Ok(ranges.into_iter().map(|range| Extent::new(range.file, range.offset, range.len)).collect())
}

/// Numbers that are stored in fewer bits, in pieces that are decoded by themselves.
fn narrow(tensor: &Tensor, numbers: Numbers, stream: &mut Stream) -> Result<Vec<Extent>> {
    let len = tensor.shape.elements().checked_mul(numbers.width()).ok_or_else(too_large)?;
    let mut extents = Vec::new();
    // The first byte of a number whose second one is in the next file.
    let mut half: Option<Range> = None;
    for range in stream.take(len)? {
        let mut rest = range;
        if let Some(first) = half.take() {
            let second = rest.split(1);
            let stored = [stream.read(first)?, stream.read(second)?].concat();
            extents.push(of_one(numbers, first, &stored));
        }
        while rest.len >= numbers.width() {
            let most = DECODED / 4 * numbers.width();
            let whole = rest.len - rest.len % numbers.width();
            let piece = rest.split(most.min(whole));
            let decoded = piece.len / numbers.width() * 4;
            extents.push(
                Extent::new(piece.file, piece.offset, decoded)
                    .with_compression(numbers.compression(piece.len)),
            );
        }
        half = Some(rest).filter(|rest| rest.len > 0);
    }
    Ok(extents)
}

/// The number of two bytes, which are in two files: no range of a file has both.
fn of_one(numbers: Numbers, first: Range, stored: &[u8]) -> Extent {
    let mut number = [0; 4];
    numbers.decode(stored, &mut number);
    Extent::new(first.file, first.offset, 4).with_compression(Compression::literal(number))
}

/// The bytes of texts without their lengths, and the lengths.
fn texts(tensor: &Tensor, stream: &mut Stream, limits: &Limits) -> Result<(Vec<Extent>, Vec<u64>)> {
    let elements = tensor.shape.elements();
    limits.check(Limit::StringElements, elements)?;
    // Each has at least its length: memory is reserved for no more texts than there can be.
    stream.check(elements.checked_mul(4).ok_or_else(too_large)?)?;
    let (mut cursor, mut extents, mut lengths) = (Cursor::default(), Vec::new(), Vec::new());
    loop {
        let known = lengths.len() as u64;
        let lacking = elements.saturating_sub(known);
        if lacking == 0 && cursor.left == 0 {
            return Ok((extents, lengths));
        }
        // What surely belongs to the tensor: the rest of a text, and the lengths that are not known.
        let sure = match lacking.checked_mul(4).and_then(|len| len.checked_add(cursor.left)) {
            Some(sure) => sure - cursor.seen(),
            None => return Err(too_large()),
        };
        stream.check(sure)?;
        let Some(range) = stream.next(sure.min(DECODED)) else { return Err(too_large()) };
        let bytes = stream.read(range)?;
        let compression = cursor.compression(range.len);
        let (mut rest, mut decoded) = (&bytes[..], 0u64);
        while let Some((text, after)) = cursor.next(rest) {
            decoded = decoded.saturating_add(text.len() as u64);
            rest = after;
        }
        lengths.append(&mut cursor.lengths);
        if decoded > 0 {
            extents.push(Extent::new(range.file, range.offset, decoded).with_compression(compression));
        }
    }
}

fn too_large() -> Error {
    Error::corrupt("the tensor has more bytes than a file can have")
}
