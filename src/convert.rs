//! A conversion from one format to another.

mod compare;
mod computed;
mod examine;
mod fingerprint;
mod reread;
mod unchanged;

pub use computed::Computed;
pub use examine::Verification;
pub(crate) use examine::{Examined, examine};
pub(crate) use reread::Reread;

use crate::diff::are_equal;
use crate::execute::{
    Disk, Done, Earlier, Os, Output, Progress, Run, Sources, Wanted, completed, interrupted, is_same_name,
    run,
};
use crate::mapping::Mapping;
use crate::plan::{Job, Parts, Plan, Policy, Resources};
use crate::receipt;
use crate::recipe::{Join, Target, Transform, rebuild, transform};
use crate::registry::Registry;
use crate::select::{Removed, remove, retype, select};
use crate::source::Source;
use crate::transform::Step;
use ckpt_api::{ArchitectureFile, Codec, DType, Error, Limits, LossKind, Options, Result, Side};
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use unchanged::Unchanged;

/// What to convert to, and how.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let out = directory.path().join("digits.safetensors");
/// let registry = ckpt::Registry::builtin();
/// let source = ckpt::Source::open(&registry, "examples/data/digits", &Default::default())?;
/// let conversion = ckpt::Conversion { to: Some("safetensors".into()), ..Default::default() };
/// let planned = conversion.plan(&registry, source, &out)?;
/// println!("{} tensors, {} losses", planned.plan().jobs().len(), planned.plan().losses.len());
/// let summary = planned.execute(&Default::default(), &|_bytes| ())?;
/// assert_eq!(summary.files, [out]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Conversion {
    /// The target's format; by the output's extension where it is left out.
    pub to: Option<String>,
    /// Options for the codec that writes.
    pub options: Vec<(String, String)>,
    /// An architecture file of the target's format, which says what the source does not.
    pub architecture: Option<ArchitectureFile>,
    /// New names for the tensors.
    pub mapping: Option<Mapping>,
    /// What happens to the axes of tensors, by their names after mapping.
    pub transforms: Vec<Transform>,
    /// [Patterns](crate::pattern) of the tensors to keep; empty for all tensors.
    pub include: Vec<String>,
    /// [Patterns](crate::pattern) of the tensors to leave out.
    pub exclude: Vec<String>,
    /// What floating-point weights become.
    pub dtype: Option<DType>,
    /// Which losses are accepted.
    pub policy: Policy,
    /// Memory and threads.
    pub resources: Resources,
    /// Bounds for the mapping.
    pub limits: Limits,
    /// Replace existing output.
    pub overwrite: bool,
    /// Go on with the same conversion where a process that was killed had left it: what it had written is kept as far as its
    /// checksums are right. Where it was another conversion, or the source has changed since, begin anew.
    pub resume: bool,
    /// Read the output back through its own codec, compare every tensor with its source, and run both graphs on the same
    /// inputs where both say what they compute, before it gets its name.
    pub verify: bool,
    /// Where to write what was done, with the hashes of all files: the last file that appears.
    pub receipt: Option<PathBuf>,
}

/// What [`Planned::execute`] may be told.
#[derive(Clone)]
pub struct Execution {
    /// Wait until the output is on the disk before it gets its name.
    pub sync: bool,
    /// Set by another thread, or a signal handler, to stop.
    pub canceled: Arc<AtomicBool>,
}

impl Default for Execution {
    fn default() -> Self {
        Execution { sync: true, canceled: Arc::default() }
    }
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution").field("sync", &self.sync).finish_non_exhaustive()
    }
}

/// A conversion that was found possible, before any output exists.
pub struct Planned {
    pub(crate) source: Source,
    pub(crate) codec: Arc<dyn Codec>,
    pub(crate) plan: Plan,
    pub(crate) directory: PathBuf,
    /// Last component of the output's path.
    pub(crate) name: String,
    pub(crate) conversion: Conversion,
    /// Of tensors that a mapping made, the source's names.
    pub(crate) made_of: HashMap<String, Vec<String>>,
}

