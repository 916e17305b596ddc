//! Reads two tensors in lockstep, for comparison.

use super::stream::TensorStream;
use ckpt_api::{DType, Result};

/// Hands out the bytes of the same elements of both streams, chunk by chunk, with the position of the first of them.
/// Returns whether both ended together. `dtypes` are those that the streams yield; of strings, bytes are handed out.
pub(crate) fn in_lockstep(
    a: &mut TensorStream,
    b: &mut TensorStream,
    dtypes: (DType, DType),
    mut each: impl FnMut(u64, &[u8], &[u8]) -> Result<()>,
) -> Result<bool> {
    let (mut a, mut b) = (Held::new(a, dtypes.0), Held::new(b, dtypes.1));
    let mut position = 0;
    loop {
        let more = (a.fill()?, b.fill()?);
        if !more.0 || !more.1 {
            return Ok(more.0 == more.1);
        }
        let count = a.elements().min(b.elements());
        if count == 0 {
            return Ok(false);
        }
        each(position, a.take(count), b.take(count))?;
        position += count as u64;
    }
}

/// What was read and not yet handed out.
struct Held<'a, 's> {
    stream: &'a mut TensorStream<'s>,
    /// Bytes of an element.
    size: usize,
    bytes: Vec<u8>,
    taken: usize,
}

impl<'a, 's> Held<'a, 's> {
    fn new(stream: &'a mut TensorStream<'s>, dtype: DType) -> Self {
        let size = dtype.bytes().and_then(|size| usize::try_from(size).ok()).unwrap_or(1);
        Held { stream, size: size.max(1), bytes: Vec::new(), taken: 0 }
    }

    /// Reads on where all is handed out; whether there is anything.
    fn fill(&mut self) -> Result<bool> {
        while self.taken == self.bytes.len() {
            let Some(bytes) = self.stream.read_next()? else { return Ok(false) };
            self.bytes.clear();
            self.bytes.extend_from_slice(bytes);
            self.taken = 0;
        }
        Ok(true)
    }

    /// Whole elements: streams hand out nothing else.
    fn elements(&self) -> usize {
        (self.bytes.len() - self.taken) / self.size
    }

    fn take(&mut self, count: usize) -> &[u8] {
        let start = self.taken;
        self.taken += count * self.size;
        self.bytes.get(start..self.taken).unwrap_or_default()
    }
}
