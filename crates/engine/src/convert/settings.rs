//! Setters: how conversions, executions and commits are described.

use super::phase::PhaseObserver;
use super::{Commit, Conversion, Execution, Phase};
use crate::mapping::Mapping;
use crate::plan::{Cloning, Policy};
use crate::recipe::Transform;
use crate::resources::Resources;
use ckpt_api::{ArchitectureFile, DType, Limits, LossKind, Vocabulary};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

impl Conversion {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the target's format, such as `nn`. Default: by the output's extension.
    #[must_use]
    pub fn to(mut self, format: impl Into<String>) -> Self {
        self.to = Some(format.into());
        self
    }

    /// Sets an option of the target's format. Default: none. An unknown option is an error of [`Conversion::plan`].
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((key.into(), value.into()));
        self
    }

    /// Sets several options, as [`Conversion::set`] does.
    #[must_use]
    pub fn set_all<K: Into<String>, V: Into<String>>(
        mut self,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.options.extend(options.into_iter().map(|(key, value)| (key.into(), value.into())));
        self
    }

    /// Gives the target's format what the source does not record. Default: nothing.
    #[must_use]
    pub fn architecture(mut self, file: ArchitectureFile) -> Self {
        self.architecture = Some(file);
        self
    }

    /// Renames tensors. Default: names stay.
    #[must_use]
    pub fn mapping(mut self, mapping: Mapping) -> Self {
        self.mapping = Some(mapping);
        self
    }

    /// Writes the program of a generated mapping, such as PyTorch modules, to a file of this name beside the output.
    /// Default: none.
    #[must_use]
    pub fn code(mut self, name: impl Into<String>) -> Self {
        self.code = Some(name.into());
        self
    }

    /// Adds a transform of the axes of tensors, by their names after mapping. Default: none.
    #[must_use]
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transforms.push(transform);
        self
    }

    /// Keeps the tensors that match this pattern, or another one that is included. Default: all.
    #[must_use]
    pub fn include(mut self, pattern: impl Into<String>) -> Self {
        self.include.push(pattern.into());
        self
    }

    /// Leaves out the tensors that match this pattern. Default: none.
    #[must_use]
    pub fn exclude(mut self, pattern: impl Into<String>) -> Self {
        self.exclude.push(pattern.into());
        self
    }

    /// Converts floating-point weights to this dtype, and accepts what that does to their values. Default: they keep
    /// theirs.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Carries the tensors that are stored for quantized weights as they are, and does not compute the numbers that they stand
    /// for. Default: no.
    #[must_use]
    pub fn keep_quantized(mut self, keep: bool) -> Self {
        self.keep_quantized = keep;
        self
    }

    /// Chooses which losses are accepted. Default: those that do not change what the model computes.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Accepts a kind of loss that changes what the model computes. Default: none.
    #[must_use]
    pub fn allow(mut self, kind: LossKind) -> Self {
        self.policy = self.policy.allow(kind);
        self
    }

    /// Sets memory and threads. Default: [`Resources::default`].
    #[must_use]
    pub fn resources(mut self, resources: Resources) -> Self {
        self.resources = resources;
        self
    }

    /// Bounds what the input and the mapping may make the process do. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether the output is a directory, as other programs open a model. Default: if the source is a model, and the output's
    /// name has no extension that a format claims.
    #[must_use]
    pub fn directory(mut self, directory: bool) -> Self {
        self.directory = directory;
        self
    }

    /// Whether an existing output is replaced. Default: no; it is an error.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Whether to go on where a process that was killed left the same conversion. Default: no.
    #[must_use]
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Whether the output is read back, compared and run before it gets its name. Default: no.
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Chooses whether the output shares blocks with the source's files. Default: [`Cloning::Auto`].
    #[must_use]
    pub fn clone_blocks(mut self, clone: Cloning) -> Self {
        self.clone = clone;
        self
    }

    /// Whether checksums are left alone: see [`Conversion::unchecked`]. Default: no.
    #[must_use]
    pub fn unchecked(mut self, unchecked: bool) -> Self {
        self.unchecked = unchecked;
        self
    }

    /// Writes a receipt to this path. Default: none.
    #[must_use]
    pub fn receipt(mut self, path: impl Into<PathBuf>) -> Self {
        self.receipt = Some(path.into());
        self
    }
}

impl Execution {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to wait until the output is on the disk before it gets its name. Default: yes.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Stops the execution soon after the flag is set. Default: a flag that nobody sets.
    #[must_use]
    pub fn canceled(mut self, flag: Arc<AtomicBool>) -> Self {
        self.canceled = flag;
        self
    }

    /// Calls `observer` when a phase begins, from the thread that executes. Default: no observer.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// use std::sync::{Arc, Mutex};
    /// let phases = Arc::new(Mutex::new(Vec::new()));
    /// let seen = Arc::clone(&phases);
    /// let execution = ckpt::Execution::new().on_phase(move |phase| {
    ///     if let Ok(mut seen) = seen.lock() {
    ///         seen.push(phase);
    ///     }
    /// });
    /// # let memory = ckpt::store::MemoryStore::new();
    /// let source = ckpt::open("examples/data/digits")?;
    /// let planned = ckpt::Conversion::new().plan(&ckpt::Registry::builtin(), &source, memory.at("digits.npz"))?;
    /// planned.execute(&execution.sync(false), &|_bytes| ())?;
    /// use ckpt::Phase::{Commit, Finish, Stage, Write};
    /// assert_eq!(*phases.lock().unwrap(), [Stage, Write, Finish, Commit]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_phase(mut self, observer: impl Fn(Phase) + Send + Sync + 'static) -> Self {
        self.phases = PhaseObserver::new(observer);
        self
    }
}

impl Commit {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the output is read back and compared. Default: no.
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Writes a receipt to this path. Default: none.
    #[must_use]
    pub fn receipt(mut self, path: impl Into<PathBuf>) -> Self {
        self.receipt = Some(path.into());
        self
    }

    /// Bounds reading back. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets memory and threads for reading back. Default: [`Resources::default`].
    #[must_use]
    pub fn resources(mut self, resources: Resources) -> Self {
        self.resources = resources;
        self
    }

    /// Chooses how the outcome names settings. Default: as the library does.
    #[must_use]
    pub fn vocabulary(mut self, words: impl Vocabulary + 'static) -> Self {
        self.vocabulary = Arc::new(words);
        self
    }
}
