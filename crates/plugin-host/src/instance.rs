//! Instances of modules, and calls of their functions.

use super::imports::{Failure, Host, Wanted, misuse, too_many_steps, too_much_memory};
use super::module::{Module, engine};
use ckpt_api::{Error, Input, Kind, Limit, Limits, Result};
use ckpt_forms::{ErrorForm, Function, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use wasmi::errors::{ErrorKind, InstantiationError, MemoryError};
use wasmi::{Memory, Store, StoreLimitsBuilder, TrapCode, TypedFunc};

/// Entries of a module's tables, at most.
const MOST_ENTRIES: usize = 1 << 16;
/// Steps to learn why a module stopped.
const PROBLEM_STEPS: u64 = 1_000_000;
/// Bytes of that text.
const MOST_PROBLEM: usize = 1000;

/// A module with memory of its own.
#[derive(Debug)]
pub(crate) struct Instance {
    module: Arc<Module>,
    pub(crate) store: Store<Host>,
    pub(crate) memory: Memory,
    reserve: TypedFunc<u32, u32>,
    call: TypedFunc<(u32, u32), u64>,
    /// Of a module that prepares tensors.
    pub(crate) prepare: Option<TypedFunc<u32, u64>>,
    problem: Option<TypedFunc<(), u64>>,
}

impl Instance {
    pub(crate) fn new(module: &Arc<Module>, input: Option<Input>, limits: &Limits) -> Result<Self> {
        let memory = usize::try_from(limits.get(Limit::PluginMemory)).unwrap_or(usize::MAX);
        let store_limits = StoreLimitsBuilder::new()
            .memory_size(memory)
            .table_elements(MOST_ENTRIES)
            .instances(1)
            .memories(1)
            .tables(4)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(engine(), Host::new(input, limits.clone(), store_limits));
        store.limiter(|host| &mut host.store_limits);
        let failed = |error: wasmi::Error| named(module, ended(&error, limits));
        store.set_fuel(limits.get(Limit::PluginSteps)).map_err(failed)?;
        let instance = module.linker.instantiate_and_start(&mut store, &module.module).map_err(failed)?;
        let memory = instance.get_memory(&store, "memory");
        let memory = memory.ok_or_else(|| named(module, misuse("no memory")))?;
        let version: TypedFunc<(), u32> = instance.get_typed_func(&store, "ckpt_version").map_err(failed)?;
        let version = version.call(&mut store, ()).map_err(failed)?;
        if version != ckpt_plugin::VERSION {
            return Err(named(module, of_another_version(version)));
        }
        Ok(Instance {
            memory,
            reserve: instance.get_typed_func(&store, "ckpt_reserve").map_err(failed)?,
            call: instance.get_typed_func(&store, "ckpt_call").map_err(failed)?,
            prepare: instance.get_typed_func(&store, "ckpt_prepare").ok(),
            problem: instance.get_typed_func(&store, "ckpt_problem").ok(),
            module: Arc::clone(module),
            store,
        })
    }

    /// Calls a function, and returns its result. An error names the plugin, unless it is one of the input that the plugin
    /// found.
    pub(crate) fn call<A: DeserializeOwned>(
        &mut self,
        function: Function,
        request: &impl Serialize,
    ) -> Result<A> {
        let answer = self.answer(function, request);
        self.finished(function, answer)
    }

    /// The result of a function, or the error with the plugin that is to blame.
    pub(crate) fn finished<A>(
        &self,
        function: Function,
        answer: Result<Result<A, ErrorForm>, Ended>,
    ) -> Result<A> {
        let answer = answer.map_err(|error| match error {
            Ended::Host(error) => error,
            Ended::Plugin(error) => named(&self.module, error.field(function.name())),
        })?;
        answer.map_err(|form| {
            let error = Error::from(form);
            // Only the program's own code can have a defect of the program.
            match error.kind() {
                Kind::Defect => named(
                    &self.module,
                    Error::unsupported("the plugin has a defect")
                        .field(function.name())
                        .found(error.to_string()),
                ),
                _ => error,
            }
        })
    }

    fn answer<A: DeserializeOwned>(
        &mut self,
        function: Function,
        request: &impl Serialize,
    ) -> Result<A, Ended> {
        let len = self.send(request)?;
        let called = self.call.call(&mut self.store, (function.number(), len));
        let place = called.map_err(|error| self.stopped(&error))?;
        self.receive(place)
    }

    /// Brings a message to the module's memory, and lets the steps begin; returns its length.
    pub(crate) fn send(&mut self, request: &impl Serialize) -> Result<u32, Ended> {
        let request = encode(request)?;
        let len =
            u32::try_from(request.len()).map_err(|_| Error::limit("the message to a plugin is too long"))?;
        let steps = self.store.data().limits.get(Limit::PluginSteps);
        self.store
            .set_fuel(steps)
            .map_err(|error| Error::defect("steps are not counted").found(error.to_string()))?;
        let at = self.reserve.call(&mut self.store, len).map_err(|error| self.stopped(&error))?;
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let outside = |_| misuse("an address outside its memory");
        self.memory.write(&mut self.store, at, &request).map_err(outside)?;
        Ok(len)
    }

    /// The answer at a place that the module states.
    pub(crate) fn receive<A: DeserializeOwned>(&self, place: u64) -> Result<A, Ended> {
        let bytes = bytes_at(self.memory.data(&self.store), place)?;
        self.store.data().limits.check(Limit::HeaderBytes, bytes.len() as u64)?;
        Ok(decode(bytes)?)
    }

    /// Why a call did not return.
    pub(crate) fn stopped(&mut self, error: &wasmi::Error) -> Ended {
        if error.downcast_ref::<Wanted>().is_some() {
            return Ended::Plugin(misuse("values while it prepares no tensors"));
        }
        if let Some(Failure(error)) = error.downcast_ref::<Failure>() {
            let error = error.without_cause();
            return match error.kind() {
                // Of the file, and not of the plugin.
                Kind::Io | Kind::Corrupt => Ended::Host(error),
                _ => Ended::Plugin(error),
            };
        }
        let ended = ended(error, &self.store.data().limits);
        Ended::Plugin(match (error.as_trap_code(), self.problem()) {
            (Some(TrapCode::UnreachableCodeReached), Some(text)) => ended.found(text),
            _ => ended,
        })
    }

    pub(crate) fn out_of_steps(&self) -> Error {
        too_many_steps(self.store.data().limits.get(Limit::PluginSteps))
    }

    /// What the module says why it stopped.
    fn problem(&mut self) -> Option<String> {
        let problem = self.problem?;
        self.store.set_fuel(PROBLEM_STEPS).ok()?;
        let place = problem.call(&mut self.store, ()).ok()?;
        let bytes = bytes_at(self.memory.data(&self.store), place).ok()?;
        let bytes = bytes.get(..bytes.len().min(MOST_PROBLEM)).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes).replace('\n', " ");
        (!text.is_empty()).then_some(text)
    }
}

