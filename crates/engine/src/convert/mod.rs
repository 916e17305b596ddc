//! A conversion from one format to another: planning, running, committing.

mod blame;
mod clones;
mod compare;
mod computed;
mod conversion;
mod directory;
mod examine;
mod from_memory;
mod generated;
mod graph;
mod grouped;
mod handing;
mod location;
mod model;
mod phase;
mod pins;
mod planned;
mod read_back;
mod receipts;
mod record;
mod reread;
mod run;
mod same_bytes;
mod settings;
mod sides;
mod stored_axes;
mod summary;
mod sums;
#[cfg(test)]
mod tests;
mod values;
mod verifier;

pub use conversion::Conversion;
pub use from_memory::write_from_memory;
pub use phase::Phase;
pub use planned::{Commit, Execution, Planned};
pub use receipts::ItemReceipt;
pub use sides::SideOptions;
pub use summary::{Resumed, Rounded, Summary, Verification};
pub use verifier::{Computed, Verifier, VerifierSettings};

use crate::formats::ModelTranslation;
use crate::map::{MapOptions, Mapped, Twins, map};
use crate::mapping::{Generated, Mapping, Translation};
use crate::plan::{
    CloneSettings, MappingRecord, OtherInput, Parts, Plan, Settings, SourceRecord, Stores, TargetRecord,
    compile,
};
use crate::registry::Registry;
use crate::scaled;
use crate::source::{OpenOptions, Source, give_graph};
use crate::store::{Destination, IntoDestination, IntoInput};
use crate::transform::exact;
use blame::{MadeOf, blame_entry, blame_mapping};
use ckpt_api::{
    ArchitectureFile, Aspect, Checkpoint, Codec, Contents, Error, FormatInfo, Kind, LossKind, Options,
    OutputLayout, Phases, Placement, ReadStore, Result, Role, Side, Tensor, Vocabulary, text,
};
use generated::Code;
use std::borrow::Cow;
use std::sync::Arc;
use values::SourceValues;

