//! A file of an output before it is an object: its bytes are in a temporary file of this machine, and each part is sent once
//! all of it was written.

mod shared;

use super::problem::{Failure, Problem};
use super::sender::{Upload, part_size};
use super::transfer_buffer::TransferBuffer;
use ckpt_api::{Error, ReadAt, Result, read_exact_at};
use ckpt_engine::ranges::add;
use ckpt_engine::store::WriteAt;
use ckpt_engine::store::write_all;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where bytes are until they are sent: all files of known length are in one temporary file, since systems allow a process a
/// thousand open files or less.
#[derive(Clone, Debug)]
pub(super) struct Place {
    file: Arc<fs::File>,
    /// Where the file's first byte is.
    base: u64,
}

/// Files begin at multiples of so many bytes, of which the disk gets all back.
const ALIGNED: u64 = 1 << 16;

impl Place {
    /// Places for files of these lengths, which read as zeros. `address` is the output's, for errors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if no temporary file can be made.
    pub(super) fn for_files(lens: &[Option<u64>], address: &str) -> Result<Vec<Self>> {
        let cannot = |error| cannot_spool(address, error);
        let shared = Arc::new(tempfile::tempfile().map_err(cannot)?);
        let mut end = 0_u64;
        let mut places = Vec::with_capacity(lens.len());
        for len in lens {
            places.push(match len {
                Some(len) => {
                    let base = end;
                    end = base.saturating_add(*len).checked_next_multiple_of(ALIGNED).unwrap_or(u64::MAX);
                    Place { file: shared.clone(), base }
                }
                None => Place { file: Arc::new(tempfile::tempfile().map_err(cannot)?), base: 0 },
            });
        }
        shared.set_len(end).map_err(cannot)?;
        Ok(places)
    }

    fn at(&self, offset: u64) -> u64 {
        self.base.saturating_add(offset)
    }
}

/// A file of an output.
#[derive(Debug)]
pub(super) struct Spool {
    /// Its address, for errors.
    pub(super) address: String,
    place: Place,
    /// Bytes; `None` for a file that grows.
    len: Option<u64>,
    part: u64,
    upload: Arc<Upload>,
    /// Whether bytes that were sent may go: nobody reads the file back.
    drains: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The byte after the last one that was written.
    end: u64,
    parts: BTreeMap<u64, Part>,
    failed: Option<Problem>,
    /// Whether the object is there already: what is written goes nowhere.
    is_closed: bool,
}

/// What is known of a part.
#[derive(Debug, Default)]
struct Part {
    /// What was written, in order and apart from each other.
    written: Vec<Range<u64>>,
    /// Counts writes.
    version: u64,
    /// The version that is on its way or in the store.
    sending: Option<u64>,
    /// Its name in the store, and the version that has it.
    sent: Option<(u64, String)>,
    /// Whether its bytes are only in the store.
    is_gone: bool,
    /// What other processes can find in the store: ranges that were put there apart, and whether all of it was sent.
    settled: Vec<Range<u64>>,
    is_settled: bool,
}

