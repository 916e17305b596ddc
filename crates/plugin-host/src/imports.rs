//! What a module can ask for: the files of one input.

use ckpt_api::{Error, File, Input, Limit, Limits, Result, StoredBytes};
use ckpt_forms::{ErrorForm, encode};
use std::fmt;
use std::io::Read;
use wasmi::{Caller, Extern, Linker, StoreLimits, ValType};

/// The module that imports are from.
pub(crate) const MODULE: &str = "ckpt";

const I32: ValType = ValType::I32;
const I64: ValType = ValType::I64;

/// The names and types of the imports: parameters and result.
pub(crate) const TYPES: [(&str, &[ValType], &[ValType]); 6] = [
    ("list", &[I32, I32, I32], &[I64]),
    ("open", &[I32, I32], &[I64]),
    ("read", &[I32, I64, I32, I32], &[]),
    ("take", &[I32], &[]),
    ("pull", &[I32, I32], &[I32]),
    ("numbers", &[I64, I32, I32], &[I64]),
];

/// Steps that a call costs, and bytes that are moved for one step.
const CALL_STEPS: u64 = 200;
const BYTES_PER_STEP: u64 = 16;
/// Bytes of a name that is asked for.
const MOST_NAME: usize = 64 << 10;

/// What an instance has beside its memory.
#[derive(Debug)]
pub(crate) struct Host {
    /// `None` while it decodes or writes: then there are no files.
    pub(crate) input: Option<Input>,
    pub(crate) limits: Limits,
    pub(crate) store_limits: StoreLimits,
    files: Vec<File>,
    answer: Vec<u8>,
    pub(crate) stored: Option<Stored>,
}

/// The stored bytes of a stream.
pub(crate) struct Stored(pub(crate) StoredBytes);

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stored({} bytes)", self.0.len())
    }
}

impl Host {
    pub(crate) fn new(input: Option<Input>, limits: Limits, store_limits: StoreLimits) -> Self {
        Host { input, limits, store_limits, files: Vec::new(), answer: Vec::new(), stored: None }
    }

    fn input(&self) -> Result<&Input> {
        self.input
            .as_ref()
            .ok_or_else(|| Error::unsupported("a plugin asks for a file while it has no input"))
    }

    fn names(&self, directory: &str, what: u32) -> Result<Vec<String>> {
        match what {
            0 => self.input()?.list(directory),
            1 => self.input()?.directories(directory),
            _ => Err(misuse("a kind of list that does not exist")),
        }
    }

    fn open(&mut self, name: &str) -> Result<(u32, u64, Option<String>)> {
        let file = self.input()?.file(name)?;
        self.limits.check(Limit::Files, self.files.len() as u64 + 1)?;
        let number = u32::try_from(self.files.len()).map_err(|_| misuse("too many files"))?;
        let opened = (number, file.len(), file.identity());
        self.files.push(file);
        Ok(opened)
    }

    /// Keeps an answer until the module takes it; returns its length.
    pub(crate) fn keep<T: serde::Serialize>(&mut self, answer: Result<T>) -> Result<u64> {
        self.answer = encode(&answer.map_err(|error| ErrorForm::from(&error)))?;
        Ok(self.answer.len() as u64)
    }
}

/// An error of the host that ends a call.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Error);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl wasmi::errors::HostError for Failure {}

/// What a module asks for while it prepares tensors: its call stops until the program answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) tensor: u64,
    /// An address.
    pub(crate) to: u32,
    /// The most values at once.
    pub(crate) len: u32,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "values of tensor {} are wanted", self.tensor)
    }
}

impl wasmi::errors::HostError for Wanted {}

/// The error for a module that does not keep the interface.
pub(crate) fn misuse(what: &str) -> Error {
    Error::unsupported("the plugin does not keep the interface").found(what.to_owned())
}

/// Adds the imports to a linker.
pub(crate) fn link(linker: &mut Linker<Host>) -> Result<(), wasmi::Error> {
    linker.func_wrap(MODULE, "list", |mut caller: Caller<'_, Host>, name: u32, len: u32, what: u32| {
        ended(list(&mut caller, name, len, what))
    })?;
    linker.func_wrap(MODULE, "open", |mut caller: Caller<'_, Host>, name: u32, len: u32| {
        ended(open(&mut caller, name, len))
    })?;
    linker.func_wrap(
        MODULE,
        "read",
        |mut caller: Caller<'_, Host>, file: u32, offset: u64, to: u32, len: u32| {
            ended(read(&mut caller, file, offset, to, len))
        },
    )?;
    linker.func_wrap(MODULE, "take", |mut caller: Caller<'_, Host>, to: u32| ended(take(&mut caller, to)))?;
    linker.func_wrap(MODULE, "pull", |mut caller: Caller<'_, Host>, to: u32, len: u32| {
        ended(pull(&mut caller, to, len))
    })?;
    linker.func_wrap(
        MODULE,
        "numbers",
        |mut caller: Caller<'_, Host>, tensor: u64, to: u32, len: u32| -> Result<i64, wasmi::Error> {
            ended(charge(&mut caller, u64::from(len).saturating_mul(4)))?;
            Err(wasmi::Error::host(Wanted { tensor, to, len }))
        },
    )?;
    Ok(())
}

