//! Hands out receipts of items once other processes can rely on the bytes that they are about.

use super::ItemReceipt;
use crate::resources::in_parallel;
use crate::store::Stage;
use ckpt_api::Result;
use std::sync::{Mutex, PoisonError};

/// Receipts of a batch that are handed out at once.
const AT_ONCE: usize = 8;

/// Receipts on their way to whoever collects them: one at a time, or in batches where the stage asks for them.
pub(super) struct Handing<'a> {
    stage: &'a dyn Stage,
    /// Bytes of a batch.
    batch: Option<u64>,
    done: &'a (dyn Fn(&ItemReceipt) -> Result<()> + Sync),
    waiting: Mutex<Waiting>,
}

/// Receipts of the next batch, and how many bytes they are about.
#[derive(Default)]
struct Waiting {
    receipts: Vec<ItemReceipt>,
    bytes: u64,
}

impl<'a> Handing<'a> {
    pub(super) fn new(stage: &'a dyn Stage, done: &'a (dyn Fn(&ItemReceipt) -> Result<()> + Sync)) -> Self {
        Handing { stage, batch: stage.batch(), done, waiting: Mutex::default() }
    }

    /// Takes the receipt of an item that has written so many bytes.
    ///
    /// # Errors
    /// Those of [`Stage::sync`], and of who collects the receipts.
    pub(super) fn add(&self, receipt: ItemReceipt, bytes: u64) -> Result<()> {
        let Some(batch) = self.batch else { return (self.done)(&receipt) };
        let full = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.receipts.push(receipt);
            waiting.bytes = waiting.bytes.saturating_add(bytes);
            (waiting.bytes >= batch).then(|| std::mem::take(&mut *waiting))
        };
        full.map_or(Ok(()), |full| self.hand_out(&full))
    }

    /// Hands out what waits.
    ///
    /// # Errors
    /// Those of [`Handing::add`].
    pub(super) fn finish(self) -> Result<()> {
        self.hand_out(&self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hand_out(&self, batch: &Waiting) -> Result<()> {
        if batch.receipts.is_empty() {
            return Ok(());
        }
        self.stage.sync()?;
        // Each may be a request to a store far away.
        let hand = |receipt: usize| batch.receipts.get(receipt).map_or(Ok(()), self.done);
        let numbers: Vec<usize> = (0..batch.receipts.len()).collect();
        in_parallel(&numbers, AT_ONCE, hand).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::Sums;
    use crate::store::{Committed, Earlier, WriteAt};
    use ckpt_api::{Error, FileId, ReadAt, ReadStore};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A stage that counts how often it was synced.
    #[derive(Debug, Default)]
    struct Counting {
        synced: AtomicUsize,
        batch: Option<u64>,
    }

    impl Stage for Counting {
        fn earlier(&self) -> Earlier {
            Earlier::Nothing
        }
        fn notes(&self) -> &[Vec<u8>] {
            &[]
        }
        fn note(&self, _: &[u8], _: u64) {}
        fn token(&self) -> u64 {
            0
        }
        fn file(&self, _: FileId) -> Result<Arc<dyn WriteAt>> {
            Err(Error::defect("none"))
        }
        fn open(&self, _: FileId) -> Result<Arc<dyn ReadAt>> {
            Err(Error::defect("none"))
        }
        fn written(&self) -> Arc<dyn ReadStore> {
            Arc::new(std::collections::BTreeMap::<String, Arc<dyn ReadAt>>::new())
        }
        fn attach(&mut self, _: &str) -> Result<FileId> {
            Err(Error::defect("none"))
        }
        fn bytes(&self) -> Result<u64> {
            Ok(0)
        }
        fn sync(&self) -> Result<()> {
            self.synced.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        fn batch(&self) -> Option<u64> {
            self.batch
        }
        fn commit(self: Box<Self>, _: bool) -> Result<Committed> {
            Ok(Committed::default())
        }
        fn discard(self: Box<Self>) -> Vec<String> {
            Vec::new()
        }
    }

    fn receipt(item: usize) -> ItemReceipt {
        ItemReceipt { plan: String::new(), staging: String::new(), item, sums: Sums::default() }
    }

    #[test]
    fn receipts_are_handed_out_after_a_sync_for_each_batch_and_at_the_end() {
        let stage = Counting { batch: Some(10), ..Counting::default() };
        let seen = Mutex::new(Vec::new());
        let done = |receipt: &ItemReceipt| {
            seen.lock().unwrap().push((receipt.item, stage.synced.load(Ordering::Relaxed)));
            Ok(())
        };
        let handing = Handing::new(&stage, &done);
        (0..5).for_each(|item| handing.add(receipt(item), 6).unwrap());
        handing.finish().unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)]);
    }

    #[test]
    fn a_stage_without_batches_hands_out_each_receipt_at_once() {
        let stage = Counting::default();
        let seen = AtomicUsize::new(0);
        let done = |_: &ItemReceipt| {
            seen.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let handing = Handing::new(&stage, &done);
        handing.add(receipt(0), 1).unwrap();
        assert_eq!((seen.load(Ordering::Relaxed), stage.synced.load(Ordering::Relaxed)), (1, 0));
    }
}
