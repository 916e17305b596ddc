//! Modules: parsed, validated, and with the right functions, before anything in them runs.

use super::imports;
use ckpt_api::{Error, Limit, Limits, Result};
use sha2::{Digest, Sha256};
use std::sync::OnceLock;
use wasmi::{Config, EnforcedLimits, Engine, ExternType, Linker, ValType};

/// Bytes of the stack of an instance, and calls within each other.
const MOST_STACK: usize = 4 << 20;
const MOST_CALLS: usize = 10_000;

/// A module whose functions have the right types.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) module: wasmi::Module,
    pub(crate) linker: Linker<imports::Host>,
    pub(crate) sha256: String,
    /// What errors call it: a path, or the beginning of its hash.
    pub(crate) shown: String,
}

impl Module {
    pub(crate) fn parse(bytes: &[u8], shown: &str, limits: &Limits) -> Result<Self> {
        limits.check(Limit::PluginBytes, bytes.len() as u64).map_err(|error| error.file(shown))?;
        let refused = |message: &str| Error::unsupported(message).file(shown);
        if !bytes.starts_with(b"\0asm") {
            return Err(refused("the file is no plugin")
                .found(first(bytes))
                .expected("a WebAssembly module, which begins with \\0asm"));
        }
        let module = wasmi::Module::new(engine(), bytes).map_err(|error| {
            refused("the plugin is no valid WebAssembly module").found(error.to_string()).help(BUILD)
        })?;
        let mut linker = Linker::new(engine());
        imports::link(&mut linker)
            .map_err(|error| Error::defect("imports of plugins").found(error.to_string()))?;
        check_imports(&module, &refused)?;
        check_exports(&module, &refused)?;
        Ok(Module { module, linker, sha256: sha256(bytes), shown: shown.to_owned() })
    }
}

/// What to do with a module that was built otherwise.
pub(crate) const BUILD: &str =
    "build it with the crate ckpt-plugin: `cargo build --target wasm32-unknown-unknown --release`";

/// The engine of all modules.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let limits = EnforcedLimits::strict();
        let mut config = Config::default();
        config
            .consume_fuel(true)
            .allow_start_fn(false)
            .ignore_custom_sections(true)
            .set_max_stack_height(MOST_STACK)
            .set_max_recursion_depth(MOST_CALLS)
            .enforced_limits(limits);
        Engine::new(&config)
    })
}

/// The names and types of the functions that a module exports: parameters and result.
const EXPORTS: [(&str, &[ValType], &[ValType]); 3] = [
    ("ckpt_version", &[], &[ValType::I32]),
    ("ckpt_reserve", &[ValType::I32], &[ValType::I32]),
    ("ckpt_call", &[ValType::I32, ValType::I32], &[ValType::I64]),
];

fn check_exports(module: &wasmi::Module, refused: &dyn Fn(&str) -> Error) -> Result<()> {
    if !matches!(module.get_export("memory"), Some(ExternType::Memory(_))) {
        return Err(refused("the plugin exports no memory").help(BUILD));
    }
    for (name, parameters, results) in EXPORTS {
        let fits = match module.get_export(name) {
            Some(ExternType::Func(function)) => {
                function.params() == parameters && function.results() == results
            }
            _ => false,
        };
        if !fits {
            return Err(refused("the plugin lacks a function, or has one of another type")
                .field(name)
                .help(BUILD));
        }
    }
    Ok(())
}

fn check_imports(module: &wasmi::Module, refused: &dyn Fn(&str) -> Error) -> Result<()> {
    let is_known = |import: &wasmi::ImportType<'_>| {
        let function = match import.ty() {
            ExternType::Func(function) => function,
            _ => return false,
        };
        import.module() == imports::MODULE
            && imports::TYPES.iter().any(|(name, parameters, results)| {
                *name == import.name() && function.params() == *parameters && function.results() == *results
            })
    };
    match module.imports().find(|import| !is_known(import)) {
        None => Ok(()),
        Some(import) => Err(refused("the plugin asks for something that no plugin gets")
            .found(format!("the import {}.{}", import.module(), import.name()))
            .expected(format!("only {}", imports::TYPES.map(|(name, ..)| name).join(", ")))
            .help("a plugin reads its input and nothing else: no clock, no random numbers, no files, no network")),
    }
}

fn first(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(4).map(|byte| format!("{byte:02x} ")).collect();
    match shown.trim_end() {
        "" => "no bytes".to_owned(),
        shown => format!("the bytes {shown}"),
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