/// What a conversion did.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The files written.
    pub files: Vec<PathBuf>,
    /// How many tensors.
    pub tensors: usize,
    /// Bytes in all files.
    pub bytes: u64,
    /// How far off the values are that were rounded, in the order of the plan's jobs; empty where none was cast to a
    /// dtype that does not hold all values.
    pub rounding: Vec<Rounded>,
    /// What comparing the output with the source found, where that was asked for.
    pub verification: Option<Verification>,
    /// The receipt, where one was asked for.
    pub receipt: Option<PathBuf>,
    /// What was kept of a conversion that was killed, where [`Conversion::resume`] asked for that.
    pub resumed: Option<Resumed>,
}

/// What a conversion kept of one that was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resumed {
    /// How many tensors were there, with the right checksums.
    pub tensors: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Why it began anew, where it did.
    pub anew: Option<&'static str>,
}

impl Resumed {
    fn new(earlier: Earlier, plan: &Plan, done: &[Done]) -> Self {
        let kept = plan.jobs().zip(done).filter(|(_, done)| done.kept);
        let extents = kept.clone().flat_map(|(job, _)| &job.to.extents);
        let anew = match earlier {
            Earlier::Kept | Earlier::Complete => None,
            Earlier::Nothing => Some("no conversion to this output was killed"),
            Earlier::Other => Some("the source, the options or the program are not those of the killed one"),
        };
        Resumed { tensors: kept.count(), bytes: extents.map(|extent| extent.len).sum(), anew }
    }
}

/// A tensor whose values were cast to a dtype that does not hold all of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rounded {
    /// Its name, as in the plan.
    pub tensor: String,
    /// The largest absolute difference between a value and what is stored for it; 0 where all were kept.
    pub largest_error: f64,
}

impl Rounded {
    fn largest(all: &[Rounded]) -> Option<&Rounded> {
        all.iter().rev().max_by(|a, b| a.largest_error.total_cmp(&b.largest_error))
    }
}

impl Summary {
    /// The tensor with the largest rounding error, the first of equals.
    pub fn largest_rounding(&self) -> Option<&Rounded> {
        Rounded::largest(&self.rounding)
    }
}

impl Conversion {
    /// Plans the conversion of `source` to `output`: pure but for looking at which files exist.
    ///
    /// # Errors
    /// Whatever makes the conversion impossible, or lossy beyond what [`Conversion::policy`] accepts.
    pub fn plan(&self, registry: &Registry, source: Source, output: impl AsRef<Path>) -> Result<Planned> {
        let planned = self.plan_unjudged(registry, source, output)?;
        self.judge(&planned.plan)?;
        Ok(planned)
    }

    /// Stops where the plan loses more than the policy accepts.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Lossy`].
    pub fn judge(&self, plan: &Plan) -> Result<()> {
        let mut policy = self.policy.clone();
        if self.dtype.is_some() {
            // Asking for a dtype by name accepts what it does to values.
            policy.allow.extend([LossKind::Narrowed, LossKind::Retyped]);
        }
        policy.judge(&plan.losses)
    }

    /// As [`Conversion::plan`], but with losses that were not accepted only listed: for showing them.
    ///
    /// # Errors
    /// Whatever makes the conversion impossible.
    pub fn plan_unjudged(
        &self,
        registry: &Registry,
        mut source: Source,
        output: impl AsRef<Path>,
    ) -> Result<Planned> {
        let (directory, name) = split_output(output.as_ref())?;
        let codec = match &self.to {
            Some(id) => registry.writer(id)?,
            None => registry.for_extension(&name)?,
        };
        let info = codec.info();
        let architecture = self.architecture.clone().filter(|file| file.format() == Some(info.id));
        let options = Options::parse(info.id, info.options, Side::Write, &self.options)?
            .with_architecture(architecture);
        let Removed { names: mut excluded, mut losses } =
            select(source.contents_mut(), &self.include, &self.exclude)?;
        let mut made_of = HashMap::new();
        let ignored = self.rename(&mut source, &mut made_of)?;
        excluded.extend(ignored.names);
        losses.extend(ignored.losses);
        losses.extend(transform(source.contents_mut(), &self.transforms)?);
        if let Some(dtype) = self.dtype {
            losses.extend(retype(source.contents_mut(), dtype)?);
        }
        let contents = source.contents.clone();
        let placed = codec.place(&contents.checkpoint, &name, &options).map_err(|error| {
            // The codec cannot know that it was the selection that took the layers.
            match losses.iter().find(|loss| loss.kind == LossKind::GraphDropped) {
                Some(loss) => error.found(format!("no layers: {}", loss.detail)),
                None => error,
            }
        })?;
        let parts = Parts {
            from: source.codec.info().id,
            to: info,
            contents,
            placed,
            excluded,
            losses,
            resources: self.resources,
            reread: self.verify || self.receipt.is_some(),
        };
        let plan = Plan::new(parts)?;
        let read = plan.jobs().flat_map(|job| [job.from].into_iter().chain(job.added));
        plan.contents.check_data(&source.input, read.map(|placement| placement.tensor))?;
        let conversion = self.clone();
        Ok(Planned { source, codec, plan, directory, name, conversion, made_of })
    }