impl Conversion {
    /// Opens `input`, plans its conversion to `output`, and executes the plan.
    ///
    /// # Errors
    /// Those of [`Source::open`], [`Conversion::plan`] and [`Planned::execute`].
    pub fn run(
        &self,
        registry: &Registry,
        input: impl IntoInput,
        output: impl IntoDestination,
    ) -> Result<Summary> {
        let source = Source::open(registry, input, &OpenOptions::new().limits(self.limits.clone()))?;
        self.plan(registry, &source, output)?.execute(&Execution::default(), &|_| ())
    }

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
        if self.scheme().is_some() {
            policy.allow.insert(LossKind::Narrowed);
        }
        policy.allow.extend(plan.placed.asked.iter().copied());
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
        let output = output.into_destination(registry.addresses())?;
        let source = &*self.with_numbers(registry, source, &output)?;
        let source = &*self.with_scheme(registry, source, &output)?;
        if let Some(mapping) = &self.mapping
            && let Some(generated) = &mapping.generated
            && let Some(mut translation) = source.translation(mapping)?
        {
            let mapping = Some(translation.mapping_for(mapping)?);
            let code = generated::code(self, generated, &mut translation, &output)?;
            let translated = Conversion { mapping, ..self.clone() };
            let remarks = Some((&translation, generated));
            return translated.plan_to(registry, source, output, Additions { remarks, code, model: None });
        }
        generated::check_none(self, registry)?;
        let conversion = self.as_directory(registry, source, &output)?;
        let writer = conversion.writer(registry, &output)?;
        if let Some(model) = conversion.translate_model(registry, source, writer.info())? {
            let translated = conversion.of_model(&model, source)?;
            return translated.plan_to(registry, source, output, Additions::of_model(model));
        }
        if let Some(Cow::Owned(mapping)) =
            conversion.mapping.as_ref().map(|mapping| source.with_parameters(mapping)).transpose()?
        {
            let with_parameters = Conversion { mapping: Some(mapping), ..conversion };
            return with_parameters.plan_to(registry, source, output, Additions::default());
        }
        conversion.plan_to(registry, source, output, Additions::default())
    }

    /// Plans with a mapping whose parameters have values.
    fn plan_to(
        &self,
        registry: &Registry,
        source: &Source,
        output: Destination,
        Additions { remarks, code, mut model }: Additions<'_>,
    ) -> Result<Planned> {
        let codec = self.writer(registry, &output)?;
        let mut mapped = map(&source.contents, &self.map_options(comes_from(source, codec.info())))?;
        let dequantized = grouped::losses(source, &mapped.excluded);
        mapped.losses.extend(dequantized);
        if let Some((translation, generated)) = remarks {
            generated::report(translation, generated, &mut mapped, code.is_some());
        }
        match (source.pending_graph(), remarks) {
            (Some(model), Some((translation, generated))) if !generated.generator.needs_graph() => {
                generated::check(translation, model, &mut mapped, &source.shown())?;
            }
            (Some(model), _) => give_graph(model, Arc::make_mut(&mut mapped.contents), &source.shown())?,
            (None, _) => {}
        }
        if let Some(model) = source.options.graph.as_deref() {
            model.describe(codec.info(), &mut Arc::make_mut(&mut mapped.contents).checkpoint);
        }
        if let Some(model) = &mut model {
            model::describe(model, Arc::make_mut(&mut mapped.contents))?;
            model::keep_losses(model, &mut mapped);
        }
        let options = Options::parse(codec.info().id, codec.info().options, Side::Write, &self.options)?;
        let values =
            SourceValues { source, contents: &mapped.contents, max_memory: self.resources.max_memory };
        if let Some(prepared) = codec.prepare(&values, &mapped.contents, &options)? {
            mapped.contents = Arc::new(prepared);
        }
        let words = &*source.options.vocabulary;
        let store = Some(&**source.input.store());
        let clone = clones::settings(self.clone, source, &output)?;
        let framework = source.codec.info().framework;
        // Shared blocks begin where the source's do, and the rest follows from that.
        let is_cloned = clone.is_some();
        let origin = Origin { record: source_record(source)?, store, framework, clone };
        let mut plan = self.compile(&*codec, origin, mapped, (&output, code, model), words)?;
        if let Some(note) = same_bytes::note(self, source, &plan, &*codec).filter(|_| !is_cloned) {
            Arc::make_mut(&mut plan.contents).notes.push(note.into());
        }
        Planned::new(registry, source, codec, output, plan, self)
    }

    /// Places tensors, and compiles the plan that brings them there.
    fn compile(
        &self,
        codec: &dyn Codec,
        origin: Origin<'_>,
        mapped: Mapped,
        (output, code, model): (&Destination, Option<Code>, Option<ModelTranslation>),
        words: &dyn Vocabulary,
    ) -> Result<Plan> {
        let info = codec.info();
        let phases = origin.clone.map(|clone| clones::phases(clone.block, &mapped.contents));
        let framework = match &self.mapping {
            Some(mapping) => mapping.target_framework(origin.framework),
            None => origin.framework,
        };
        let name = self.file_name(info, output);
        let mut placed = self.place(codec, &mapped, name, (phases, framework))?;
        let Mapped { source, mut contents, excluded, mut losses, made_of, twins, addends } = mapped;
        if let Some(ModelTranslation { constants, files, .. }) = model {
            model::fix(&constants, Arc::make_mut(&mut contents), &mut placed)?;
            model::accompany(files, name, &mut placed)?;
        }
        if self.directory {
            directory::enter(info, output, &mut placed)?;
        }
        let (dropped, mut notes) =
            scaled::find(&source.checkpoint.tensors).judge(self.dtype, &made_of, &contents, &placed);
        losses.extend(dropped);
        // What a scheme has just made is what was asked for.
        if !notes.is_empty() && self.scheme().is_none() {
            notes.iter_mut().for_each(|note| note.settle(words));
            Arc::make_mut(&mut contents).add_notes(notes);
        }
        if !addends.is_empty() {
            sums::add(Arc::make_mut(&mut contents), &mut placed, addends)?;
        }
        if let Some(code) = code {
            code.place(&mut placed)?;
        }
        let one_of = |twins: &Twins| made_of.get_key_value(&twins.name);
        let made_twins =
            twins.iter().filter_map(one_of).map(|(name, of)| (name.clone(), of.clone())).collect();
        let plan = compile(Parts {
            source: origin.record,
            target: self.target_record(codec, output),
            settings: self.settings(made_of, origin.clone),
            info,
            contents,
            placed,
            excluded,
            losses,
            twins,
            resources: self.resources,
            stores: Stores { source: origin.store, target: &*output.store },
            reread: self.verify || self.receipt.is_some(),
            words,
        });
        plan.map_err(|error| blame_mapping(error, self.mapping.as_ref(), &made_twins))
    }

    /// The codec that writes.
    fn writer(&self, registry: &Registry, output: &Destination) -> Result<Arc<dyn Codec>> {
        match &self.to {
            Some(id) => registry.writer(id),
            None => registry.for_extension(&output.name),
        }
    }

    fn map_options(&self, keep_duplicates: bool) -> MapOptions<'_> {
        MapOptions {
            include: &self.include,
            exclude: &self.exclude,
            mapping: self.mapping.as_ref(),
            transforms: &self.transforms,
            dtype: self.dtype,
            keep_duplicates,
            limits: &self.limits,
        }
    }

    fn place(
        &self,
        codec: &dyn Codec,
        mapped: &Mapped,
        name: &str,
        (phases, framework): (Option<Phases>, Option<&str>),
    ) -> Result<OutputLayout> {
        let info = codec.info();
        let options = Options::parse(info.id, info.options, Side::Write, &self.options)?
            .with_architecture(self.architecture_of(info))
            .with_phases(phases)
            .with_dtype(self.dtype)
            .with_framework(framework);
        let checkpoint = with_blocks(&mapped.contents, self.dtype.is_none());
        let placed = codec.place(&checkpoint, name, &options).map_err(|error| {
            let error = blame_entry(error, self.mapping.as_ref(), &mapped.made_of);
            // The codec cannot know that it was the selection that took the layers.
            match mapped.losses.iter().find(|loss| loss.kind == LossKind::GraphDropped) {
                Some(loss) => error.found(text!["no layers: ", loss.detail.clone()]),
                None => blame_missing_graph(error, &mapped.contents),
            }
        })?;
        placed.check_names(info, name)?;
        check_anything(info, &mapped.contents.checkpoint, &placed)?;
        self.check_dtype(info, &mapped.contents.checkpoint, &placed)?;
        Ok(placed)
    }

    /// Refuses a target that stores weights in a dtype with more values than the requested one: they would not be
    /// rounded to it.
    fn check_dtype(&self, info: &FormatInfo, checkpoint: &Checkpoint, placed: &OutputLayout) -> Result<()> {
        let Some(dtype) = self.dtype else { return Ok(()) };
        let other = placed.placements.iter().find_map(|placement| {
            let tensor = checkpoint.tensors.get(placement.tensor.0)?;
            let is_retyped = tensor.role == Role::Weight && tensor.dtype == dtype;
            let stored = placement.encoding.dtype;
            let is_rounded = placement.encoding.scaling().is_some() || exact(stored, dtype);
            (is_retyped && !is_rounded).then_some((&tensor.name, stored))
        });
        let Some((name, stored)) = other else { return Ok(()) };
        let own: Vec<&str> =
            info.dtypes.iter().filter(|dtype| dtype.is_float()).map(|dtype| dtype.name()).collect();
        Err(Error::usage("the target does not store weights in the requested dtype")
            .tensor(name)
            .found(format!("{dtype}, which format '{}' would store as {stored}", info.id))
            .expected(own.join(" or "))
            .help("ask for one of these, or convert to a format that has the dtype"))
    }

    fn architecture_of(&self, info: &FormatInfo) -> Option<ArchitectureFile> {
        self.architecture.clone().filter(|file| file.format() == Some(info.id))
    }

    fn target_record(&self, codec: &dyn Codec, output: &Destination) -> TargetRecord {
        TargetRecord {
            format: codec.info().id.to_owned(),
            codec: codec.provenance().cloned(),
            location: output.store.location(),
            name: output.name.clone(),
            options: self.options.clone(),
            architecture: self.architecture.clone(),
            overwrite: self.overwrite,
        }
    }

    fn settings(&self, made_of: MadeOf, clone: Option<CloneSettings>) -> Settings {
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
            clone,
            unchecked: self.unchecked,
        }
    }
}

