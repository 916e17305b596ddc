//! The file as the structures of HDF5 see it: addresses, their sizes, and how much may still be read.

use ckpt_api::fields::{Bytes, array, bytes, le, skip};
use ckpt_api::{Error, File, Limit, Limits, Result};
use nom::Parser;
use std::cell::Cell;

/// How many times the bytes of the file may be read, as structures that share bytes make it. What HDF5's library writes
/// is read once, but for headers whose length is not known before.
const MOST_READS: u64 = 16;
/// What may be read of the smallest file, in bytes.
const LEAST_BUDGET: u64 = 1 << 16;

/// Bytes of addresses and of lengths in this file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) address: u8,
    pub(crate) length: u8,
}

/// The file, where its address 0 is, and how much work is left.
#[derive(Debug)]
pub(crate) struct Space<'a> {
    file: &'a File,
    /// Offset of address 0: the length of the user block.
    pub(crate) base: u64,
    /// Offset of the end of the file, as the superblock states it.
    pub(crate) end: u64,
    pub(crate) sizes: Sizes,
    pub(crate) limits: &'a Limits,
    budget: Cell<u64>,
}

impl<'a> Space<'a> {
    /// The space of a file whose superblock is not read yet.
    pub(crate) fn new(file: &'a File, limits: &'a Limits) -> Self {
        let budget = file.len().saturating_mul(MOST_READS).max(LEAST_BUDGET);
        Space {
            file,
            base: 0,
            end: file.len(),
            sizes: Sizes { address: 8, length: 8 },
            limits,
            budget: Cell::new(budget.min(limits.get(Limit::HeaderBytes))),
        }
    }

    /// Takes so many bytes of work from what is left, so that structures that refer to each other in circles come to an
    /// end.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] if nothing is left.
    pub(crate) fn spend(&self, bytes: u64) -> Result<()> {
        let left = self.budget.get().checked_sub(bytes).ok_or_else(|| {
            Error::limit("the file's structures take more bytes to read than they may")
                .expected(format!(
                    "at most {MOST_READS} times the file's length, and the limit '{}'",
                    Limit::HeaderBytes.name()
                ))
                .help("its structures share bytes or refer to each other in a circle; if the file is sound, write it again with h5repack")
        })?;
        self.budget.set(left);
        Ok(())
    }

    /// Returns the offset in the file of `len` bytes at an address, all of which are in the file.
    pub(crate) fn offset(&self, address: u64, len: u64, what: &str) -> Result<u64> {
        let offset = address.checked_add(self.base);
        let end = offset.and_then(|offset| offset.checked_add(len));
        match (offset, end) {
            (Some(offset), Some(end)) if end <= self.end => Ok(offset),
            _ => Err(Error::corrupt(format!("{what} lies outside the file"))
                .found(format!("{len} bytes at address {address:#x}"))
                .expected(format!("an end at {} or before", self.end))),
        }
    }

    /// Reads `len` bytes at an address.
    pub(crate) fn block(&self, address: u64, len: u64, what: &'static str) -> Result<Block> {
        let at = self.offset(address, len, what)?;
        self.spend(len)?;
        let bytes = self.file.bytes(at, len)?;
        Ok(Block { bytes, at, sizes: self.sizes, what })
    }

    /// Reads at most `len` bytes at an address: fewer at the end of the file.
    pub(crate) fn head(&self, address: u64, len: u64, what: &'static str) -> Result<Block> {
        let at = self.offset(address, 0, what)?;
        self.block(address, len.min(self.end.saturating_sub(at)), what)
    }
}

/// Bytes that were read, and their offset in the file.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: u64,
    sizes: Sizes,
    what: &'static str,
}

impl Block {
    /// Returns the fields from the first byte on.
    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields::new(&self.bytes, self.at, self.sizes)
    }

    /// Returns the fields after the signature, which must be there.
    pub(crate) fn signed(&self, signature: [u8; 4]) -> Result<Fields<'_>> {
        let mut fields = self.fields();
        let found = fields.parse(array::<4>)?;
        if found == signature {
            return Ok(fields);
        }
        Err(Error::corrupt(format!("{} has no signature", self.what))
            .offset(self.at)
            .found(format!("\"{}\"", found.escape_ascii()))
            .expected(format!("\"{}\"", signature.escape_ascii())))
    }

    /// Checks that the last four bytes are the checksum of those before.
    pub(crate) fn check_sum(&self) -> Result<()> {
        self.check_sum_of(self.bytes.len() as u64)
    }

    /// Checks that the last four of the first `len` bytes are the checksum of those before.
    pub(crate) fn check_sum_of(&self, len: u64) -> Result<()> {
        let len = usize::try_from(len).ok();
        let (body, stored) = len
            .and_then(|len| self.bytes.get(..len))
            .and_then(|bytes| bytes.split_last_chunk::<4>())
            .ok_or_else(|| Error::corrupt(format!("{} is cut short", self.what)).offset(self.at))?;
        compare_sums(self.what, self.at, lookup3(body), u32::from_le_bytes(*stored))
    }
}

