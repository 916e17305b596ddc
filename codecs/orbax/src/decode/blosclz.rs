//! Blocks of BloscLZ, Blosc's own compression.

use super::lz4::{push, repeat};
use std::io;

/// The distance from which on one is stored in two bytes of its own.
const FAR: usize = 8191;

/// Decodes a block to at most `most` bytes.
///
/// # Errors
/// If the block is damaged.
pub(super) fn decode(block: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(most);
    let mut bytes = block.iter().copied();
    let mut next = || bytes.next().ok_or(io::ErrorKind::UnexpectedEof);
    // The first is a run of literals, whatever its upper bits say.
    let mut control = next()? & 31;
    loop {
        if control < 32 {
            for _ in 0..=control {
                push(&mut out, &[next()?], most)?;
            }
        } else {
            let mut len = usize::from(control >> 5) - 1;
            if len == 6 {
                loop {
                    let byte = next()?;
                    len = len.saturating_add(byte.into());
                    if byte < 255 {
                        break;
                    }
                }
            }
            let (high, low) = (usize::from(control & 31) << 8, usize::from(next()?));
            let distance = match (high, low) {
                (0x1f00, 0xff) => (usize::from(next()?) << 8) + usize::from(next()?) + FAR,
                _ => high + low,
            };
            repeat(&mut out, distance + 1, len + 3, most)?;
        }
        match next() {
            Ok(byte) => control = byte,
            Err(_) => return Ok(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_matches_are_decoded() {
        // Two literals; a match of 3 bytes at a distance of 2; a literal.
        let block = [1, b'a', b'b', 1 << 5, 1, 0, b'c'];
        assert_eq!(decode(&block, 9).unwrap(), b"ababac");
        assert!(decode(&block, 5).is_err());
        assert!(decode(&[0, b'a', 1 << 5, 1], 9).is_err(), "a match before the block");
    }
}
