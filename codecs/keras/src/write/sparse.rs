//! The bytes of a file around its elements.

use ckpt_api::fields::{Bytes, bytes, varint};
use ckpt_api::{File, ReadAt, Result, Writer};
use std::io;

/// Zeros that end a run: fewer cost less than a new one.
const GAP: usize = 16;
/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// Runs of bytes in a file of a length; all others are zero, or elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) len: u64,
    /// Offsets and bytes, in order.
    pub(crate) runs: Vec<(u64, Vec<u8>)>,
}

impl Runs {
    /// All bytes.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Runs { len: bytes.len() as u64, runs: vec![(0, bytes)] }
    }

    /// Reads the bytes around these ranges; `None` if they are more than `most`.
    pub(crate) fn around(file: &File, mut ranges: Vec<(u64, u64)>, most: u64) -> Result<Option<Self>> {
        ranges.sort_unstable();
        ranges.push((file.len(), 0));
        let mut runs = Runs { len: file.len(), runs: Vec::new() };
        let (mut at, mut total) = (0u64, 0u64);
        for (start, len) in ranges {
            total = total.saturating_add(start.saturating_sub(at));
            if total > most {
                return Ok(None);
            }
            while at < start {
                let bytes = file.bytes(at, (start - at).min(PIECE))?;
                runs.add(at, &bytes);
                at += bytes.len() as u64;
            }
            at = at.max(start.saturating_add(len));
        }
        Ok(Some(runs))
    }

    /// Adds bytes, without long runs of zeros.
    fn add(&mut self, at: u64, bytes: &[u8]) {
        let mut rest = bytes;
        let mut at = at;
        while let Some(first) = rest.iter().position(|byte| *byte != 0) {
            let (_, from) = rest.split_at_checked(first).unwrap_or_default();
            at += first as u64;
            let mut len = 0;
            let mut zeros = 0;
            for (number, byte) in from.iter().enumerate() {
                zeros = if *byte == 0 { zeros + 1 } else { 0 };
                if *byte != 0 {
                    len = number + 1;
                }
                if zeros == GAP {
                    break;
                }
            }
            let (run, after) = from.split_at_checked(len).unwrap_or_default();
            self.runs.push((at, run.to_vec()));
            at += len as u64;
            rest = after;
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Writer::new();
        bytes.varint(self.len);
        let mut at = 0;
        for (start, run) in &self.runs {
            bytes.varint(start.saturating_sub(at)).varint(run.len() as u64).bytes(run);
            at = start.saturating_add(run.len() as u64);
        }
        bytes.into_bytes()
    }

    pub(crate) fn from_bytes(stored: &[u8]) -> Option<Self> {
        let mut input = Bytes::new(stored, 0);
        let mut runs = Runs { len: input.parse(varint).ok()?, runs: Vec::new() };
        let mut at = 0u64;
        while input.remaining() > 0 {
            let (gap, len) = input.parse((varint, varint)).ok()?;
            let start = at.checked_add(gap)?;
            at = start.checked_add(len).filter(|end| *end <= runs.len)?;
            runs.runs.push((start, input.parse(bytes(len)).ok()?.to_vec()));
        }
        Some(runs)
    }
}

/// A file of these runs, with zeros between them.
#[derive(Debug)]
pub(crate) struct Sparse(Runs);

impl Sparse {
    pub(crate) fn new(runs: Runs) -> Self {
        Sparse(runs)
    }
}

impl ReadAt for Sparse {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.0.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let out = buffer.get_mut(..len).unwrap_or_default();
        out.fill(0);
        let end = offset.saturating_add(len as u64);
        let first =
            self.0.runs.partition_point(|(start, run)| start.saturating_add(run.len() as u64) <= offset);
        for (start, run) in self.0.runs.iter().skip(first).take_while(|(start, _)| *start < end) {
            let skipped = offset.saturating_sub(*start) as usize;
            let at = start.saturating_sub(offset) as usize;
            let from = run.get(skipped..).unwrap_or_default();
            let to = out.get_mut(at..).unwrap_or_default();
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    const MOST: usize = if cfg!(miri) { 60 } else { 400 };

    proptest! {
        #[test]
        fn the_bytes_around_ranges_come_back(
            bytes in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..MOST),
            start in 0..MOST as u64, len in 0u64..100, offset in 0..MOST as u64,
        ) {
            let file = File::new(Arc::new(bytes.clone()), "f").unwrap();
            let start = start.min(bytes.len() as u64);
            let len = len.min(bytes.len() as u64 - start);
            let runs = Runs::around(&file, vec![(start, len)], 1000).unwrap().unwrap();
            prop_assert_eq!(Runs::from_bytes(&runs.to_bytes()), Some(runs.clone()));
            let mut expected = bytes;
            expected[start as usize..(start + len) as usize].fill(0);
            let sparse = File::new(Arc::new(Sparse::new(runs)), "f").unwrap();
            prop_assert_eq!(sparse.len(), expected.len() as u64);
            let offset = offset.min(sparse.len());
            prop_assert_eq!(sparse.bytes(offset, sparse.len() - offset).unwrap(), &expected[offset as usize..]);
        }
    }
}