/// Compares a computed checksum with the stored one.
pub(crate) fn compare_sums(what: &str, at: u64, found: u32, stored: u32) -> Result<()> {
    if found == stored {
        return Ok(());
    }
    Err(Error::corrupt(format!("the checksum of {what} does not match"))
        .offset(at)
        .found(format!("{found:#010x}"))
        .expected(format!("{stored:#010x}, as stored"))
        .help("copy the file again; the data changed after it was written"))
}

/// The fields of a structure; some have sizes that are those of the file.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    input: Bytes<'a>,
    sizes: Sizes,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: u64, sizes: Sizes) -> Self {
        let input = Bytes::new(bytes, at).with_message("a structure of the file is cut short");
        Fields { input, sizes }
    }

    /// Runs a parser, and moves past what it parsed.
    pub(crate) fn parse<T>(
        &mut self,
        parser: impl Parser<Bytes<'a>, Output = T, Error = Error>,
    ) -> Result<T> {
        self.input.parse(parser)
    }

    pub(crate) fn bytes(&mut self, len: u64) -> Result<&'a [u8]> {
        self.input.parse(bytes(len))
    }

    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        self.input.parse(skip(len))
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.input.remaining()
    }

    /// Returns the offset of the next byte in the file.
    pub(crate) fn position(&self) -> u64 {
        self.input.offset()
    }

    /// Reads an unsigned number of up to eight bytes.
    pub(crate) fn number(&mut self, len: u8) -> Result<u64> {
        if len > 8 {
            return Err(Error::unsupported("a number of the file has more than 64 bits")
                .offset(self.position())
                .found(ckpt_api::count(len, "byte")));
        }
        let bytes = self.bytes(len.into())?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub(crate) fn length(&mut self) -> Result<u64> {
        self.number(self.sizes.length)
    }

    /// Reads a length; `None` if it is the one that stands for no limit.
    pub(crate) fn length_or_endless(&mut self) -> Result<Option<u64>> {
        let endless = all_ones(self.sizes.length);
        Ok(Some(self.length()?).filter(|length| *length != endless))
    }

    /// Reads an address; `None` if it is the one that stands for nothing.
    pub(crate) fn address(&mut self) -> Result<Option<u64>> {
        let undefined = all_ones(self.sizes.address);
        Ok(Some(self.number(self.sizes.address)?).filter(|address| *address != undefined))
    }

    /// Reads an address that must not be the one that stands for nothing.
    pub(crate) fn some_address(&mut self, what: &str) -> Result<u64> {
        let at = self.position();
        self.address()?.ok_or_else(|| Error::corrupt(format!("{what} has no address")).offset(at))
    }

    /// Reads a version and checks that it is one of these.
    pub(crate) fn version(&mut self, what: &str, known: &[u8]) -> Result<u8> {
        let at = self.position();
        let version = self.parse(le::<u8>)?;
        if known.contains(&version) {
            return Ok(version);
        }
        let known: Vec<String> = known.iter().map(u8::to_string).collect();
        Err(Error::unsupported(format!("unknown version of {what}"))
            .offset(at)
            .found(version.to_string())
            .expected(known.join(" or ")))
    }
}

/// The number of so many bytes, 1 to 8, whose bits are all set.
fn all_ones(bytes: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(bytes.clamp(1, 8)))
}

/// The checksum of HDF5's metadata: Bob Jenkins' lookup3, `hashlittle` with the initial value 0.
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, after) = rest.split_at_checked(12).unwrap_or_default();
        add(&mut state, block);
        mix(&mut state);
        rest = after;
    }
    if !rest.is_empty() {
        add(&mut state, rest);
        finish(&mut state);
    }
    let [_, _, sum] = state;
    sum
}

/// Adds up to twelve bytes, as three numbers.
fn add(state: &mut [u32; 3], bytes: &[u8]) {
    for (own, chunk) in state.iter_mut().zip(bytes.chunks(4)) {
        let number = chunk.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        *own = own.wrapping_add(number);
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    for rotation in [(4, 6, 8), (16, 19, 4)] {
        *a = a.wrapping_sub(*c) ^ c.rotate_left(rotation.0);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(rotation.1);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(rotation.2);
        *b = b.wrapping_add(*a);
    }
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |to: &mut u32, from: u32, bits: u32| *to = (*to ^ from).wrapping_sub(from.rotate_left(bits));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_has_the_published_values() {
        // driver5() of lookup3.c.
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
