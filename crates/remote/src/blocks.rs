//! Bytes of objects that were fetched: what is read next is on its way, and all of it is within a bound.
//!
//! Ranges that were announced are fetched in their order, several at a time. A read that nobody announced fetches a little,
//! and more each time if reads follow each other. What was read to its end goes first when room is needed, and what will be
//! read last goes last of all.

use super::announced::Announced;
use super::object::{HEAD, Object};
use super::problem::{Failure, Problem};
use super::runtime;
use super::transfer_buffer::TransferBuffer;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Requests at a time, at most: a connection takes half a MiB of its own.
const FLIGHTS: u64 = 16;
/// Requests at a time, at least.
const FEWEST: u64 = 4;
/// Bytes of a request that are worth another one at the same time.
const WORTH_A_FLIGHT: u64 = 1 << 20;
/// The largest request: from 4 × 4 MiB on, one connection's latency of 20 ms does not count.
const LARGEST: u64 = 4 << 20;
/// The smallest.
const SMALLEST: u64 = HEAD;
/// Bytes that are kept if nobody sets another bound.
const USUAL: u64 = FLIGHTS * LARGEST;
/// A segment that was read in part, and then not for so many reads, may go.
const STALE: u64 = 64;

#[derive(Debug)]
pub(super) struct Blocks {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    capacity: u64,
    /// By object and first byte; those of one object do not overlap.
    segments: BTreeMap<(u64, u64), Segment>,
    /// Bytes of all segments, of those on their way, too.
    bytes: u64,
    flights: u64,
    announced: Announced,
    /// Counts reads.
    clock: u64,
    /// Counts requests.
    requests: u64,
    /// Readers that wait for room.
    without_room: usize,
}

#[derive(Debug)]
struct Segment {
    end: u64,
    used: u64,
    /// When it was asked for: what is asked for last will be read last.
    asked: u64,
    /// Readers that wait for it: it stays until they had it.
    waiting: u32,
    /// The group of announced ranges that it was fetched for.
    group: Option<(u64, Arc<Object>)>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Coming,
    Here { bytes: Arc<TransferBuffer>, progress: Progress },
    Failed(Problem),
}

/// How far a segment was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    ToItsEnd,
    InPart,
    Unread,
}