impl Spool {
    /// A file of so many bytes, which are zero.
    pub(super) fn new(
        address: String,
        len: Option<u64>,
        place: Place,
        upload: Arc<Upload>,
        drains: bool,
    ) -> Arc<Self> {
        let part = part_size(len.unwrap_or(0));
        Arc::new(Spool { address, place, len, part, upload, drains, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the file, as far as it is known.
    pub(super) fn size(&self) -> u64 {
        self.len.unwrap_or_else(|| self.lock().end)
    }

    /// Bytes of the file; `None` for one that grows.
    pub(super) fn len(&self) -> Option<u64> {
        self.len
    }

    /// Whether the object is sent in one request.
    pub(super) fn is_small(&self) -> bool {
        self.size() <= self.part
    }

    /// All bytes of a small file.
    pub(super) fn bytes(&self) -> Result<TransferBuffer> {
        self.read(0..self.size())
    }

    /// The bytes of each part.
    pub(super) fn part_size(&self) -> u64 {
        self.part
    }

    pub(super) fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    pub(super) fn range_of(&self, part: u64) -> Range<u64> {
        let start = part.saturating_mul(self.part);
        start..start.saturating_add(self.part).min(self.size().max(start))
    }

    /// The bytes of a range, which must not be gone.
    pub(super) fn read(&self, range: Range<u64>) -> Result<TransferBuffer> {
        let len = range.end.saturating_sub(range.start);
        let cannot =
            |error| Error::io("cannot read the output back", error).file(&self.address).offset(range.start);
        let size = usize::try_from(len).map_err(|_| cannot(io::ErrorKind::OutOfMemory.into()))?;
        let mut bytes = TransferBuffer::zeroed(size).map_err(cannot)?;
        read_exact_at(self, range.start, &mut bytes).map_err(cannot)?;
        Ok(bytes)
    }

    /// Notes what was written, and returns the parts that are complete now.
    fn note(&self, written: Range<u64>) -> Result<Vec<u64>> {
        let mut state = self.lock();
        if let Some(problem) = &state.failed {
            return Err(self.failed(problem));
        }
        state.end = state.end.max(written.end);
        let mut complete = Vec::new();
        for number in written.start / self.part..written.end.div_ceil(self.part) {
            let start = number.saturating_mul(self.part);
            let whole = start..start.saturating_add(self.part).min(self.len.unwrap_or(u64::MAX));
            let part = state.parts.entry(number).or_default();
            if part.is_gone {
                return Err(Error::defect("a part of the output was written again after it was sent")
                    .file(&self.address)
                    .offset(start));
            }
            part.version += 1;
            add(&mut part.written, written.start.max(whole.start)..written.end.min(whole.end));
            let is_complete = part.written.first() == Some(&whole);
            if is_complete && part.sending.is_none() && self.len.is_some_and(|len| len > self.part) {
                part.sending = Some(part.version);
                complete.push(number);
            }
        }
        Ok(complete)
    }

    fn failed(&self, problem: &Problem) -> Error {
        Error::io("cannot send the output", io::Error::other(problem.text.as_str())).file(&self.address)
    }

    /// Sends a part, which is marked as being sent in this version.
    fn send(self: &Arc<Self>, number: u64, version: u64) -> Result<()> {
        let range = self.range_of(number);
        let index = usize::try_from(number).map_err(|_| Error::limit("the output has too many parts"))?;
        let spool = self.clone();
        let sent = move |outcome: Result<String, Problem>| spool.was_sent(number, version, outcome);
        self.upload.send(index, range.end - range.start, || self.read(range), sent)
    }

    fn was_sent(&self, number: u64, version: u64, outcome: Result<String, Problem>) {
        let mut state = self.lock();
        let State { parts, failed, .. } = &mut *state;
        let part = parts.entry(number).or_default();
        match outcome {
            Ok(id) => {
                part.sent = Some((version, id));
                if self.drains && part.version == version {
                    part.is_gone = drain(&self.place, self.range_of_part(number));
                }
            }
            Err(problem) => {
                part.sending = None;
                failed.get_or_insert(problem);
            }
        }
    }

    /// As [`Spool::range_of`], for a file whose length is known.
    fn range_of_part(&self, number: u64) -> Range<u64> {
        let start = number.saturating_mul(self.part);
        start..start.saturating_add(self.part).min(self.len.unwrap_or(start))
    }

    /// Sends every part that is not in the store as it is now, and waits until all are.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if a part cannot be sent.
    pub(super) fn send_rest(self: &Arc<Self>) -> Result<()> {
        if self.is_small() || self.is_closed() {
            return Ok(());
        }
        self.upload.wait();
        for number in 0..self.size().div_ceil(self.part) {
            let version = {
                let mut state = self.lock();
                if let Some(problem) = &state.failed {
                    return Err(self.failed(problem));
                }
                let part = state.parts.entry(number).or_default();
                let version = part.version;
                if part.sent.as_ref().is_some_and(|(sent, _)| *sent == version) {
                    continue;
                }
                part.sending = Some(version);
                version
            };
            self.send(number, version)?;
        }
        self.upload.wait();
        match &self.lock().failed {
            Some(problem) => Err(self.failed(problem)),
            None => Ok(()),
        }
    }

    /// The names of all parts in the store, in order; `None` if one is missing.
    pub(super) fn parts(&self) -> Option<Vec<String>> {
        let state = self.lock();
        let numbers = 0..self.len.unwrap_or(state.end).div_ceil(self.part);
        numbers.map(|number| Some(state.parts.get(&number)?.sent.as_ref()?.1.clone())).collect()
    }
}

/// Gives a range of the temporary file back to the disk. Returns whether its bytes are gone.
#[cfg(target_os = "linux")]
fn drain(place: &Place, range: Range<u64>) -> bool {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&place.file, flags, place.at(range.start), range.end.saturating_sub(range.start)).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn drain(_: &Place, _: Range<u64>) -> bool {
    false
}

fn cannot_spool(address: &str, error: io::Error) -> Error {
    let place = std::env::temp_dir();
    let help = format!(
        "the output is kept in {} until it was sent: free some space, or set TMPDIR",
        place.display()
    );
    Error::io("cannot keep the output in a temporary file", error).file(address).help(help)
}

/// A spool that can be written by several threads.
#[derive(Debug)]
pub(super) struct Writing(pub(super) Arc<Spool>);

impl WriteAt for Writing {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let Writing(spool) = self;
        let end = offset.checked_add(bytes.len() as u64);
        let Some(end) = end.filter(|end| spool.len.is_none_or(|len| *end <= len)) else {
            return Err(Error::defect("bytes are written beyond the end of the output")
                .file(&spool.address)
                .offset(offset));
        };
        if bytes.is_empty() || spool.is_closed() {
            return Ok(());
        }
        write_all(&spool.place.file, spool.place.at(offset), bytes)
            .map_err(|error| cannot_spool(&spool.address, error).offset(offset))?;
        // From here on, who waits for parts waits for those that are whole now.
        let _flight = spool.upload.flight();
        for number in spool.note(offset..end)? {
            let version = spool.lock().parts.get(&number).and_then(|part| part.sending);
            spool.send(number, version.unwrap_or_default())?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

impl ReadAt for Spool {
    fn size(&self) -> io::Result<u64> {
        Ok(Spool::size(self))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64);
        let numbers = offset / self.part..end.div_ceil(self.part);
        let state = self.lock();
        if state.parts.range(numbers).any(|(_, part)| part.is_gone) {
            let problem =
                Problem::new(Failure::Other, "the bytes were sent, and are not kept on this machine");
            return Err(io::Error::other(problem.text));
        }
        drop(state);
        let left = usize::try_from(self.size().saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        ReadAt::read_at(&*self.place.file, self.place.at(offset), buffer.get_mut(..len).unwrap_or_default())
    }
}
