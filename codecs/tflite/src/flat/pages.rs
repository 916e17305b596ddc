//! Pages of a file.

use ckpt_api::{File, Result};
use std::collections::HashMap;

/// Bytes of a page.
const PAGE: u64 = 16 << 10;
/// Pages that are kept: 32 MiB.
const MOST: usize = 2048;

/// The pages that were read last.
#[derive(Default)]
pub(super) struct Pages {
    pages: HashMap<u64, Vec<u8>>,
}

impl Pages {
    /// Fills a buffer from an offset; the file has these bytes.
    pub(super) fn fill(&mut self, file: &File, at: u64, buffer: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (at, buffer);
        while !rest.is_empty() {
            let number = at / PAGE;
            let page = self.page(file, number)?;
            let start = usize::try_from(at.saturating_sub(number.saturating_mul(PAGE))).unwrap_or_default();
            let own = page.get(start..).unwrap_or_default();
            let len = own.len().min(rest.len()).max(1);
            let (now, later) = rest.split_at_mut(len);
            for (to, from) in now.iter_mut().zip(own) {
                *to = *from;
            }
            (at, rest) = (at.saturating_add(len as u64), later);
        }
        Ok(())
    }

    fn page(&mut self, file: &File, number: u64) -> Result<&[u8]> {
        if !self.pages.contains_key(&number) {
            if self.pages.len() >= MOST {
                self.pages.clear();
            }
            let start = number.saturating_mul(PAGE);
            let bytes = file.bytes(start, file.len().saturating_sub(start).min(PAGE))?;
            self.pages.insert(number, bytes);
        }
        Ok(self.pages.get(&number).map_or(&[], Vec::as_slice))
    }
}