impl Blocks {
    pub(super) fn new() -> Arc<Self> {
        let state = State {
            capacity: USUAL,
            segments: BTreeMap::new(),
            bytes: 0,
            flights: 0,
            announced: Announced::new(),
            clock: 0,
            requests: 0,
            without_room: 0,
        };
        Arc::new(Blocks { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Bounds the bytes that are kept, and returns the bound: as near to `most` as can be.
    pub(super) fn bound(&self, most: u64) -> u64 {
        let mut state = self.lock();
        state.capacity = most.clamp(FLIGHTS * SMALLEST, USUAL);
        state.capacity
    }

    /// Bytes that are kept or on their way.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first bytes of an object.
    pub(super) fn put_head(&self, object: &Object, bytes: TransferBuffer) {
        let len = bytes.len() as u64;
        let mut state = self.lock();
        if len == 0 || !state.make_room(len, Progress::Unread) {
            return;
        }
        let used = state.clock;
        let content = Content::Here { bytes: Arc::new(bytes), progress: Progress::ToItsEnd };
        state.bytes = state.bytes.saturating_add(len);
        let segment = Segment { end: len, used, asked: 0, waiting: 0, group: None, content };
        state.segments.insert((object.id, 0), segment);
    }

    /// Announces ranges that one reader will read in this order.
    pub(super) fn announce(self: &Arc<Self>, object: &Arc<Object>, ranges: &[Range<u64>]) {
        let mut state = self.lock();
        state.announced.add(object, ranges);
        self.pump(&mut state);
    }

    /// Reads bytes of an object into the beginning of `buffer`, and returns how many.
    pub(super) fn read(
        self: &Arc<Self>,
        object: &Arc<Object>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Problem> {
        if buffer.is_empty() || offset >= object.size {
            return Ok(0);
        }
        let mut state = self.lock();
        loop {
            match state.find(object.id, offset) {
                Found::Here(bytes, start) => {
                    let from = usize::try_from(offset - start).unwrap_or(usize::MAX);
                    let rest = bytes.get(from..).unwrap_or_default();
                    let len = rest.len().min(buffer.len());
                    state.mark_read(object.id, start, offset.saturating_add(len as u64));
                    self.pump(&mut state);
                    let wakes = state.without_room > 0;
                    drop(state);
                    // What stayed for this reader may go now, and perhaps no request is on its way that would wake the others.
                    if wakes {
                        self.changed.notify_all();
                    }
                    if let (Some(to), Some(from)) = (buffer.get_mut(..len), rest.get(..len)) {
                        to.copy_from_slice(from);
                    }
                    return Ok(len);
                }
                Found::Failed(problem) => return Err(problem),
                Found::Coming(key) => {
                    state.await_segment(key, true);
                    state = self.wait(state);
                    state.await_segment(key, false);
                }
                Found::Nothing => {
                    let group = state.announced.find(object.id, offset);
                    let range = match group {
                        Some((_, end)) => state.request(object, offset..end),
                        None => state.wanted(object, offset, buffer.len() as u64),
                    };
                    if state.make_room(range.end - range.start, Progress::Unread) {
                        let group = group.map(|(group, _)| group);
                        self.start(&mut state, object, range, group);
                    } else {
                        state.without_room += 1;
                        state = self.wait(state);
                        state.without_room -= 1;
                    }
                }
            }
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts requests for what was announced, as long as there is room.
    fn pump(self: &Arc<Self>, state: &mut State) {
        while state.flights < state.most_flights() {
            let Some((group, object, range)) = state.next_announced() else { return };
            if !state.make_room(range.end - range.start, Progress::InPart) {
                return;
            }
            self.start(state, &object, range, Some(group));
        }
    }

    /// Fetches a range, for a group of announced ones or for nobody else. Whoever waits for it is woken, whatever becomes of it.
    fn start(
        self: &Arc<Self>,
        state: &mut State,
        object: &Arc<Object>,
        range: Range<u64>,
        group: Option<u64>,
    ) {
        let (key, len) = ((object.id, range.start), range.end - range.start);
        let (used, asked) = (state.clock, state.requests);
        if let Some(group) = group {
            state.announced.hold(group, len);
            state.announced.take(group, &range);
        }
        let group = group.map(|group| (group, object.clone()));
        let segment = Segment { end: range.end, used, asked, waiting: 0, group, content: Content::Coming };
        state.segments.insert(key, segment);
        state.bytes = state.bytes.saturating_add(len);
        state.flights += 1;
        state.requests += 1;
        let (blocks, object) = (self.clone(), object.clone());
        let fetch = async move {
            // Made here: the one of a request that never starts would wait for the lock that its caller holds.
            let flight = Flight { blocks, key, landed: false };
            let fetched = object.fetch(range).await;
            flight.land(fetched);
        };
        if let Err(error) = runtime::spawn(fetch) {
            state.land(key, Err(Problem::new(Failure::Other, error.to_string())));
        }
    }
}

/// A request that is on its way.
struct Flight {
    blocks: Arc<Blocks>,
    key: (u64, u64),
    landed: bool,
}

impl Flight {
    fn land(mut self, fetched: Result<TransferBuffer, Problem>) {
        self.landed = true;
        let mut state = self.blocks.lock();
        state.land(self.key, fetched);
        self.blocks.pump(&mut state);
        drop(state);
        self.blocks.changed.notify_all();
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.landed {
            return;
        }
        let problem = Problem::new(Failure::Other, "the request ended without an answer");
        self.blocks.lock().land(self.key, Err(problem));
        self.blocks.changed.notify_all();
    }
}

enum Found {
    Here(Arc<TransferBuffer>, u64),
    Coming((u64, u64)),
    Failed(Problem),
    Nothing,
}

impl State {
    fn find(&mut self, object: u64, offset: u64) -> Found {
        let before = self.segments.range((object, 0)..=(object, offset)).next_back();
        let Some((&key, segment)) = before.filter(|(_, segment)| offset < segment.end) else {
            return Found::Nothing;
        };
        match &segment.content {
            Content::Here { bytes, .. } => Found::Here(bytes.clone(), key.1),
            Content::Coming => Found::Coming(key),
            Content::Failed(problem) => {
                let problem = problem.clone();
                self.segments.remove(&key);
                Found::Failed(problem)
            }
        }
    }

    fn mark_read(&mut self, object: u64, start: u64, end: u64) {
        self.clock = self.clock.saturating_add(1);
        let clock = self.clock;
        let Some(segment) = self.segments.get_mut(&(object, start)) else { return };
        segment.used = clock;
        let group = segment.group.as_ref().map(|(group, _)| *group);
        let mut is_read = false;
        if let Content::Here { progress, .. } = &mut segment.content {
            is_read = end >= segment.end && *progress != Progress::ToItsEnd;
            *progress =
                if end >= segment.end { Progress::ToItsEnd } else { (*progress).min(Progress::InPart) };
        }
        let len = segment.end - start;
        if let Some(group) = group {
            self.announced.note_read(group);
            if is_read {
                self.announced.release(group, len);
            }
        }
    }

    fn most_flights(&self) -> u64 {
        (self.capacity / WORTH_A_FLIGHT).clamp(FEWEST, FLIGHTS)
    }

    /// The bytes of one request.
    fn largest(&self) -> u64 {
        (self.capacity / self.most_flights()).clamp(SMALLEST, LARGEST)
    }

    /// What is fetched for a read that nobody announced: more if it follows the last one.
    fn wanted(&self, object: &Object, offset: u64, len: u64) -> Range<u64> {
        let follows = object.last.load(Ordering::Relaxed) == offset;
        let streak =
            if follows { object.streak.load(Ordering::Relaxed).saturating_add(1).min(16) } else { 0 };
        object.streak.store(streak, Ordering::Relaxed);
        let fetched = (SMALLEST << streak).max(len).min(self.largest());
        let end = offset.saturating_add(fetched).min(object.size);
        let range = self.request(object, offset..end);
        object.last.store(range.end, Ordering::Relaxed);
        range
    }

    /// The first bytes of a range that one request fetches: what is there is not fetched again.
    fn request(&self, object: &Object, range: Range<u64>) -> Range<u64> {
        let end = range.end.min(range.start.saturating_add(self.largest()));
        let end = self.next_start(object.id, range.start).map_or(end, |next| end.min(next));
        range.start..end
    }

    /// Where the next segment of an object begins.
    fn next_start(&self, object: u64, offset: u64) -> Option<u64> {
        let mut later = self.segments.range((object, offset.saturating_add(1))..=(object, u64::MAX));
        later.next().map(|(key, _)| key.1)
    }

    /// The next request for what was announced and is not there.
    fn next_announced(&mut self) -> Option<(u64, Arc<Object>, Range<u64>)> {
        loop {
            let (group, object, range) = self.announced.first()?;
            match self.keep(object.id, range.start) {
                Some(end) => self.announced.take(group, &(range.start..end)),
                None => {
                    let range = self.request(&object, range);
                    return Some((group, object, range));
                }
            }
        }
    }

    /// Notes that a reader waits for a segment, or does so no more.
    fn await_segment(&mut self, key: (u64, u64), begins: bool) {
        if let Some(segment) = self.segments.get_mut(&key) {
            segment.waiting =
                if begins { segment.waiting.saturating_add(1) } else { segment.waiting.saturating_sub(1) };
        }
    }

    /// The end of the segment that has this byte, which stays for a while: it will be read, perhaps once more.
    fn keep(&mut self, object: u64, offset: u64) -> Option<u64> {
        let before = self.segments.range_mut((object, 0)..=(object, offset)).next_back();
        let (_, segment) = before.filter(|(_, segment)| offset < segment.end)?;
        if let Content::Here { progress, .. } = &mut segment.content {
            *progress = (*progress).max(Progress::InPart);
            segment.used = self.clock;
        }
        Some(segment.end)
    }

    /// Drops segments until `len` more bytes fit; those that were read less than `least` stay.
    fn make_room(&mut self, len: u64, least: Progress) -> bool {
        while self.bytes.saturating_add(len) > self.capacity {
            let clock = self.clock;
            let may_go = |segment: &Segment| match &segment.content {
                _ if segment.waiting > 0 => None,
                Content::Here { progress: Progress::InPart, .. } if least == Progress::InPart => {
                    (clock.saturating_sub(segment.used) > STALE).then_some(Progress::InPart)
                }
                Content::Here { progress, .. } => Some(*progress).filter(|progress| *progress <= least),
                _ => None,
            };
            let candidates = self.segments.iter().filter_map(|(key, segment)| {
                let progress = may_go(segment)?;
                let age = if progress == Progress::Unread { u64::MAX - segment.asked } else { segment.used };
                Some((progress, age, *key))
            });
            match candidates.min() {
                Some((progress, _, key)) => self.remove(key, progress),
                // One request always fits: nobody would ever be served.
                None => return self.bytes == 0,
            }
        }
        true
    }

    fn remove(&mut self, key: (u64, u64), progress: Progress) {
        let Some(Segment { end, group, .. }) = self.segments.remove(&key) else { return };
        self.bytes = self.bytes.saturating_sub(end - key.1);
        let Some((group, object)) = group else { return };
        if progress != Progress::ToItsEnd {
            self.announced.release(group, end - key.1);
        }
        if progress == Progress::Unread {
            self.announced.put_back(group, &object, key.1..end);
        }
    }

    fn land(&mut self, key: (u64, u64), fetched: Result<TransferBuffer, Problem>) {
        let Some(segment) =
            self.segments.get_mut(&key).filter(|segment| matches!(segment.content, Content::Coming))
        else {
            return;
        };
        self.flights = self.flights.saturating_sub(1);
        match fetched {
            Ok(bytes) => {
                segment.content = Content::Here { bytes: Arc::new(bytes), progress: Progress::Unread };
            }
            Err(problem) => {
                let len = segment.end - key.1;
                segment.content = Content::Failed(problem);
                self.bytes = self.bytes.saturating_sub(len);
                if let Some((group, _)) = segment.group.take() {
                    self.announced.release(group, len);
                }
            }
        }
    }
}