fn ended<T>(result: Result<T>) -> Result<T, wasmi::Error> {
    result.map_err(|error| wasmi::Error::host(Failure(error)))
}

fn list(caller: &mut Caller<'_, Host>, name: u32, len: u32, what: u32) -> Result<u64> {
    let name = name_at(caller, name, len)?;
    if what == 2 {
        charge(caller, 0)?;
        return Ok(caller.data().input()?.has_file(&name).into());
    }
    let names = caller.data().names(&name, what);
    let bytes = names.iter().flatten().fold(0, |sum: u64, name| sum.saturating_add(name.len() as u64 + 32));
    charge(caller, bytes)?;
    caller.data_mut().keep(names)
}

fn open(caller: &mut Caller<'_, Host>, name: u32, len: u32) -> Result<u64> {
    let name = name_at(caller, name, len)?;
    charge(caller, 0)?;
    let opened = caller.data_mut().open(&name);
    caller.data_mut().keep(opened)
}

fn read(caller: &mut Caller<'_, Host>, file: u32, offset: u64, to: u32, len: u32) -> Result<()> {
    charge(caller, len.into())?;
    let memory = memory(caller)?;
    let (data, host) = memory.data_and_store_mut(caller);
    let to = range(data, to, len)?;
    let file = usize::try_from(file).ok().and_then(|file| host.files.get(file));
    file.ok_or_else(|| misuse("a file that is not open"))?.read_at(offset, to)
}

fn take(caller: &mut Caller<'_, Host>, to: u32) -> Result<()> {
    let memory = memory(caller)?;
    let (data, host) = memory.data_and_store_mut(caller);
    let answer = std::mem::take(&mut host.answer);
    let len = u32::try_from(answer.len()).map_err(|_| misuse("an answer that is too long"))?;
    range(data, to, len)?.copy_from_slice(&answer);
    Ok(())
}

fn pull(caller: &mut Caller<'_, Host>, to: u32, len: u32) -> Result<u32> {
    charge(caller, len.into())?;
    let memory = memory(caller)?;
    let (data, host) = memory.data_and_store_mut(caller);
    let to = range(data, to, len)?;
    let stored = host.stored.as_mut().ok_or_else(|| misuse("stored bytes while no stream is decoded"))?;
    let read = stored.0.read(to).map_err(|error| {
        error.downcast::<Error>().unwrap_or_else(|error| Error::io("cannot read the stored bytes", error))
    })?;
    u32::try_from(read).map_err(|_| misuse("too many bytes at once"))
}

/// Takes the steps of a call that moves so many bytes.
fn charge(caller: &mut Caller<'_, Host>, bytes: u64) -> Result<()> {
    let steps = CALL_STEPS.saturating_add(bytes / BYTES_PER_STEP);
    let fuel =
        |error: wasmi::Error| Error::defect("the steps of a plugin are not counted").found(error.to_string());
    let left = caller.get_fuel().map_err(fuel)?.checked_sub(steps);
    let most = caller.data().limits.get(Limit::PluginSteps);
    let left = left.ok_or_else(|| too_many_steps(most))?;
    caller.set_fuel(left).map_err(fuel)
}

/// The error for a call that takes more than `most` steps.
pub(crate) fn too_many_steps(most: u64) -> Error {
    exceeded("the plugin takes too many steps", Limit::PluginSteps, most)
}

/// The error for a call that needs more than `most` bytes of memory.
pub(crate) fn too_much_memory(most: u64) -> Error {
    exceeded("the plugin needs too much memory", Limit::PluginMemory, most)
}

fn exceeded(message: &str, limit: Limit, most: u64) -> Error {
    let raised = format!("{}={}", limit.name(), most.saturating_mul(4).max(1));
    Error::limit(message).expected(format!("at most {most} ({})", limit.name())).help(ckpt_api::text![
        "the plugin may be broken; if you trust it, allow more with ",
        ckpt_api::Setting::LIMIT.of(&raised)
    ])
}

fn memory(caller: &Caller<'_, Host>) -> Result<wasmi::Memory> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory);
    memory.ok_or_else(|| misuse("no memory"))
}

/// Bytes of a module's memory.
fn range(data: &mut [u8], start: u32, len: u32) -> Result<&mut [u8]> {
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
    let range = end.and_then(|end| data.get_mut(start..end));
    range.ok_or_else(|| misuse("an address outside its memory"))
}

fn name_at(caller: &Caller<'_, Host>, start: u32, len: u32) -> Result<String> {
    let memory = memory(caller)?;
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let end =
        usize::try_from(len).ok().filter(|len| *len <= MOST_NAME).and_then(|len| start.checked_add(len));
    let bytes = end.and_then(|end| memory.data(caller).get(start..end));
    let bytes = bytes.ok_or_else(|| misuse("a name outside its memory, or of more than 64 KiB"))?;
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| misuse("a name that is no UTF-8"))
}
