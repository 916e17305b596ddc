//! Streams of decoded bytes, whose errors say what is damaged.

use super::section::{Section, within};
use crate::{DecodeStream, Decoder, Error, Parameters, Result, StoredBytes};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The decoded bytes of a section.
pub(super) struct Stream {
    decoder: &'static Decoder,
    decoded: Box<dyn DecodeStream>,
    /// Stored bytes that were read so far.
    read: Arc<AtomicU64>,
    failure: Failure,
}

/// Why the file could not be read: decoders pass on no more than that it could not.
type Failure = Arc<Mutex<Option<Error>>>;

impl Stream {
    /// Starts to decode the bytes of a section to `total` bytes.
    pub(super) fn start(
        decoder: &'static Decoder,
        parameters: &Parameters,
        section: &Section,
        total: u64,
    ) -> Result<Self> {
        let (read, failure) = (Arc::default(), Failure::default());
        let stored = Stored { section: section.clone(), read: Arc::clone(&read), failure: failure.clone() };
        let decoded = decoder
            .start(StoredBytes::new(stored, section.len), parameters, total)
            .map_err(|error| taken(&failure).unwrap_or_else(|| blame(decoder, error)))?;
        Ok(Stream { decoder, decoded, read, failure })
    }

    /// Fills `out`; returns whether there were so many bytes.
    pub(super) fn fill(&mut self, mut out: &mut [u8]) -> Result<bool> {
        while !out.is_empty() {
            match self.decoded.read(out) {
                Ok(0) => return Ok(false),
                Ok(read) => out = out.get_mut(read..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.blame(error)),
            }
        }
        Ok(true)
    }

    /// After the end: how many of the stored bytes were decoded.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for a checksum that differs.
    pub(super) fn finish(&mut self) -> Result<u64> {
        match self.decoded.finish() {
            Ok(decoded) => Ok(decoded.unwrap_or_else(|| self.read.load(Ordering::Relaxed))),
            Err(error) => Err(self.blame(error)),
        }
    }

    fn blame(&self, error: io::Error) -> Error {
        taken(&self.failure).unwrap_or_else(|| blame(self.decoder, error))
    }
}

/// A section, from its first byte to its last.
struct Stored {
    section: Section,
    read: Arc<AtomicU64>,
    failure: Failure,
}

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = self.read.load(Ordering::Relaxed);
        let wanted = within(buffer, self.section.len.saturating_sub(at));
        match self.section.fill(at, wanted) {
            Ok(()) => {
                self.read.store(at.saturating_add(wanted.len() as u64), Ordering::Relaxed);
                Ok(wanted.len())
            }
            Err(error) => {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(io::Error::other("the file cannot be read"))
            }
        }
    }
}

/// The error of a decoder, or the damage that it describes.
pub(super) fn blame(decoder: &Decoder, error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|error| {
        Error::corrupt("the compressed data is damaged")
            .found(error.to_string())
            .expected(format!("bytes of {}", decoder.name()))
            .help("copy the file again, or use another checkpoint")
    })
}

fn taken(failure: &Mutex<Option<Error>>) -> Option<Error> {
    failure.lock().unwrap_or_else(PoisonError::into_inner).take()
}
