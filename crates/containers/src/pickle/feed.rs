//! The bytes of a pickle, read from a file as far as the machine gets.

use ckpt_api::fields::{Bytes, Parsed};
use ckpt_api::{Error, File, Limit, Limits, Result};
use nom::Err;

/// Bytes of the first read; each further one reads as many as there are, up to `MOST`.
const FIRST: u64 = 4 << 10;
const MOST: u64 = 1 << 20;
/// The same where bytes are left out, and the shortest that are.
const MOST_BESIDE: u64 = 32 << 10;
const LEAST_LEFT_OUT: u64 = 4 << 10;

/// A range of a file that begins with a pickle. What follows the pickle is read ahead by at most 1 MiB.
pub struct Feed<'a> {
    file: &'a File,
    limits: &'a Limits,
    /// Offset of the pickle in the file.
    start: u64,
    /// Offset at which the range ends.
    end: u64,
    bytes: Vec<u8>,
    /// Bytes that were taken.
    at: usize,
    /// From which length on bytes are left out.
    leaves_out: u64,
    gaps: Vec<Gap>,
}

/// Bytes of a pickle that are not held.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// How many bytes are held before them.
    at: u32,
    /// Bytes that are left out up to here, these included.
    left_out: u64,
}

/// What of a pickle is held.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    gaps: Vec<Gap>,
}

impl Held {
    /// Where the held byte of this index is in the pickle.
    pub(super) fn offset(&self, at: u32) -> u64 {
        let before = self.gaps.partition_point(|gap| gap.at <= at);
        let left_out =
            before.checked_sub(1).and_then(|last| self.gaps.get(last)).map_or(0, |gap| gap.left_out);
        left_out.saturating_add(at.into())
    }

    /// Bytes that are not held.
    pub(super) fn left_out(&self) -> u64 {
        self.gaps.last().map_or(0, |gap| gap.left_out)
    }
}

impl<'a> Feed<'a> {
    /// The bytes of a file from `start` on, before `end`.
    pub fn new(file: &'a File, start: u64, end: u64, limits: &'a Limits) -> Self {
        let end = end.min(file.len());
        Feed {
            file,
            limits,
            start: start.min(end),
            end,
            bytes: Vec::new(),
            at: 0,
            leaves_out: u64::MAX,
            gaps: Vec::new(),
        }
    }

    /// The same, which reads no `bytes` of the pickle that are so long or longer: they become [`super::Value::Apart`]. Memory
    /// is then that of the rest of the pickle.
    pub fn leaving_out(self, len: u64) -> Self {
        // Bytes that are read ahead and then left out are moved: few, and not often.
        Feed { leaves_out: len.max(LEAST_LEFT_OUT), ..self }
    }

    /// The same, of a range that a pickle fills: one that is too long is refused before any of it is read.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`].
    pub fn whole(file: &'a File, start: u64, end: u64, limits: &'a Limits) -> Result<Self> {
        let mut feed = Feed::new(file, start, end, limits);
        let len = feed.end.saturating_sub(feed.start);
        limits.check(Limit::HeaderBytes, len).map_err(|error| error.file(file.name()).offset(start))?;
        feed.reserve(len)?;
        Ok(feed)
    }

