//! Bytes of objects that were fetched: what is read next is on its way, and all of it is within a bound.
//!
//! Ranges that were announced are fetched in their order, several at a time. A read that nobody announced fetches a little,
//! and more each time if reads follow each other. What was read to its end goes first when room is needed.

use super::object::{HEAD, Object};
use super::problem::{Failure, Problem};
use super::runtime;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Requests at a time.
const FLIGHTS: usize = 16;
/// The largest request: from 4 × 4 MiB on, one connection's latency of 20 ms does not count.
const LARGEST: u64 = 4 << 20;
/// The smallest.
const SMALLEST: u64 = HEAD;
/// Bytes that are kept if nobody sets another bound.
const USUAL: u64 = FLIGHTS as u64 * LARGEST;
/// Announced ranges that are this close are fetched together.
const GAP: u64 = 64 << 10;
/// Announced ranges that are remembered.
const ANNOUNCED: usize = 1 << 16;
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
    flights: usize,
    announced: VecDeque<(Arc<Object>, Range<u64>)>,
    /// Counts reads.
    clock: u64,
}

#[derive(Debug)]
struct Segment {
    end: u64,
    used: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Coming,
    Here { bytes: Arc<Vec<u8>>, progress: Progress },
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
            announced: VecDeque::new(),
            clock: 0,
        };
        Arc::new(Blocks { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Bounds the bytes that are kept, and returns the bound: as near to `most` as can be.
    pub(super) fn bound(&self, most: u64) -> u64 {
        let mut state = self.lock();
        state.capacity = most.clamp(FLIGHTS as u64 * SMALLEST, USUAL);
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
    pub(super) fn put_head(&self, object: &Object, bytes: Vec<u8>) {
        let len = bytes.len() as u64;
        let mut state = self.lock();
        if len == 0 || !state.make_room(len, Progress::Unread) {
            return;
        }
        let used = state.clock;
        let content = Content::Here { bytes: Arc::new(bytes), progress: Progress::ToItsEnd };
        state.bytes = state.bytes.saturating_add(len);
        state.segments.insert((object.id, 0), Segment { end: len, used, content });
    }

    /// Announces ranges that will be read, in this order.
    pub(super) fn announce(self: &Arc<Self>, object: &Arc<Object>, ranges: &[Range<u64>]) {
        let mut state = self.lock();
        for range in ranges {
            let range = range.start..range.end.min(object.size);
            if range.is_empty() {
                continue;
            }
            let has_room = state.announced.len() < ANNOUNCED;
            match state.announced.back_mut() {
                Some((last, before))
                    if last.id == object.id
                        && range.start >= before.start
                        && range.start <= before.end.saturating_add(GAP) =>
                {
                    before.end = before.end.max(range.end);
                }
                _ if has_room => state.announced.push_back((object.clone(), range)),
                _ => break,
            }
        }
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
                    drop(state);
                    if let (Some(to), Some(from)) = (buffer.get_mut(..len), rest.get(..len)) {
                        to.copy_from_slice(from);
                    }
                    return Ok(len);
                }
                Found::Failed(problem) => return Err(problem),
                Found::Coming => state = self.wait(state),
                Found::Nothing => {
                    let range = state.wanted(object, offset, buffer.len() as u64);
                    if state.make_room(range.end - range.start, Progress::Unread) {
                        state.skip(object.id, &range);
                        self.start(&mut state, object, range);
                    } else {
                        state = self.wait(state);
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
        while state.flights < FLIGHTS {
            let Some((object, range)) = state.next_announced() else { return };
            if !state.make_room(range.end - range.start, Progress::InPart) {
                return;
            }
            state.skip(object.id, &range);
            self.start(state, &object, range);
        }
    }

    /// Fetches a range. Whoever waits for it is woken, whatever becomes of it.
    fn start(self: &Arc<Self>, state: &mut State, object: &Arc<Object>, range: Range<u64>) {
        let key = (object.id, range.start);
        let used = state.clock;
        state.segments.insert(key, Segment { end: range.end, used, content: Content::Coming });
        state.bytes = state.bytes.saturating_add(range.end - range.start);
        state.flights += 1;
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
    fn land(mut self, fetched: Result<Vec<u8>, Problem>) {
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
    Here(Arc<Vec<u8>>, u64),
    Coming,
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
            Content::Coming => Found::Coming,
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
        if let Content::Here { progress, .. } = &mut segment.content {
            *progress =
                if end >= segment.end { Progress::ToItsEnd } else { (*progress).min(Progress::InPart) };
        }
    }

    /// The bytes of one request.
    fn largest(&self) -> u64 {
        (self.capacity / FLIGHTS as u64).clamp(SMALLEST, LARGEST)
    }

    /// What is fetched for a read that nobody announced: more if it follows the last one.
    fn wanted(&self, object: &Object, offset: u64, len: u64) -> Range<u64> {
        let follows = object.last.load(Ordering::Relaxed) == offset;
        let streak =
            if follows { object.streak.load(Ordering::Relaxed).saturating_add(1).min(16) } else { 0 };
        object.streak.store(streak, Ordering::Relaxed);
        let fetched = (SMALLEST << streak).max(len).min(self.largest());
        let end = offset.saturating_add(fetched).min(object.size);
        let end = self.next_start(object.id, offset).map_or(end, |next| end.min(next));
        object.last.store(end, Ordering::Relaxed);
        offset..end
    }

    /// Where the next segment of an object begins.
    fn next_start(&self, object: u64, offset: u64) -> Option<u64> {
        let mut later = self.segments.range((object, offset.saturating_add(1))..=(object, u64::MAX));
        later.next().map(|(key, _)| key.1)
    }

    /// The next request for what was announced and is not there.
    fn next_announced(&mut self) -> Option<(Arc<Object>, Range<u64>)> {
        loop {
            let (object, range) = self.announced.front()?;
            let (object, mut range) = (object.clone(), range.clone());
            while let Some(end) = self.end_of_segment(object.id, range.start).filter(|end| *end > range.start)
            {
                range.start = end;
            }
            if range.start >= range.end {
                self.announced.pop_front();
                continue;
            }
            if let Some(front) = self.announced.front_mut() {
                front.1.start = range.start;
            }
            let end = range.end.min(range.start.saturating_add(self.largest()));
            let end = self.next_start(object.id, range.start).map_or(end, |next| end.min(next));
            return Some((object, range.start..end));
        }
    }

    /// The end of the segment that has this byte.
    fn end_of_segment(&self, object: u64, offset: u64) -> Option<u64> {
        let before = self.segments.range((object, 0)..=(object, offset)).next_back();
        before.map(|(_, segment)| segment.end).filter(|end| offset < *end)
    }

    /// Takes what is being fetched out of what was announced, where it is near.
    fn skip(&mut self, object: u64, range: &Range<u64>) {
        const NEAR: usize = 16;
        let own = self.announced.iter_mut().take(NEAR).filter(|(other, _)| other.id == object);
        for (_, announced) in own {
            if range.contains(&announced.start) {
                announced.start = range.end.min(announced.end);
            }
        }
    }

    /// Drops segments until `len` more bytes fit; those that were read less than `least` stay.
    fn make_room(&mut self, len: u64, least: Progress) -> bool {
        while self.bytes.saturating_add(len) > self.capacity {
            let clock = self.clock;
            let may_go = |segment: &Segment| match &segment.content {
                Content::Here { progress: Progress::InPart, .. } if least == Progress::InPart => {
                    (clock.saturating_sub(segment.used) > STALE).then_some(Progress::InPart)
                }
                Content::Here { progress, .. } => Some(*progress).filter(|progress| *progress <= least),
                _ => None,
            };
            let candidates = self
                .segments
                .iter()
                .filter_map(|(key, segment)| Some((may_go(segment)?, segment.used, *key)));
            match candidates.min() {
                Some((_, _, key)) => {
                    if let Some(segment) = self.segments.remove(&key) {
                        self.bytes = self.bytes.saturating_sub(segment.end - key.1);
                    }
                }
                // One request always fits: nobody would ever be served.
                None => return self.bytes == 0,
            }
        }
        true
    }

    fn land(&mut self, key: (u64, u64), fetched: Result<Vec<u8>, Problem>) {
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
                self.bytes = self.bytes.saturating_sub(segment.end - key.1);
                segment.content = Content::Failed(problem);
            }
        }
    }
}
