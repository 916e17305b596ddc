//! Reads IDX, the format of MNIST's images and labels.

use ckpt_api::{Error, File, Result};
use ckpt_forward::Array;

/// The type code of unsigned bytes.
const UNSIGNED: u8 = 8;

/// Whether the file is IDX of bytes: two zeros, the type code, the number of axes, their lengths, and one byte for
/// each element.
pub(super) fn is_idx(file: &File) -> bool {
    header(file).is_ok()
}

/// Reads the shape and the elements.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for other types than bytes, or a length that does not follow from the header.
pub(super) fn read(file: &File) -> Result<(Vec<usize>, Array)> {
    let (shape, start) = header(file)?;
    let bytes = file.bytes(start, file.len() - start)?;
    Ok((shape, Array::I32(bytes.into_iter().map(i32::from).collect())))
}

fn header(file: &File) -> Result<(Vec<usize>, u64)> {
    let wrong = || Error::corrupt("this is not an IDX file of bytes").file(file.name());
    let [0, 0, UNSIGNED, rank] = file.bytes(0, 4)?[..] else { return Err(wrong()) };
    let rank = u64::from(rank);
    let dims = file.bytes(4, rank * 4)?;
    let shape: Vec<usize> = dims
        .as_chunks::<4>()
        .0
        .iter()
        .map(|len| usize::try_from(u32::from_be_bytes(*len)))
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    let start = 4 + rank * 4;
    let elements = shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len as u64));
    match elements.and_then(|elements| elements.checked_add(start)) {
        Some(len) if len == file.len() => Ok((shape, start)),
        len => Err(wrong().found(ckpt_engine::words::count(file.len(), "byte")).expected(
            len.map_or("fewer elements".to_owned(), |len| format!("{len}, for its shape {shape:?}")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Input;

    fn file(bytes: &[u8]) -> File {
        Input::memory("x", [("x".to_owned(), bytes.to_vec())].into()).main().unwrap()
    }

    #[test]
    fn bytes_of_any_shape_are_read() {
        let file = file(&[0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 7, 255]);
        assert!(is_idx(&file));
        assert_eq!(read(&file).unwrap(), (vec![2, 1], Array::I32(vec![7, 255])));
    }

    #[test]
    fn other_types_and_other_lengths_are_refused() {
        for bytes in [
            &[][..],
            &[0, 0, 8],
            &[0, 0, 13, 1, 0, 0, 0, 1, 7],
            &[0, 0, 8, 1, 0, 0, 0, 2, 7],
            &[0, 0, 8, 1, 0, 0, 0, 1, 7, 7],
            &[0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255],
        ] {
            assert!(!is_idx(&file(bytes)), "{bytes:?}");
            assert!(read(&file(bytes)).is_err(), "{bytes:?}");
        }
    }
}