    /// Applies the mapping; says what it drops, and of what it made the others.
    fn rename(&self, source: &mut Source, made_of: &mut HashMap<String, Vec<String>>) -> Result<Removed> {
        let Some(mapping) = &self.mapping else { return Ok(Removed::default()) };
        let applied = mapping.apply_to(&source.contents.checkpoint.tensors, &self.limits)?;
        let mut removed = remove(source.contents_mut(), applied.dropped);
        check_tied(source, &applied.targets)?;
        removed.losses.extend(rebuild(source.contents_mut(), &applied.targets)?);
        let unused = applied.unused.iter().filter(|_| !mapping.is_builtin());
        let unused = unused.map(|rule| format!("of the mapping, nothing matched: {rule}"));
        source.contents_mut().notes.extend(unused);
        made_of.extend(applied.targets.into_iter().map(|target| (target.name, target.sources)));
        Ok(removed)
    }
}

/// Of tensors that become one, only one is kept: that is no loss where they are equal.
fn check_tied(source: &Source, targets: &[Target]) -> Result<()> {
    for target in targets.iter().filter(|target| target.recipe.join == Join::Tied) {
        let mut ids = target.sources.iter().filter_map(|name| source.checkpoint().tensor(name));
        let Some((first, tensor)) = ids.next() else { continue };
        for (other, found) in ids {
            if !are_equal(source, first, other)? {
                return Err(Error::mapping(
                    "tensors that should be equal are not, so one name cannot stand for both",
                )
                .tensor(&target.name)
                .found(format!("'{}' differs from '{}'", found.name, tensor.name))
                .help("leave one of them out with 'ignore', or give each its own name"));
            }
        }
    }
    Ok(())
}

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planned").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Planned {
    /// What will be done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Looks whether the output may be written where it was asked for, as [`Planned::execute`] does first.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] where the output exists or is the input.
    pub fn check_output(&self) -> Result<()> {
        let sources = self.sources();
        let targets =
            Output::check(&self.directory, &self.plan.placed.files, self.conversion.overwrite, &sources)?;
        self.conversion.receipt.iter().try_for_each(|path| {
            if targets.iter().any(|target| is_same_name(target, path)) {
                return Err(Error::usage("the receipt has the name of a file of the output")
                    .file(path.display().to_string()));
            }
            Output::check_file(path, self.conversion.overwrite, &sources)
        })
    }

    fn sources(&self) -> Sources {
        Sources::of(
            &self.source.input,
            &self.source.contents.files,
            self.source.codec.info(),
            self.codec.info(),
        )
    }

    /// Does it. The output appears complete or not at all.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] where the output exists, is the input, or is being written by another process,
    /// [`ckpt_api::Kind::Corrupt`] for a checksum
    /// that differs, [`ckpt_api::Kind::Lossy`] for a number that its new dtype cannot hold,
    /// [`ckpt_api::Kind::Mismatch`] where [`Conversion::verify`] finds that the output is not what the source holds,
    /// [`ckpt_api::Kind::Io`], also where the source was changed meanwhile.
    pub fn execute(&self, execution: &Execution, progress: Progress) -> Result<Summary> {
        self.execute_on(&(Arc::new(Os) as Arc<dyn Disk>), execution, progress)
    }

    fn execute_on(&self, disk: &Arc<dyn Disk>, execution: &Execution, progress: Progress) -> Result<Summary> {
        let before = Unchanged::now(&self.source);
        let wanted = Wanted {
            disk,
            directory: &self.directory,
            name: &self.name,
            files: &self.plan.placed.files,
            overwrite: self.conversion.overwrite,
            fingerprint: fingerprint::fingerprint(self),
            resume: self.conversion.resume,
            complete: !self.conversion.verify && self.conversion.receipt.is_none(),
        };
        let mut output = Output::create(&wanted, &|| self.check_output())?;
        let job = Run {
            checkpoint: &self.source.contents.checkpoint,
            files: &self.source.files,
            output: &output,
            progress,
            canceled: &execution.canceled,
        };
        if output.earlier() == Earlier::Complete {
            return self.was_complete(&output, &completed(&self.plan, &job)?);
        }
        let done = run(&self.plan, &job)?;
        let rounding = self.rounded(&done);
        let resumed = self.conversion.resume.then(|| Resumed::new(output.earlier(), &self.plan, &done));
        let written = self.in_placement_order(done);
        let sealed = self.codec.seal(&self.plan.placed, &written)?;
        for block in self.plan.placed.blocks.iter().chain(&sealed) {
            output.write_at(block.file, block.offset, &block.bytes)?;
        }
        let bytes = output.bytes()?;
        let verification = self.read_back(&mut output, execution)?;
        if execution.sync {
            output.sync()?;
        }
        before.check()?;
        if execution.canceled.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        let mut files = output.commit(execution.sync)?;
        let receipt = if self.conversion.receipt.is_some() { files.pop() } else { None };
        Ok(Summary {
            files,
            tensors: self.plan.jobs().len(),
            bytes,
            rounding,
            verification,
            receipt,
            resumed,
        })
    }

    /// The summary of a conversion that was killed when nothing was left to do but to say so.
    fn was_complete(&self, output: &Output, done: &[Done]) -> Result<Summary> {
        Ok(Summary {
            files: output.complete().to_vec(),
            tensors: self.plan.jobs().len(),
            bytes: output.bytes()?,
            rounding: self.rounded(done),
            verification: None,
            receipt: None,
            resumed: Some(Resumed::new(output.earlier(), &self.plan, done)),
        })
    }

    /// Looks at what was written, as far as that was asked for, and adds the receipt.
    fn read_back(&self, output: &mut Output, execution: &Execution) -> Result<Option<Verification>> {
        let Conversion { verify, receipt, .. } = &self.conversion;
        if !verify && receipt.is_none() {
            return Ok(None);
        }
        let reread = Reread::open(self, output)?;
        let examined = examine(self, &reread, &execution.canceled)?;
        let computed = if *verify { Some(computed::compute(self, &reread.parts)?) } else { None };
        let verification = computed.map(|computed| Verification::new(self, &examined, computed));
        if let Some(path) = receipt {
            let text = receipt::text(self, output, &reread, &examined, verification.as_ref())?;
            let file = output.add(path.clone())?;
            output.write_at(file, 0, text.as_bytes())?;
        }
        Ok(verification)
    }

    /// The codec knows its placements, not the order in which they were written.
    fn in_placement_order(&self, done: Vec<Done>) -> Vec<ckpt_api::Written> {
        let mut numbered: Vec<_> = self.plan.jobs().map(|job| job.number).zip(done).collect();
        numbered.sort_by_key(|(number, _)| *number);
        numbered.into_iter().map(|(_, done)| done.written).collect()
    }

    fn rounded(&self, done: &[Done]) -> Vec<Rounded> {
        let rounds = |job: &Job| job.steps.iter().any(|step| matches!(step, Step::Cast { exact: false, .. }));
        let pairs = self.plan.jobs().zip(done).filter(|(job, _)| rounds(job));
        pairs
            .map(|(job, done)| Rounded { tensor: job.tensor.to_owned(), largest_error: done.rounding })
            .collect()
    }
}

fn split_output(path: &Path) -> Result<(PathBuf, String)> {
    let shown = || path.display().to_string();
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        Error::usage("the output's path has no usable file name").file(shown()).help("names must be UTF-8")
    })?;
    let directory = path.parent().unwrap_or(Path::new(""));
    if !directory.as_os_str().is_empty() && !directory.is_dir() {
        return Err(Error::usage("the output's directory does not exist")
            .file(shown())
            .help("make it first"));
    }
    Ok((directory.to_owned(), name.to_owned()))
}

#[cfg(all(test, feature = "npz", feature = "safetensors", feature = "tf2"))]
mod tests;

#[cfg(all(test, feature = "npz", feature = "safetensors", feature = "tf2"))]
mod faulty_writes;

#[cfg(all(test, unix, feature = "npz", feature = "safetensors", feature = "tf2"))]
mod power_loss;