/// What a conversion adds to the tensors.
#[derive(Default)]
struct Additions<'a> {
    /// What a generated mapping remarks.
    remarks: Option<(&'a Translation, &'a Generated)>,
    /// A program beside the output.
    code: Option<Code>,
    /// What belongs to the whole model.
    model: Option<ModelTranslation>,
}

impl Additions<'_> {
    fn of_model(model: ModelTranslation) -> Self {
        Additions { model: Some(model), ..Additions::default() }
    }
}

/// Where a conversion reads from.
struct Origin<'a> {
    record: SourceRecord,
    /// `None` for tensors in memory.
    store: Option<&'a dyn ReadStore>,
    /// The framework whose files these are.
    framework: Option<&'static str>,
    /// How the output shares blocks with it.
    clone: Option<CloneSettings>,
}

/// Says why the checkpoint has no graph, where a codec refuses the checkpoint as a whole and finds nothing else.
fn blame_missing_graph(error: Error, contents: &Contents) -> Error {
    let context = error.context();
    let is_whole = error.kind() == Kind::Unsupported && context.found.is_none() && context.tensor.is_none();
    match contents.missing_graph.as_ref().filter(|_| is_whole && contents.checkpoint.graph.is_none()) {
        Some(missing) => error.found(text!["no graph: ", missing.reason.clone()]),
        None => error,
    }
}

