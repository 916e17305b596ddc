//! A conversion from one format to another: planning, running, committing.

mod compare;
mod computed;
mod destination;
mod examine;
mod pins;
mod planned;
mod receipts;
mod record;
mod reread;
mod summary;
#[cfg(all(test, feature = "npz", feature = "safetensors", feature = "tf2"))]
mod tests;

pub use computed::Computed;
pub use destination::{Destination, IntoDestination};
pub use examine::Verification;
pub use planned::{Commit, Execution, Planned};
pub use receipts::ItemReceipt;
pub use summary::{Resumed, Rounded, Summary};

use crate::map::{Mapped, Wishes, map};
use crate::mapping::Mapping;
use crate::plan::{MappingRecord, Parts, Plan, Policy, Settings, SourceRecord, TargetRecord, compile};
use crate::recipe::Transform;
use crate::registry::Registry;
use crate::resources::Resources;
use crate::source::Source;
use ckpt_api::{ArchitectureFile, Codec, DType, FormatInfo, Limits, LossKind, Options, Placed, Result, Side};

/// What to convert to, and how.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let out = directory.path().join("digits.safetensors");
/// let registry = ckpt::Registry::builtin();
/// let source = ckpt::Source::open(&registry, "examples/data/digits", &Default::default())?;
/// let conversion = ckpt::Conversion { to: Some("safetensors".into()), ..Default::default() };
/// let planned = conversion.plan(&registry, &source, &out)?;
/// println!("{} tensors, {} losses", planned.plan().tensors().len(), planned.plan().losses.len());
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
    /// An architecture file of the target's format, for what the source does not record.
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
    /// inputs where both sides record one, before it gets its name.
    pub verify: bool,
    /// Where to write what was done, with the hashes of all files: the last file that appears.
    pub receipt: Option<std::path::PathBuf>,
}

impl Conversion {
    /// Plans the conversion of `source` to `output`: pure but for looking at files' identities.
    ///
    /// # Errors
    /// Whatever makes the conversion impossible, or lossy beyond what [`Conversion::policy`] accepts.
    pub fn plan(
        &self,
        registry: &Registry,
        source: &Source,
        output: impl IntoDestination,
    ) -> Result<Planned> {
        let planned = self.plan_unjudged(registry, source, output)?;
        self.judge(planned.plan())?;
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
        source: &Source,
        output: impl IntoDestination,
    ) -> Result<Planned> {
        let output = output.into_destination()?;
        let codec = match &self.to {
            Some(id) => registry.writer(id)?,
            None => registry.for_extension(&output.name)?,
        };
        let info = codec.info();
        let mapped = map(&source.contents, &self.wishes())?;
        let placed = self.place(&*codec, &mapped, &output.name)?;
        let Mapped { contents, excluded, losses, made_of, comparisons } = mapped;
        let plan = compile(Parts {
            source: source_record(source),
            target: self.target_record(info, &output),
            settings: self.settings(made_of),
            info,
            contents,
            placed,
            excluded,
            losses,
            comparisons,
            resources: self.resources,
            reread: self.verify || self.receipt.is_some(),
        })?;
        Planned::new(registry, source, codec, output, plan, self)
    }

    fn wishes(&self) -> Wishes<'_> {
        Wishes {
            include: &self.include,
            exclude: &self.exclude,
            mapping: self.mapping.as_ref(),
            transforms: &self.transforms,
            dtype: self.dtype,
            limits: &self.limits,
        }
    }

    fn place(&self, codec: &dyn Codec, mapped: &Mapped, name: &str) -> Result<Placed> {
        let info = codec.info();
        let options = Options::parse(info.id, info.options, Side::Write, &self.options)?
            .with_architecture(self.architecture_of(info));
        codec.place(&mapped.contents.checkpoint, name, &options).map_err(|error| {
            // The codec cannot know that it was the selection that took the layers.
            match mapped.losses.iter().find(|loss| loss.kind == LossKind::GraphDropped) {
                Some(loss) => error.found(format!("no layers: {}", loss.detail)),
                None => error,
            }
        })
    }

    fn architecture_of(&self, info: &FormatInfo) -> Option<ArchitectureFile> {
        self.architecture.clone().filter(|file| file.format() == Some(info.id))
    }

    fn target_record(&self, info: &FormatInfo, output: &Destination) -> TargetRecord {
        TargetRecord {
            format: info.id.to_owned(),
            location: output.store.location(),
            name: output.name.clone(),
            options: self.options.clone(),
            architecture: self.architecture.clone(),
            overwrite: self.overwrite,
        }
    }

    fn settings(&self, made_of: std::collections::BTreeMap<String, Vec<String>>) -> Settings {
        let mapping = self.mapping.as_ref();
        let record = |mapping: &Mapping| MappingRecord {
            name: mapping.origin().map(str::to_owned),
            toml: mapping.to_toml(),
        };
        Settings {
            mapping: mapping.map(record),
            transforms: self.transforms.iter().map(ToString::to_string).collect(),
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            dtype: self.dtype,
            made_of,
        }
    }
}

/// What a plan records of its source.
fn source_record(source: &Source) -> SourceRecord {
    SourceRecord {
        format: source.format().to_owned(),
        location: source.input.store().location(),
        entry: source.input.entry().to_owned(),
        options: source.options.options.clone(),
        architecture: source.options.architecture.clone(),
        files: pins::of_source(source),
    }
}
