//! Parts of outputs on their way to the store, a bounded number of them.

use super::client::Uploading;
use super::problem::Problem;
use super::runtime;
use super::transfer_buffer::TransferBuffer;
use bytes::Bytes;
use ckpt_api::Result;
use object_store::path::Path as Key;
use object_store::signer::Signer;
use object_store::{MultipartId, PutPayload};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;

/// Bytes of the smallest part: fewer requests, and what one connection sends in a moment.
pub(super) const SMALLEST_PART: u64 = 16 << 20;
/// Parts that a store takes.
const PARTS: u64 = 10_000;
/// Parts that are sent at once, at most.
const FLIGHTS: u64 = 8;
/// Bytes that are sent at once if nobody sets a bound.
const USUAL: u64 = 4 * SMALLEST_PART;

/// The bytes of each part but the last of a file: as many as the number of parts allows, in whole MiB.
pub(super) fn part_size(len: u64) -> u64 {
    let least = len.div_ceil(PARTS).div_ceil(1 << 20).saturating_mul(1 << 20);
    least.max(SMALLEST_PART)
}

/// How many parts may be in memory.
#[derive(Debug)]
pub(super) struct Budget {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    bytes: u64,
    used: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { state: Mutex::new(State { bytes: USUAL, used: 0 }), changed: Condvar::new() }
    }
}

impl Budget {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bounds the bytes, and returns the bound: as near to `most` as parts of this size allow.
    pub(super) fn bound(&self, most: u64, part: u64) -> u64 {
        let part = part.max(1);
        let bytes = (most / part).clamp(1, FLIGHTS).saturating_mul(part);
        self.lock().bytes = bytes;
        bytes
    }

    /// Waits until so many bytes may be in memory. One part always may.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Taken {
        let mut state = self.lock();
        while state.used > 0 && state.used.saturating_add(bytes) > state.bytes {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.used = state.used.saturating_add(bytes);
        Taken { budget: self.clone(), bytes }
    }
}

/// Bytes of the budget, until this is dropped.
pub(super) struct Taken {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.used = state.used.saturating_sub(self.bytes);
        drop(state);
        self.budget.changed.notify_all();
    }
}

/// The upload of one object in parts. It begins with the first part.
pub(super) struct Upload {
    client: Arc<dyn Uploading>,
    key: Key,
    budget: Arc<Budget>,
    id: OnceCell<MultipartId>,
    /// Whether other processes send parts of it, too: it is not this one's to remove.
    is_shared: bool,
    /// Whether the object was made.
    is_complete: AtomicBool,
    /// Parts that are on their way.
    flights: Mutex<usize>,
    changed: Condvar,
}

impl Upload {
    pub(super) fn new(client: Arc<dyn Uploading>, key: Key, budget: Arc<Budget>) -> Arc<Self> {
        Self::with(client, key, budget, None)
    }

    /// An upload that was begun before, and to which other processes send parts, too.
    pub(super) fn shared(
        client: Arc<dyn Uploading>,
        key: Key,
        budget: Arc<Budget>,
        id: MultipartId,
    ) -> Arc<Self> {
        Self::with(client, key, budget, Some(id))
    }

    fn with(client: Arc<dyn Uploading>, key: Key, budget: Arc<Budget>, id: Option<MultipartId>) -> Arc<Self> {
        let (flights, changed) = (Mutex::new(0), Condvar::new());
        let (is_shared, is_complete) = (id.is_some(), AtomicBool::new(false));
        let id = OnceCell::new_with(id);
        Arc::new(Upload { client, key, budget, id, is_shared, is_complete, flights, changed })
    }

