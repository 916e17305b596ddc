//! A conversion that was found possible, and how it is carried out.

use super::conversion::Conversion;
use super::phase::PhaseObserver;
use super::{graph, pins};
use crate::execute::Files;
use crate::mapping::Mapping;
use crate::plan::{Plan, Stores};
use crate::registry::Registry;
use crate::resources::Resources;
use crate::source::{OpenOptions, Source};
use crate::store::Destination;
use ckpt_api::{Codec, Error, Input, LibraryWords, Limits, Result, Vocabulary};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// How a plan is carried out.
///
/// ```
/// let execution = ckpt::Execution::new().sync(false);
/// let canceled = execution.canceled.clone();
/// std::thread::spawn(move || canceled.store(true, std::sync::atomic::Ordering::Relaxed));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Execution {
    /// Wait until the output is on the disk before it gets its name.
    pub sync: bool,
    /// Set by another thread, or a signal handler, to stop.
    pub canceled: Arc<AtomicBool>,
    pub(super) phases: PhaseObserver,
}

impl Default for Execution {
    fn default() -> Self {
        Execution { sync: true, canceled: Arc::default(), phases: PhaseObserver::default() }
    }
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution").field("sync", &self.sync).finish_non_exhaustive()
    }
}

/// What is done between the last item and the names: part of every conversion.
///
/// ```
/// let options = ckpt::Commit::new().verify(true).receipt("out.json");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Commit {
    /// Read the output back and compare every tensor with its source.
    pub verify: bool,
    /// Where to write what was done.
    pub receipt: Option<PathBuf>,
    /// Bounds for reading back.
    pub limits: Limits,
    /// Memory and threads for reading back.
    pub resources: Resources,
    /// How the outcome names settings.
    pub vocabulary: Arc<dyn Vocabulary>,
}

impl Default for Commit {
    fn default() -> Self {
        Commit {
            verify: false,
            receipt: None,
            limits: Limits::default(),
            resources: Resources::default(),
            vocabulary: Arc::new(LibraryWords),
        }
    }
}

/// A conversion that was found possible, before any output exists.
pub struct Planned {
    pub(crate) registry: Registry,
    pub(crate) plan: Plan,
    /// The source, if it was opened by its codec already.
    source: Option<Source>,
    pub(crate) input: Input,
    pub(crate) files: Arc<Files<'static>>,
    /// The codec that writes.
    pub(crate) codec: Arc<dyn Codec>,
    pub(crate) output: Destination,
    pub(crate) commit: Commit,
    pub(super) resume: bool,
    /// The mapping, where this process read it: its lines are no part of a plan.
    pub(super) mapping: Option<Mapping>,
    sha256: OnceLock<[u8; 32]>,
}

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planned").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Planned {
    pub(super) fn new(
        registry: &Registry,
        source: &Source,
        codec: Arc<dyn Codec>,
        output: Destination,
        plan: Plan,
        conversion: &Conversion,
    ) -> Result<Self> {
        let read = plan.tensors().flat_map(|entry| [entry.from].into_iter().chain(entry.added));
        plan.contents.check_data(&source.input, read.map(|placement| placement.tensor))?;
        Ok(Planned {
            registry: registry.clone(),
            plan,
            source: Some(source.clone()),
            input: source.input.clone(),
            files: source.files.clone(),
            codec,
            output,
            commit: Commit {
                verify: conversion.verify,
                receipt: conversion.receipt.clone(),
                limits: conversion.limits.clone(),
                resources: conversion.resources,
                vocabulary: source.options.vocabulary.clone(),
            },
            resume: conversion.resume,
            mapping: conversion.mapping.clone(),
            sha256: OnceLock::new(),
        })
    }

    /// What a plan that was serialized runs on: its source and its target, which must be where it says.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if a store cannot be opened from here, [`ckpt_api::Kind::Io`] if a file of the
    /// source is not what it was when the plan was made.
    pub fn resume(registry: &Registry, plan: Plan) -> Result<Self> {
        for (format, codec) in plan.codecs() {
            registry.check_provenance(format, codec)?;
        }
        let reader = registry.reader(&plan.source.format)?;
        let writer = registry.writer(&plan.target.format)?;
        let mut plan = plan.with_decoders(&*reader, &*writer)?;
        plan.attach(reader.block_encodings());
        plan.attach(writer.block_encodings());
        let source = plan.source.location.as_deref().ok_or_else(|| elsewhere("source"))?;
        let input = Input::within_store(registry.addresses().open(source)?, &plan.source.entry);
        let others = plan.source.others.iter().map(|other| {
            let store = other.location.as_deref().ok_or_else(|| elsewhere("source"))?;
            Ok(Input::within_store(registry.addresses().open(store)?, &other.entry))
        });
        let others = others.collect::<Result<Vec<_>>>()?;
        let input = if others.is_empty() { input } else { input.joined(others) };
        pins::check(&input, plan.source_files(), "the source has changed since the plan was made")?;
        if let Some(record) = &plan.source.graph {
            graph::find(registry.addresses(), record)?;
        }
        let target = plan.target.location.as_deref().ok_or_else(|| elsewhere("target"))?;
        let output = Destination::within(registry.addresses().open(target)?, plan.target.name.clone());
        Ok(Planned {
            registry: registry.clone(),
            source: None,
            files: Arc::new(Files::named(&input, plan.contents.files.clone())),
            input,
            codec: writer,
            output,
            plan,
            commit: Commit::default(),
            resume: false,
            mapping: None,
            sha256: OnceLock::new(),
        })
    }

    /// Shares other memory and threads among the workers and the stores of both sides.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] if the conversion does not fit.
    pub fn with_resources(self, resources: Resources, reread: bool) -> Result<Self> {
        let stores = Stores { source: Some(&**self.input.store()), target: &*self.output.store };
        let held = stores.reserve(self.plan.files(), resources.max_memory);
        Ok(Planned { plan: self.plan.beside_stores(resources, reread, held)?, ..self })
    }

    /// What will be done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The SHA-256 of the plan, computed once: a worker asks for each group of items that it runs.
    ///
    /// # Errors
    /// Those of [`Plan::sha256`].
    pub fn sha256(&self) -> Result<[u8; 32]> {
        match self.sha256.get() {
            Some(known) => Ok(*known),
            None => self.plan.sha256().map(|found| *self.sha256.get_or_init(|| found)),
        }
    }

    /// Whether the source's tensors are made of those of several checkpoints, and no source of this process has them.
    pub(super) fn is_merge_of_another_process(&self) -> bool {
        self.source.is_none() && !self.plan.source.others.is_empty()
    }

    /// The source as its codec reads it.
    ///
    /// # Errors
    /// Those of [`Source::open`].
    pub(super) fn source(&self, commit: &Commit) -> Result<Source> {
        let Commit { limits, vocabulary, .. } = commit;
        let (limits, vocabulary) = (limits.clone(), vocabulary.clone());
        let options = OpenOptions { limits, vocabulary, ..OpenOptions::default() };
        match &self.source {
            Some(source) => Ok(source.clone()),
            None => {
                let graph = graph::read(&self.registry, self.plan.source.graph.as_ref(), &options)?;
                let options = OpenOptions { graph, ..options };
                Source::recorded(&self.registry, &self.input, &self.plan.source, options)
            }
        }
    }
}

pub(super) fn elsewhere(side: &str) -> Error {
    Error::usage(format!("the plan's {side} cannot be reached from another process"))
        .help("make the plan for a store that has an address")
}
