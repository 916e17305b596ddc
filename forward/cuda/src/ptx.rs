//! The kernels as PTX: embedded compressed, a sixth of the text.

use ckpt_api::{Error, Result};
use flate2::read::GzDecoder;
use std::io::Read;

/// What `kernels/ptx.py` writes.
const COMPRESSED: &[u8] = include_bytes!("../kernels/kernels.ptx.gz");

/// Most bytes of the text: several times what the kernels have.
const MOST_BYTES: u64 = 4 << 20;

/// Returns the kernels as PTX, which every driver since CUDA 12.0 compiles for its GPU: what `kernels/kernels.cu`
/// compiles to.
///
/// ```
/// assert!(ckpt_cuda::ptx()?.contains(".visible .entry gemm"));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Defect`] if what is embedded is damaged.
pub fn ptx() -> Result<String> {
    decompress(COMPRESSED)
}

fn decompress(compressed: &[u8]) -> Result<String> {
    let damaged = || Error::defect("the embedded kernels are damaged");
    let mut text = String::new();
    GzDecoder::new(compressed)
        .take(MOST_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| damaged().found(error.to_string()))?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(damaged().found("a longer text").expected(format!("at most {MOST_BYTES} bytes"))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn damage(compressed: &[u8]) -> String {
        let error = decompress(compressed).unwrap_err();
        assert_eq!(error.kind(), Kind::Defect);
        error.to_string()
    }

    #[test]
    fn a_changed_byte_of_the_embedded_kernels_is_an_error() {
        // Of the signature, of the compressed data, and of the checksum.
        for place in [0, COMPRESSED.len() / 2, COMPRESSED.len() - 8] {
            let mut changed = COMPRESSED.to_vec();
            changed[place] ^= 1;
            assert!(damage(&changed).contains("damaged"), "{place}");
        }
    }

    #[test]
    fn embedded_kernels_that_end_early_are_an_error() {
        for len in [0, 5, COMPRESSED.len() / 2, COMPRESSED.len() - 1] {
            assert!(damage(&COMPRESSED[..len]).contains("damaged"), "{len}");
        }
    }

    #[test]
    fn a_text_beyond_the_limit_is_an_error() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&vec![b' '; MOST_BYTES as usize + 1]).unwrap();
        assert!(damage(&encoder.finish().unwrap()).contains("at most 4194304 bytes"));
    }
}