/// Why there is no answer.
pub(crate) enum Ended {
    /// The input cannot be read.
    Host(Error),
    Plugin(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Ended::Plugin(error)
    }
}

/// The bytes at an address in the upper half, of a length in the lower one.
fn bytes_at(data: &[u8], place: u64) -> Result<&[u8]> {
    let (start, len) = (place >> 32, place & u64::from(u32::MAX));
    let range = usize::try_from(start).ok().zip(usize::try_from(len).ok());
    let bytes = range.and_then(|(start, len)| data.get(start..start.checked_add(len)?));
    bytes.ok_or_else(|| misuse("an answer outside its memory"))
}

/// The error for what the interpreter reports.
fn ended(error: &wasmi::Error, limits: &Limits) -> Error {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => too_many_steps(limits.get(Limit::PluginSteps)),
        Some(TrapCode::GrowthOperationLimited) => too_much_memory(limits.get(Limit::PluginMemory)),
        Some(TrapCode::StackOverflow) => {
            Error::limit("the plugin calls functions within each other too deeply")
        }
        Some(code) => {
            Error::unsupported("the plugin stopped").found(error.to_string()).expected(match code {
                TrapCode::UnreachableCodeReached => "a result, or an error",
                _ => "instructions that can be executed",
            })
        }
        None if is_memory_denied(error) => too_much_memory(limits.get(Limit::PluginMemory)),
        None => Error::unsupported("the plugin cannot be run").found(error.to_string()),
    }
}

/// Whether a module states more memory than it may have.
fn is_memory_denied(error: &wasmi::Error) -> bool {
    let ErrorKind::Instantiation(InstantiationError::FailedToInstantiateMemory(error)) = error.kind() else {
        return false;
    };
    matches!(error, MemoryError::ResourceLimiterDeniedAllocation)
}

fn of_another_version(version: u32) -> Error {
    let help = match version > ckpt_plugin::VERSION {
        true => "install a newer ckpt, or an older version of the plugin",
        false => "ask the plugin's author for one that is built with a newer ckpt-plugin",
    };
    Error::unsupported("the plugin is built for another version of ckpt")
        .found(format!("version {version} of the interface"))
        .expected(format!("version {}", ckpt_plugin::VERSION))
        .help(help)
}

/// The error with the plugin that is to blame.
pub(crate) fn named(module: &Module, error: Error) -> Error {
    error.file(&module.shown)
}
