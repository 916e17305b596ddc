//! What processes that write one file together tell each other about its parts.

use super::super::transfer_buffer::TransferBuffer;
use super::Spool;
use crate::problem::{Failure, Problem};
use ckpt_api::Result;
use ckpt_engine::ranges::{add, missing};
use std::ops::Range;

impl Spool {
    /// Takes a part that another process sent for one that was sent: its bytes are only in the store.
    pub(crate) fn adopt(&self, number: u64, id: String) {
        let whole = self.range_of(number);
        let mut state = self.lock();
        state.end = state.end.max(whole.end);
        let part = state.parts.entry(number).or_default();
        part.written = vec![whole];
        part.sending = Some(part.version);
        part.sent = Some((part.version, id));
        part.is_gone = true;
        part.is_settled = true;
    }

    /// Takes the file for one whose object is there: nothing is sent any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Waits until every part that is whole now is in the store.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if one cannot be sent.
    pub(crate) fn wait_for_parts(&self) -> Result<()> {
        let pending: Vec<u64> = {
            let state = self.lock();
            let on_its_way = state.parts.iter().filter(|(_, part)| part.sending.is_some());
            on_its_way.filter(|(_, part)| part.sent.is_none()).map(|(number, _)| *number).collect()
        };
        let left = || {
            let state = self.lock();
            let is_sent = |number| state.parts.get(number).is_some_and(|part| part.sent.is_some());
            (state.failed.clone(), !pending.iter().all(is_sent))
        };
        self.upload.wait_until(|| matches!(left(), (Some(_), _) | (_, false)));
        match left() {
            (Some(problem), _) => Err(self.failed(&problem)),
            (None, true) => Err(self.failed(&Problem::new(Failure::Other, "a part was read, and not sent"))),
            (None, false) => Ok(()),
        }
    }

    /// The ranges of parts that are not whole which other processes cannot find in the store yet.
    pub(crate) fn unsettled(&self) -> Vec<Range<u64>> {
        let state = self.lock();
        let open = state.parts.values().filter(|part| part.sending.is_none());
        let left = |range: &Range<u64>, settled: &[Range<u64>]| missing(settled, range.clone());
        open.flat_map(|part| part.written.iter().flat_map(|range| left(range, &part.settled))).collect()
    }

    /// The parts in the store of which other processes do not know yet, with their names there.
    pub(crate) fn unsettled_parts(&self) -> Vec<(u64, String)> {
        let state = self.lock();
        let new = state.parts.iter().filter(|(_, part)| !part.is_settled);
        new.filter_map(|(number, part)| Some((*number, part.sent.as_ref()?.1.clone()))).collect()
    }

    /// The bytes of a range of one part; `None` if the part was sent and they are gone.
    pub(crate) fn read_if_kept(&self, range: Range<u64>) -> Result<Option<TransferBuffer>> {
        let number = range.start / self.part;
        let is_gone = || self.lock().parts.get(&number).is_some_and(|part| part.is_gone);
        let read = self.read(range);
        // Looked at afterwards: they may go while they are read.
        if is_gone() { Ok(None) } else { read.map(Some) }
    }

    /// Notes that other processes find a range in the store.
    pub(crate) fn settle(&self, range: Range<u64>) {
        let number = range.start / self.part;
        if let Some(part) = self.lock().parts.get_mut(&number) {
            add(&mut part.settled, range);
        }
    }

    /// Notes that other processes know that a part was sent.
    pub(crate) fn settle_part(&self, number: u64) {
        if let Some(part) = self.lock().parts.get_mut(&number) {
            part.is_settled = true;
        }
    }
}