/// Refuses to write nothing of a checkpoint that has tensors, where no loss stops that.
fn check_anything(info: &FormatInfo, checkpoint: &Checkpoint, placed: &OutputLayout) -> Result<()> {
    let stops = |tensor: &Tensor| LossKind::of_dropping(tensor.role).changes_function();
    let is_network = checkpoint.graph.is_some() && info.keeps.contains(&Aspect::Graph);
    let is_lost = placed.placements.is_empty() && !is_network && !checkpoint.tensors.iter().any(stops);
    let Some(first) = checkpoint.tensors.first().filter(|_| is_lost) else { return Ok(()) };
    let all = match checkpoint.tensors.len() {
        1 => format!("only '{}'", first.name),
        count => format!("{count} tensors, such as '{}'", first.name),
    };
    Err(Error::usage(format!("format '{}' has a place for none of the tensors", info.id))
        .found(format!("{all} ({})", first.dtype))
        .help("include more tensors, exclude fewer, or convert to another format"))
}

/// The checkpoint that a codec places: tensors that are stored in blocks, row-major and whole, are marked as such, unless
/// their numbers are wanted (`keep` is false).
fn with_blocks(contents: &Contents, keep: bool) -> Cow<'_, Checkpoint> {
    let mut checkpoint = Cow::Borrowed(&contents.checkpoint);
    for (number, placement) in contents.placements.iter().enumerate() {
        let Placement { encoding, .. } = placement;
        let row_major = encoding.order.iter().copied().eq(0..encoding.order.len());
        let blocks = encoding.blocks().filter(|_| keep && row_major && placement.window().is_none());
        if checkpoint.tensors[number].blocks.as_deref() != blocks {
            checkpoint.to_mut().tensors[number].blocks = blocks.cloned().map(Box::new);
        }
    }
    checkpoint
}

/// Whether a source has this format, or has carried its metadata since it had: second copies belong there.
fn comes_from(source: &Source, info: &FormatInfo) -> bool {
    source.format() == info.id || source.checkpoint().metadata.namespace(info.id).is_some()
}

/// What a plan records of its source.
fn source_record(source: &Source) -> Result<SourceRecord> {
    let graph =
        source.options.graph.as_deref().map(|model| graph::record(model, source.pending_graph().is_some()));
    let others = source
        .input
        .others()
        .iter()
        .map(|other| OtherInput { location: other.store().location(), entry: other.entry().to_owned() });
    Ok(SourceRecord {
        format: source.format().to_owned(),
        codec: source.codec.provenance().cloned(),
        location: source.input.store().location(),
        entry: source.input.entry().to_owned(),
        others: others.collect(),
        parts: source.options.parts,
        options: source.options.options.clone(),
        architecture: source.options.architecture.clone(),
        graph: graph.transpose()?,
        files: pins::of_source(source)?,
    })
}
