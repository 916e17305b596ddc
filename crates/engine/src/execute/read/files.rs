//! The open files of a source.

use crate::execute::interruption::interrupted;
use crate::placeholder::refuse;
use ckpt_api::{Contents, Error, File, FileId, Input, ReadAt, Result, read_exact_at};
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Files of one side that stay open: systems allow a process a thousand or less, and a checkpoint may have more shards.
pub(crate) const KEPT_OPEN: usize = 64;

/// The files of a source: those of an input, or memory that someone else owns.
#[derive(Debug)]
pub struct Files<'a> {
    origin: Origin<'a>,
    /// Extents of which several tensors are parts, and whose checksums were right.
    verified: Mutex<HashSet<Place>>,
    /// Observers of the bytes that streams hand out.
    observer: OnceLock<Observer>,
    /// Set from outside to stop all reading.
    canceled: Option<Arc<AtomicBool>>,
}

/// A function that is called with numbers of bytes.
struct Observer(Box<dyn Fn(u64) + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

#[derive(Debug)]
enum Origin<'a> {
    /// Opened when they are first needed, for all threads; some of them stay open.
    Input(Box<Opening>),
    /// A tensor each, by name.
    Memory(Vec<(String, Box<dyn ReadAt + 'a>)>),
}

#[derive(Debug)]
struct Opening {
    input: Input,
    names: Vec<String>,
    open: Vec<OnceLock<File>>,
}

/// File, offset and length of an extent.
pub(super) type Place = (FileId, u64, u64);

impl<'a> Files<'a> {
    pub(crate) fn new(input: &Input, contents: &Contents) -> Arc<Self> {
        Arc::new(Self::named(input, contents.files.clone()))
    }

    pub(crate) fn named(input: &Input, names: Vec<String>) -> Self {
        let open = names.iter().take(KEPT_OPEN).map(|_| OnceLock::new()).collect();
        Self::of(Origin::Input(Box::new(Opening { input: input.clone(), names, open })))
    }

    /// Tensors in memory, each of which is a file.
    pub(crate) fn memory(tensors: Vec<(String, Box<dyn ReadAt + 'a>)>) -> Self {
        Self::of(Origin::Memory(tensors))
    }

    fn of(origin: Origin<'a>) -> Self {
        Files { origin, verified: Mutex::default(), observer: OnceLock::new(), canceled: None }
    }

    /// Reports to `observer` all bytes that streams hand out from now on, unless there is an observer already.
    pub(crate) fn observe(&self, observer: Box<dyn Fn(u64) + Send + Sync>) {
        let _ = self.observer.set(Observer(observer));
    }

    /// The same files, opened anew, whose streams fail once `flag` is set.
    pub(crate) fn cancelable(input: &Input, contents: &Contents, flag: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Files { canceled: Some(flag), ..Self::named(input, contents.files.clone()) })
    }

    /// Reports bytes to the observer.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if reading was canceled.
    pub(super) fn handed_out(&self, bytes: usize) -> Result<()> {
        if let Some(Observer(tell)) = self.observer.get() {
            tell(bytes as u64);
        }
        match &self.canceled {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(interrupted()),
            _ => Ok(()),
        }
    }

    pub(super) fn is_verified(&self, place: Place) -> bool {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).contains(&place)
    }

    pub(super) fn set_verified(&self, place: Place) {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert(place);
    }

    /// Whether they are where reading ahead pays: not on this machine.
    pub(super) fn are_far(&self) -> bool {
        matches!(&self.origin, Origin::Input(opening) if opening.input.directory().is_none())
    }

    /// Announces ranges of a file that will be read.
    ///
    /// # Errors
    /// Those of opening it.
    pub(super) fn will_read(&self, id: FileId, ranges: &[Range<u64>]) -> Result<()> {
        if let Handle::File(file) = self.file(id)? {
            file.will_read(ranges);
        }
        Ok(())
    }

    pub(crate) fn file(&self, id: FileId) -> Result<Handle<'_>> {
        let missing = || Error::defect("the source has no such file").found(id.0.to_string());
        match &self.origin {
            Origin::Memory(tensors) => {
                let (name, bytes) = tensors.get(id.0).ok_or_else(missing)?;
                Ok(Handle::Memory { name, bytes: &**bytes })
            }
            Origin::Input(opening) => {
                let Opening { input, names, open } = &**opening;
                let slot = open.get(id.0);
                if let Some(file) = slot.and_then(OnceLock::get) {
                    return Ok(Handle::File(file.clone()));
                }
                let file = input.file(names.get(id.0).ok_or_else(missing)?)?;
                // Far away, looking at it is a request of its own.
                if input.directory().is_some() {
                    refuse(&file)?;
                }
                Ok(Handle::File(slot.map_or(&file, |slot| slot.get_or_init(|| file.clone())).clone()))
            }
        }
    }
}

/// Numbers that are computed from stored ones, as bytes.
pub(crate) trait ComputedNumbers: fmt::Debug + Send + Sync {
    /// What errors call the file of the stored numbers.
    fn name(&self) -> &str;

    /// Fills `out` with the bytes of computed numbers from byte `offset` on.
    ///
    /// # Errors
    /// As [`Handle::read_at`]; [`ckpt_api::Kind::Lossy`] for a number that becomes too large for 32-bit floats.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;
}

/// An open file of a source.
#[derive(Debug)]
pub(crate) enum Handle<'a> {
    File(File),
    Memory {
        name: &'a str,
        bytes: &'a (dyn ReadAt + 'a),
    },
    /// Numbers that are computed from stored ones.
    Computed(Arc<dyn ComputedNumbers + 'a>),
}

impl Handle<'_> {
    /// What errors call it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Handle::File(file) => file.name(),
            Handle::Memory { name, .. } => name,
            Handle::Computed(computing) => computing.name(),
        }
    }

    /// The file of this machine that holds the bytes.
    pub(crate) fn as_file(&self) -> Option<&std::fs::File> {
        match self {
            Handle::File(file) => file.as_file(),
            Handle::Memory { .. } | Handle::Computed(_) => None,
        }
    }

    /// Whether the system holds the byte at `offset` in memory; `false` if it does not tell.
    pub(super) fn is_in_memory(&self, offset: u64) -> bool {
        self.as_file().is_some_and(|file| is_in_memory(file, offset))
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Handle::File(file) => file.read_at(offset, buffer),
            Handle::Computed(computing) => computing.read_at(offset, buffer),
            Handle::Memory { name, bytes } => read_exact_at(*bytes, offset, buffer).map_err(|error| {
                let error = match error.kind() {
                    io::ErrorKind::UnexpectedEof => Error::usage("the tensor has become shorter"),
                    _ => Error::io("cannot read the tensor", error),
                };
                error.tensor(*name).offset(offset)
            }),
        }
    }
}

#[cfg(target_os = "linux")]
fn is_in_memory(file: &std::fs::File, offset: u64) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    /// What `statfs` calls the file system whose files are in memory, which does not know the flag.
    const TMPFS: u32 = 0x0102_1994;
    let mut byte = [0];
    match preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
        Ok(read) => read > 0,
        Err(Errno::OPNOTSUPP) => {
            rustix::fs::fstatfs(file).is_ok_and(|system| u32::try_from(system.f_type) == Ok(TMPFS))
        }
        Err(_) => false,
    }
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &std::fs::File, _: u64) -> bool {
    false
}
