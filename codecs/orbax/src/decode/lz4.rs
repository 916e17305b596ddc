//! Blocks of LZ4.

use std::io;

/// Bytes of the shortest match.
const SHORTEST: usize = 4;

/// Decodes a block to at most `most` bytes.
///
/// # Errors
/// If the block is damaged.
pub(super) fn decode(block: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(most);
    let mut input = Input(block);
    loop {
        let token = input.byte()?;
        let literals = input.length(token >> 4)?;
        let bytes = input.take(literals)?;
        push(&mut out, bytes, most)?;
        if input.0.is_empty() {
            return Ok(out);
        }
        let low = input.byte()?;
        let distance = usize::from(u16::from_le_bytes([low, input.byte()?]));
        let len = input.length(token & 15)?.saturating_add(SHORTEST);
        repeat(&mut out, distance, len, most)?;
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> io::Result<u8> {
        let (byte, rest) = self.0.split_first().ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(*byte)
    }

    fn take(&mut self, len: usize) -> io::Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A length of four bits, which bytes continue if all of them are set.
    fn length(&mut self, bits: u8) -> io::Result<usize> {
        let mut len = usize::from(bits);
        if bits == 15 {
            loop {
                let byte = self.byte()?;
                len = len.saturating_add(byte.into());
                if byte < 255 {
                    break;
                }
            }
        }
        Ok(len)
    }
}

/// Adds bytes to an output of at most `most`.
pub(super) fn push(out: &mut Vec<u8>, bytes: &[u8], most: usize) -> io::Result<()> {
    if bytes.len() > most.saturating_sub(out.len()) {
        return Err(io::Error::other("a block decodes to too many bytes"));
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// Adds `len` bytes that begin so far before the end; they may overlap with what is added.
pub(super) fn repeat(out: &mut Vec<u8>, distance: usize, len: usize, most: usize) -> io::Result<()> {
    let start = out.len().checked_sub(distance).filter(|_| distance > 0);
    let start = start.ok_or_else(|| io::Error::other("a match begins before the block"))?;
    if len > most.saturating_sub(out.len()) {
        return Err(io::Error::other("a block decodes to too many bytes"));
    }
    for at in start..start.saturating_add(len) {
        let byte = out.get(at).copied().unwrap_or_default();
        out.push(byte);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_matches_are_decoded() {
        // "ab", a match of 6 bytes at a distance of 2, and "c" at the end.
        let block = [0x22, b'a', b'b', 2, 0, 0x10, b'c'];
        assert_eq!(decode(&block, 9).unwrap(), b"ababababc");
        assert!(decode(&block, 8).is_err());
        for len in 0..block.len() {
            // Only the literals may be the end.
            assert_eq!(decode(&block[..len], 9).is_ok(), len == 3, "{len}");
        }
        assert!(decode(&[0x12, b'a', 2, 0, 0x10, b'c'], 99).is_err(), "a match before the block");
    }
}
