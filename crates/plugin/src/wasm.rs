//! The functions of a module: memory that the program writes to, and calls.
#![allow(unsafe_code)]

use super::guest::{Guest, Surroundings};
use ckpt_api::{Codec, Error, ReadAt, ReadStore, Result, StoredBytes, TensorId};
use ckpt_forms::{ErrorForm, Function, decode};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

#[link(wasm_import_module = "ckpt")]
unsafe extern "C" {
    /// Looks at the files beside the input: 0 lists those of a directory, 1 its directories, 2 says whether there is a file of
    /// the name. Returns 1 or 0 for the last; else the length of an answer, for [`take`].
    fn list(name: *const u8, len: usize, what: u32) -> u64;
    /// Opens a file; returns the length of an answer: its number, length and identity.
    fn open(name: *const u8, len: usize) -> u64;
    /// Fills memory with the bytes of an open file. Does not return if it cannot.
    fn read(file: u32, offset: u64, to: *mut u8, len: usize);
    /// Fills memory with the last answer.
    fn take(to: *mut u8);
    /// Fills memory with the next stored bytes of a stream, and returns how many there were.
    fn pull(to: *mut u8, len: usize) -> usize;
    /// Fills memory with at most so many of the next values of a tensor, and returns how many; 0 at the end; the length of an
    /// answer, negated, for an error.
    fn numbers(tensor: u64, to: *mut f32, len: usize) -> i64;
}

/// The message to a function, and that from it: the program reads and writes both.
static REQUEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static GUEST: Mutex<Option<Guest>> = Mutex::new(None);
static PROBLEM: Mutex<String> = Mutex::new(String::new());

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes room for a message of so many bytes; returns its address.
pub fn reserve(len: u32) -> u32 {
    let mut request = lock(&REQUEST);
    request.clear();
    request.resize(len as usize, 0);
    request.as_ptr() as usize as u32
}

/// Calls a function with the message; returns the address of the answer in the upper half, and its length in the lower one.
pub fn call(codec: &'static dyn Codec, version: &'static str, function: u32, len: u32) -> u64 {
    let request = std::mem::take(&mut *lock(&REQUEST));
    let mut guest = lock(&GUEST);
    let guest = guest.get_or_insert_with(|| {
        std::panic::set_hook(Box::new(|panic| *lock(&PROBLEM) = panic.to_string()));
        Guest::new(codec, version)
    });
    let around =
        Surroundings { files: Arc::new(Files), stored: |len| StoredBytes::new(Stored, len), numbers: values };
    let request = request.get(..len as usize).unwrap_or_default();
    let mut answer = lock(&ANSWER);
    *answer = guest.answer(function, request, &around);
    place_of(&answer)
}

/// Prepares tensors, as [`call`] calls other functions.
pub fn prepare(codec: &'static dyn Codec, version: &'static str, len: u32) -> u64 {
    call(codec, version, Function::Prepare.number(), len)
}

/// Values that are asked for at once.
const MOST_VALUES: usize = 64 << 10;

fn values(tensor: TensorId, each: &mut dyn FnMut(&[f32])) -> Result<()> {
    let mut buffer = vec![0.0; MOST_VALUES];
    loop {
        // SAFETY: the buffer has room for that many.
        let count = unsafe { numbers(tensor.0 as u64, buffer.as_mut_ptr(), buffer.len()) };
        match usize::try_from(count) {
            Ok(0) => return Ok(()),
            Ok(count) => each(buffer.get(..count).unwrap_or_default()),
            Err(_) => return answered(count.unsigned_abs()),
        }
    }
}

/// Where the text of a panic is, as [`call`] returns places.
pub fn problem() -> u64 {
    place_of(lock(&PROBLEM).as_bytes())
}

fn place_of(bytes: &[u8]) -> u64 {
    ((bytes.as_ptr() as usize as u64) << 32) | bytes.len() as u64
}

/// The files of the input.
#[derive(Debug)]
struct Files;

fn answered<T: serde::de::DeserializeOwned>(len: u64) -> Result<T> {
    let mut bytes = vec![0; len as usize];
    // SAFETY: the answer has as many bytes as the buffer.
    unsafe { take(bytes.as_mut_ptr()) };
    let answer: Result<T, ErrorForm> = decode(&bytes)?;
    answer.map_err(Error::from)
}

impl Files {
    fn names(directory: &str, what: u32) -> Result<Vec<String>> {
        // SAFETY: the name is that long.
        answered(unsafe { list(directory.as_ptr(), directory.len(), what) })
    }
}

impl ReadStore for Files {
    fn list(&self, directory: &str, _: u64) -> Result<Vec<String>> {
        Files::names(directory, 0)
    }

    fn directories(&self, directory: &str, _: u64) -> Result<Vec<String>> {
        Files::names(directory, 1)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        // SAFETY: the name is that long.
        let (number, len, identity) = answered(unsafe { open(name.as_ptr(), name.len()) })?;
        Ok(Arc::new(HostFile { number, len, identity }))
    }

    fn has(&self, name: &str) -> bool {
        // SAFETY: the name is that long.
        unsafe { list(name.as_ptr(), name.len(), 2) == 1 }
    }

    /// An input that is a directory has no name in a plugin.
    fn has_directory(&self, _: &str) -> bool {
        false
    }
}

/// A file that the program has open.
#[derive(Debug)]
struct HostFile {
    number: u32,
    len: u64,
    identity: Option<String>,
}

impl ReadAt for HostFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        if len > 0 {
            // SAFETY: the buffer has at least that many bytes.
            unsafe { read(self.number, offset, buffer.as_mut_ptr(), len) };
        }
        Ok(len)
    }

    fn identity(&self) -> Option<String> {
        self.identity.clone()
    }
}

/// The stored bytes of the stream that is decoded.
struct Stored;

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer has that many bytes.
        let len = unsafe { pull(buffer.as_mut_ptr(), buffer.len()) };
        Ok(len.min(buffer.len()))
    }
}