    fn flights(&self) -> MutexGuard<'_, usize> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a part as soon as there is room for it. `read` is called then; `sent` gets the part's name in the store.
    ///
    /// # Errors
    /// Those of `read`; [`ckpt_api::Kind::Io`] if no thread can be started.
    pub(super) fn send(
        self: &Arc<Self>,
        number: usize,
        len: u64,
        read: impl FnOnce() -> Result<TransferBuffer>,
        sent: impl FnOnce(Result<String, Problem>) + Send + 'static,
    ) -> Result<()> {
        let taken = self.budget.take(len);
        let bytes = read()?;
        let flight = Flight::new(self.clone());
        let upload = self.clone();
        runtime::spawn(async move {
            let _flight = flight;
            let outcome = upload.put(number, bytes).await;
            drop(taken);
            sent(outcome);
        })
    }

    async fn put(&self, number: usize, bytes: TransferBuffer) -> Result<String, Problem> {
        let begin = || self.client.create_multipart(&self.key);
        let id = self.id.get_or_try_init(begin).await?;
        let part = self.client.put_part(&self.key, id, number, PutPayload::from(Bytes::from(bytes))).await?;
        Ok(part.content_id)
    }

    /// Whether other processes send parts of it, too.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Counts as a part on its way until it is dropped: who waits for parts waits for this, too.
    pub(super) fn flight(self: &Arc<Self>) -> Flight {
        Flight::new(self.clone())
    }

    /// Waits until no part is on its way.
    pub(super) fn wait(&self) {
        self.wait_until(|| false);
    }

    /// Waits until this is so, or no part is on its way.
    pub(super) fn wait_until(&self, is_so: impl Fn() -> bool) {
        let mut flights = self.flights();
        while *flights > 0 && !is_so() {
            flights = self.changed.wait(flights).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes the object of its parts.
    pub(super) async fn complete(&self, parts: Vec<String>) -> Result<(), Problem> {
        let id = self.id.get_or_try_init(|| self.client.create_multipart(&self.key)).await?;
        let parts =
            parts.into_iter().map(|content_id| object_store::multipart::PartId { content_id }).collect();
        self.client.complete_multipart(&self.key, id, parts).await?;
        self.is_complete.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the object of its parts if its name is free. `None` if the store does not know such a condition, or the client
    /// cannot say it: then nothing was made.
    pub(super) async fn complete_new(
        &self,
        signer: &dyn Signer,
        parts: &[String],
    ) -> Result<Option<()>, Problem> {
        let id = self.id.get_or_try_init(|| self.client.create_multipart(&self.key)).await?;
        let made = super::complete::complete_new(signer, &self.key, id, parts).await?;
        self.is_complete.store(made.is_some(), Ordering::Relaxed);
        Ok(made)
    }

    /// Removes the parts that were sent, if any, and if no other process sends some.
    pub(super) async fn abort(&self) -> Result<(), Problem> {
        match self.id.get().filter(|_| !self.is_shared && !self.is_complete.load(Ordering::Relaxed)) {
            Some(id) => Ok(self.client.abort_multipart(&self.key, id).await?),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A part on its way, however it ends.
pub(super) struct Flight(Arc<Upload>);

impl Flight {
    fn new(upload: Arc<Upload>) -> Self {
        *upload.flights() += 1;
        Flight(upload)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flights = self.0.flights();
        *flights = flights.saturating_sub(1);
        drop(flights);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_at_least_16_mib_and_a_store_takes_10_000_of_them() {
        assert_eq!(part_size(0), 16 << 20);
        assert_eq!(part_size(160 << 30), 17 << 20);
        for len in [1, 16 << 20, 1 << 40, 10 << 40, u64::MAX] {
            let part = part_size(len);
            assert!(len.div_ceil(part) <= PARTS && part.is_multiple_of(1 << 20), "{len}");
        }
    }

    #[test]
    fn as_many_parts_are_sent_at_once_as_the_bound_allows_and_one_always_is() {
        let budget = Budget::default();
        assert_eq!(budget.bound(0, 16), 16);
        assert_eq!(budget.bound(64, 16), 64);
        assert_eq!(budget.bound(u64::MAX, 16), 8 * 16);
    }
}