    /// Offset in the file of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.start.saturating_add(self.left_out()).saturating_add(self.at as u64)
    }

    /// Bytes of the range that were not taken.
    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.position())
    }

    /// Bytes taken so far.
    pub(crate) fn taken(&self) -> usize {
        self.at
    }

    /// Runs a parser on the bytes that were not taken, and takes those that it parsed.
    #[inline]
    pub(crate) fn parse<T>(&mut self, mut parser: impl FnMut(Bytes<'_>) -> Parsed<'_, T>) -> Result<T> {
        loop {
            let window = self.window();
            match parser(window) {
                Ok((rest, value)) => {
                    self.at += window.as_slice().len().saturating_sub(rest.as_slice().len());
                    return Ok(value);
                }
                Err(error) => self.grow(error)?,
            }
        }
    }

    /// The bytes that were not taken. Their range has no end here: `short` makes the error for one that ends too early.
    #[inline]
    fn window(&self) -> Bytes<'_> {
        Bytes::window(self.bytes.get(self.at..).unwrap_or_default(), self.position(), u64::MAX)
    }

    /// Reads the bytes that a parser needs; returns any other error that it has.
    #[cold]
    fn grow(&mut self, error: Err<Error>) -> Result<()> {
        let len = match error {
            Err::Incomplete(missing) => self.window().needed(missing),
            Err::Error(error) | Err::Failure(error) => return Err(error.file(self.file.name())),
        };
        self.require(len)
    }

    /// Reads until there are so many bytes that were not taken.
    fn require(&mut self, len: u64) -> Result<()> {
        let end = (self.at as u64).checked_add(len).ok_or_else(|| self.short(len))?;
        if end > self.bytes.len() as u64 {
            self.fill(end)?;
        }
        if end > self.bytes.len() as u64 { Err(self.short(len)) } else { Ok(()) }
    }

    /// Takes `len` bytes and returns their range in [`Feed::into_held`]: the first, and how many.
    pub(crate) fn take(&mut self, len: u64) -> Result<(u32, u32)> {
        self.require(len)?;
        let at = self.at;
        self.at += usize::try_from(len).map_err(|_| self.short(len))?;
        let too_large = |_| Error::limit("the pickle has more than 4 GiB");
        Ok((u32::try_from(at).map_err(too_large)?, u32::try_from(len).map_err(too_large)?))
    }

    /// Whether `bytes` of this length are left out.
    pub(crate) fn is_left_out(&self, len: u64) -> bool {
        len >= self.leaves_out
    }

    /// Leaves out `len` bytes; returns their offset in the pickle, and how many they are.
    pub(crate) fn leave_out(&mut self, len: u64) -> Result<(u64, u64)> {
        if len > self.left() {
            return Err(self.short(len));
        }
        let offset = self.position().saturating_sub(self.start);
        let ahead = self.bytes.len().saturating_sub(self.at);
        let ahead = usize::try_from(len).map_or(ahead, |len| len.min(ahead));
        self.bytes.drain(self.at..self.at + ahead);
        let at = u32::try_from(self.at).map_err(|_| Error::limit("the pickle has more than 4 GiB"))?;
        self.gaps.push(Gap { at, left_out: self.left_out().saturating_add(len) });
        Ok((offset, len))
    }

    fn left_out(&self) -> u64 {
        self.gaps.last().map_or(0, |gap| gap.left_out)
    }

    /// Takes a line and its end, which the range returned does not include.
    pub(crate) fn line(&mut self) -> Result<(u32, u32)> {
        let mut seen = self.at;
        loop {
            let rest = self.bytes.get(seen..).unwrap_or_default();
            if let Some(len) = rest.iter().position(|byte| *byte == b'\n') {
                let (at, len) = self.take((seen - self.at + len + 1) as u64)?;
                return Ok((at, len.saturating_sub(1)));
            }
            seen = self.bytes.len();
            self.fill(seen as u64 + 1)?;
            if self.bytes.len() == seen {
                return Err(self.short(1).expected("a line and its end"));
            }
        }
    }

    /// The bytes of a range that was taken.
    pub(crate) fn bytes(&self, (at, len): (u32, u32)) -> &[u8] {
        let rest = self.bytes.get(at as usize..).unwrap_or_default();
        rest.get(..len as usize).unwrap_or_default()
    }

    /// All bytes up to the last one that was taken.
    pub(super) fn into_held(mut self) -> Held {
        self.bytes.truncate(self.at);
        self.bytes.shrink_to_fit();
        Held { bytes: self.bytes, gaps: self.gaps }
    }

    /// Reads until there are `wanted` bytes, if the range has so many.
    fn fill(&mut self, wanted: u64) -> Result<()> {
        while (self.bytes.len() as u64) < wanted {
            let have = self.bytes.len() as u64;
            let at = self.start.saturating_add(self.left_out()).saturating_add(have);
            let left = self.end.saturating_sub(at);
            // Nothing is read for a length that the range does not have.
            if left < wanted - have {
                return Ok(());
            }
            self.limits.check(Limit::HeaderBytes, wanted).map_err(|error| error.file(self.file.name()))?;
            let most = if self.leaves_out == u64::MAX { MOST } else { MOST_BESIDE };
            let size = have.clamp(FIRST, most).max(wanted - have).min(left);
            self.reserve(size)?;
            let (held, room) = (self.bytes.len(), self.bytes.len() + size as usize);
            self.bytes.resize(room, 0);
            self.file.read_at(at, self.bytes.get_mut(held..).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Makes room for so many more bytes.
    fn reserve(&mut self, more: u64) -> Result<()> {
        let no_memory = || Error::limit("there is no memory for the pickle").file(self.file.name());
        let more = usize::try_from(more).map_err(|_| no_memory())?;
        self.bytes.try_reserve_exact(more).map_err(|_| no_memory())
    }

    fn short(&self, wanted: u64) -> Error {
        Error::corrupt("the pickle ends too early")
            .file(self.file.name())
            .offset(self.position())
            .found(ckpt_api::count(self.left(), "byte"))
            .expected(ckpt_api::count(wanted, "byte"))
            .help("the file is cut short or damaged: copy it again")
    }
}
