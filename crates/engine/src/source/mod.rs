//! An opened checkpoint: what it holds, and its values.

mod architecture;
mod configuration;
mod directory;
mod given_graph;
mod graph_file;
mod grouped;
mod index;
mod merged;
mod model_graph;
mod options;
mod parameters;
mod scaled_integers;
mod stored;
mod tensor;

pub use architecture::template_choices;
pub(crate) use architecture::template_parameter;
pub use configuration::Configuration;
pub use grouped::Grouped;
pub use model_graph::ModelGraph;
pub use options::OpenOptions;
pub use tensor::{ByteChunks, Chunks, TensorRef};

use self::index::NameIndex;
use crate::execute::{Files, TensorStream};
use crate::formats::{Evidence, Formats, Quantized};
use crate::layout::{TargetLayout, Transfer, canonical, compile};
use crate::map::made;
use crate::map::renamed;
use crate::map::with_images_as_in;
use crate::mapping::Mapping;
use crate::pattern::Selector;
use crate::placeholder;
use crate::plan::SourceRecord;
use crate::recipe::Target;
use crate::resources::Budget;
use crate::store::IntoInput;
use ckpt_api::{
    ArchitectureFile, Checkpoint, Codec, Contents, Encoding, Error, FormatInfo, Input, Kind, Limits, Match,
    Options, Result, Side, TensorId, Text, text,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The option that every source takes: the activations that it does not state, first layer to last.
pub(crate) const ACTIVATIONS: &str = "activations";

/// An opened checkpoint, which does not change. Clones share what is in it.
#[derive(Clone)]
pub struct Source {
    pub(crate) input: Input,
    pub(crate) codec: Arc<dyn Codec>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) files: Arc<Files<'static>>,
    /// How it was opened.
    pub(crate) options: OpenOptions,
    /// How quantized weights are stored; `None` if there are none.
    grouped: Option<Arc<Grouped>>,
    quantized: Option<Arc<Quantized>>,
    index: Arc<NameIndex>,
    evidence: Vec<Evidence>,
    /// Keys of the configuration beside it that have other values now.
    reconfigured: Vec<(String, serde_json::Value)>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("input", &self.input)
            .field("format", &self.format())
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Opens a checkpoint with the codecs of `formats`. Reads headers only.
    ///
    /// # Errors
    /// Whatever keeps the input from being identified or read.
    ///
    /// ```
    /// # fn main() -> Result<(), ckpt::Error> {
    /// let source = ckpt::Source::open(&ckpt::Registry::builtin(), "examples/data/digits", &Default::default())?;
    /// for tensor in &source.checkpoint().tensors {
    ///     println!("{} {} {}", tensor.name, tensor.dtype, tensor.shape);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(formats: &Formats, input: impl IntoInput, options: &OpenOptions) -> Result<Self> {
        let input = existing(formats, input, options)?;
        let Chosen { codec, evidence, input } = choose(formats, input, options)?;
        Ok(Source { evidence, ..Self::read_as(formats, codec, input, options.clone())? })
    }

    /// The codec that [`Source::open`] reads an input with.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let registry = ckpt::Registry::builtin();
    /// let codec = ckpt::Source::codec(&registry, "examples/data/digits", &Default::default())?;
    /// assert_eq!(codec.info().id, "tf2");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Whatever keeps the input from being identified.
    pub fn codec(formats: &Formats, input: impl IntoInput, options: &OpenOptions) -> Result<Arc<dyn Codec>> {
        Ok(choose(formats, existing(formats, input, options)?, options)?.codec)
    }

    /// Opens an [`Input`] of a format that is known; `options` need not name it.
    pub(crate) fn read_as(
        formats: &Formats,
        codec: Arc<dyn Codec>,
        input: Input,
        options: OpenOptions,
    ) -> Result<Self> {
        let info = codec.info();
        let input = input.remembering();
        let given = options.options.iter().filter(|(key, _)| template_parameter(key).is_none()).cloned();
        let (activations, own): (Vec<_>, Vec<_>) =
            given.partition(|(key, _)| key == ACTIVATIONS && !knows(info, key));
        let model = options.graph.as_ref().map(|model| Arc::new(model.to_checkpoint()));
        let checked = Options::parse(info.id, info.options, Side::Read, &own)?
            .with_architecture(own_architecture(info, &options)?)
            .with_model(model);
        let shown = input.display(input.entry());
        let read = codec.read(&input, &checked, &options.limits);
        let read = read.and_then(|contents| contents.check(&options.limits).map(|()| contents));
        let mut contents = read.map_err(|error| placeholder::explain(error.file(shown.as_str()), &input))?;
        refuse_placeholders(&input, &contents)?;
        let grouped = match formats.groups().filter(|_| !options.parts) {
            Some(groups) => {
                let found = groups.find(&contents, &input, &options.limits)?;
                Grouped::new(&mut contents, found, &options.limits)?.map(Arc::new)
            }
            None => None,
        };
        match options.architecture.as_ref().filter(|file| file.format().is_none()) {
            Some(file) => architecture::apply(formats, file, &input, &mut contents, &options)?,
            None => architecture::check_parameters(formats, &contents, &options)?,
        }
        if let Some(model) = &options.graph
            && !contents.adopts_model
            && pending_graph(&options, &contents).is_none()
        {
            give_graph(model, &mut contents, &shown)?;
        }
        if contents.checkpoint.tensors.is_empty() {
            contents.notes.push("the checkpoint has no tensors".into());
        }
        contents.add_notes(missing_graph_note(&contents));
        for (_, names) in &activations {
            let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
            contents.checkpoint.specify(names).map_err(|error| error.field(ACTIVATIONS))?;
        }
        let notes = contents.notes.iter_mut().chain(&mut contents.graph_notes);
        notes.for_each(|text| text.settle(&*options.vocabulary));
        let files = Files::new(&input, &contents);
        let contents = Arc::new(contents);
        Ok(Source {
            input,
            codec,
            contents,
            files,
            options,
            grouped,
            quantized: None,
            index: Arc::default(),
            evidence: Vec::new(),
            reconfigured: Vec::new(),
        })
    }

    /// The format's id.
    pub fn format(&self) -> &'static str {
        self.codec.info().id
    }

    /// The same, for which keys of the configuration beside it, such as `config.json`, have other values than the file states: a
    /// model of other layers states another number of them.
    #[must_use]
    pub fn with_reconfigured(self, reconfigured: Vec<(String, serde_json::Value)>) -> Self {
        Source { reconfigured, ..self }
    }

    /// The keys of [`Source::with_reconfigured`]; none of a checkpoint that was opened.
    pub fn reconfigured(&self) -> &[(String, serde_json::Value)] {
        &self.reconfigured
    }

    /// The verdict of every codec when the format was detected; empty if the caller named it.
    pub fn evidence(&self) -> &[Evidence] {
        &self.evidence
    }

    /// Why this format was chosen, in a few words.
    pub fn reason(&self) -> &str {
        let own = self.evidence.iter().find(|evidence| evidence.format == self.format());
        match own.map(|evidence| &evidence.verdict) {
            Some(Match::Certain(why) | Match::Possible(why)) => why,
            _ => "as named by the user",
        }
    }

    /// The input.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// The limits that the checkpoint was opened with.
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Graph, tensors and metadata.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.contents.checkpoint
    }

    /// Everything the codec read.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The tensor called `name`. Takes logarithmic time, after an index was built by the first call.
    pub fn find(&self, name: &str) -> Option<TensorId> {
        self.index.find(&self.contents.checkpoint.tensors, name)
    }

    /// The names of the tensors that a conversion with these [patterns](crate::pattern) keeps: those that match a pattern
    /// of `include`, if it has any, and none of `exclude`. They come in the checkpoint's order.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let model = ckpt::open("examples/data/digits")?;
    /// assert_eq!(model.selected(&["**/bias".to_owned()], &[])?, ["digits/hidden/bias", "digits/digit/bias"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a malformed pattern, a pattern that matches nothing, or when no tensor is left.
    pub fn selected(&self, include: &[String], exclude: &[String]) -> Result<Vec<&str>> {
        let names: Vec<&str> = self.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let kept = Selector::choose(include, exclude, &names)?;
        Ok(names.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(name, _)| name).collect())
    }

    /// Calls `observer` from any thread with the number of bytes of values that were read since its last call, for all
    /// that is read from now on through this source and its clones. A source has one observer: the first.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// use std::sync::{Arc, atomic::{AtomicU64, Ordering::Relaxed}};
    /// let model = ckpt::open("examples/data/digits")?;
    /// let read = Arc::new(AtomicU64::new(0));
    /// let total = Arc::clone(&read);
    /// model.on_read(move |bytes| {
    ///     total.fetch_add(bytes, Relaxed);
    /// });
    /// ckpt::digest::digest(&model, 0)?;
    /// assert_eq!(read.load(Relaxed), model.value_bytes());
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_read(&self, observer: impl Fn(u64) + Send + Sync + 'static) {
        self.files.observe(Box::new(observer));
    }

    /// The same checkpoint, whose reads fail soon after the flag is set: what hashes, compares or runs it ends with
    /// that error.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// use std::sync::{Arc, atomic::{AtomicBool, Ordering::Relaxed}};
    /// let flag = Arc::new(AtomicBool::new(false));
    /// let model = ckpt::open("examples/data/digits")?.cancelable(Arc::clone(&flag));
    /// ckpt::digest::digest(&model, 0)?;
    /// flag.store(true, Relaxed);
    /// assert_eq!(ckpt::digest::digest(&model, 0).unwrap_err().kind(), ckpt::Kind::Io);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cancelable(&self, flag: Arc<AtomicBool>) -> Source {
        let files = Files::cancelable(&self.input, &self.contents, flag);
        Source { files, index: self.index.clone(), ..self.clone() }
    }

    /// Bytes of all values, as they are read: decompressed, each element in whole bytes.
    pub fn value_bytes(&self) -> u64 {
        let ids = (0..self.contents.placements.len()).map(TensorId);
        ids.fold(0, |sum: u64, id| sum.saturating_add(self.bytes_of(id)))
    }

    fn bytes_of(&self, id: TensorId) -> u64 {
        let (encoding, placement) = (self.canonical(id), &self.contents.placements[id.0]);
        let tensor = &self.contents.checkpoint.tensors[id.0];
        match (&tensor.lengths, encoding.dtype.bytes().filter(|_| encoding.blocks().is_none())) {
            (Some(lengths), _) => lengths.iter().fold(0, |sum: u64, len| sum.saturating_add(*len)),
            (None, Some(size)) => tensor.shape.elements().saturating_mul(size),
            // Blocks are handed out as they are stored.
            (None, None) => {
                placement.extents.iter().fold(0, |sum: u64, extent| sum.saturating_add(extent.len))
            }
        }
    }

    /// A checkpoint of tensors that are made of those of this one. Reads no byte.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for a recipe that does not fit its tensors.
    pub fn made(&self, targets: &[Target]) -> Result<Source> {
        let contents = made(&self.contents, targets)?;
        Ok(Source { contents: Arc::new(contents), index: Arc::default(), ..self.clone() })
    }

    /// The same checkpoint with the names, and the tensors, that a mapping makes of its own, and how it makes them.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] if it does not fit.
    pub fn renamed(&self, mapping: &Mapping, limits: &ckpt_api::Limits) -> Result<(Source, Vec<Target>)> {
        let mapping = self.with_parameters(mapping)?;
        // Its rules take the stored tensors.
        let own = if mapping.dequantizes() { self.stored() } else { self.clone() };
        let (contents, applied) = renamed(&own.contents, &mapping, limits)?;
        Ok((own.with_contents(contents), applied.targets))
    }

    /// The same checkpoint with flattened images in the order in which another graph takes them; `None` if they have it
    /// already, or if the graphs do not show the images.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for tensors that are stored in parts.
    pub fn with_images_as_in(&self, other: &ckpt_api::Graph) -> Result<Option<Source>> {
        let contents = with_images_as_in(other, &self.contents)?;
        Ok(contents.map(|contents| self.with_contents(contents)))
    }

    /// The same checkpoint without the tensors of these names.
    pub fn without(&self, names: &[String]) -> Source {
        let mut contents = self.contents().clone();
        let (mut kept, mut ids) = (0, Vec::new());
        contents.checkpoint.tensors.retain(|tensor| {
            let is_kept = !names.iter().any(|name| tensor.name.as_str() == name);
            ids.push(is_kept.then_some(kept));
            kept += usize::from(is_kept);
            is_kept
        });
        contents.placements.retain_mut(|placement| match ids.get(placement.tensor.0).copied().flatten() {
            Some(id) => {
                placement.tensor.0 = id;
                true
            }
            None => false,
        });
        self.with_contents(contents)
    }

    /// The same files with other contents.
    pub fn with_contents(&self, contents: Contents) -> Source {
        Source { contents: Arc::new(contents), index: Arc::default(), ..self.clone() }
    }

    /// The format.
    pub fn info(&self) -> &FormatInfo {
        self.codec.info()
    }

    /// How it was opened.
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// The files that tensors are read from.
    pub fn files(&self) -> &Files<'static> {
        &self.files
    }

    /// The file that was named, for people.
    pub fn shown(&self) -> String {
        self.input.display(self.input.entry())
    }

    /// The model that gives its graph to what a mapping makes of this checkpoint; `None` if names need no mapping.
    pub(crate) fn pending_graph(&self) -> Option<&ModelGraph> {
        pending_graph(&self.options, &self.contents)
    }

    /// The same checkpoint under the names of the model that gives it its graph, if they are others; `None` where
    /// they are not.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] if the mapping does not fit, [`ckpt_api::Kind::Usage`] if the graph does not.
    pub fn under_graph_names(&self) -> Result<Option<Source>> {
        let (Some(model), Some(mapping)) = (self.pending_graph(), &self.options.graph_mapping) else {
            return Ok(None);
        };
        let mapping = self.with_parameters(mapping)?;
        let (mut contents, _) = renamed(&self.contents, &mapping, &self.options.limits)?;
        give_graph(model, &mut contents, &self.shown())?;
        Ok(Some(self.with_contents(contents)))
    }

    /// How values are handed out.
    pub fn canonical(&self, id: TensorId) -> Encoding {
        canonical(&self.contents.checkpoint.tensors[id.0], &self.contents.placements[id.0])
    }

    /// A tensor's bytes in the given encoding.
    pub fn stream<'a>(&'a self, id: TensorId, target: &Encoding, budget: Budget) -> Result<TensorStream<'a>> {
        TensorStream::whole(&self.files, self.transfer(id, target)?, budget)
    }

    /// How a tensor's bytes become those of the given encoding.
    pub fn transfer<'a>(&'a self, id: TensorId, target: &Encoding) -> Result<Transfer<'a>> {
        let (tensor, placement) = self.contents.tensor_at(id)?;
        let route = compile(tensor, placement, &TargetLayout::read(target), &[])?;
        Ok(route.into_transfer(tensor, placement, target))
    }

    /// Opens the source of a plan; `options` has all that the plan does not record.
    pub(crate) fn recorded(
        formats: &Formats,
        input: &Input,
        record: &SourceRecord,
        options: OpenOptions,
    ) -> Result<Self> {
        let options = OpenOptions {
            format: Some(record.format.clone()),
            options: record.options.clone(),
            architecture: record.architecture.clone(),
            parts: record.parts,
            ..options
        };
        Self::open(formats, input.clone(), &options)
    }
}

/// The model whose graph does not fit the names of a checkpoint before they are mapped.
fn pending_graph<'a>(options: &'a OpenOptions, contents: &Contents) -> Option<&'a ModelGraph> {
    let is_pending = options.graph_mapping.is_some() && !contents.adopts_model;
    let model = options.graph.as_deref().filter(|_| is_pending)?;
    (!model.fits_names(&contents.checkpoint)).then_some(model)
}

/// Gives the contents of a file the graph of a model, in place of their own.
pub fn give_graph(model: &ModelGraph, contents: &mut Contents, file: &str) -> Result<()> {
    model.apply(&mut contents.checkpoint, contents.misfit.as_ref(), file)?;
    contents.graph_notes.clear();
    contents.missing_graph = None;
    Ok(())
}

/// The input that the user named.
fn existing(formats: &Formats, input: impl IntoInput, options: &OpenOptions) -> Result<Input> {
    input.into_input(formats.addresses(), &options.limits).map_err(|error| formats.suggest(error))
}

/// What reads an input.
struct Chosen {
    codec: Arc<dyn Codec>,
    /// The verdict of every codec, if one was looked for.
    evidence: Vec<Evidence>,
    /// The input, or the file that a directory stands for.
    input: Input,
}

/// The codec that is named, or that fits.
fn choose(formats: &Formats, input: Input, options: &OpenOptions) -> Result<Chosen> {
    if let Some(id) = &options.format {
        let codec = formats.reader(id)?;
        let is_other = input.is_directory() && matches!(codec.probe(&input), Ok(Match::No));
        let file = if is_other { directory::only_file(formats, &input, Some(id))? } else { None };
        return Ok(Chosen { codec, evidence: Vec::new(), input: file.unwrap_or(input) });
    }
    let looked_at = input.clone().remembering();
    let error = match recognize(formats, &looked_at, options.architecture.as_ref()) {
        Ok((codec, evidence)) => return Ok(Chosen { codec, evidence, input }),
        Err(error) if error.kind() == Kind::Io => return Err(error),
        Err(error) => error,
    };
    if input.is_directory()
        && let Some(file) = directory::only_file(formats, &input, None)?
    {
        return choose(formats, file, options);
    }
    Err(match formats.unread().known(&looked_at)? {
        Some(foreign) => foreign,
        None => placeholder::explain(damage(formats, &looked_at, options).unwrap_or(error), &looked_at),
    })
}

/// Refuses files of numbers alone that are texts in the place of those: nothing else may find out.
fn refuse_placeholders(input: &Input, contents: &Contents) -> Result<()> {
    // Far away, each file that is opened is a request: it is made when the numbers are read.
    if input.directory().is_none() {
        return Ok(());
    }
    let others = contents.files.iter().filter(|name| *name != input.entry() && input.has_file(name));
    others.into_iter().try_for_each(|name| placeholder::refuse(&input.file(name)?))
}

/// The format of an input: what it shows itself, or, if that is no more than possible, what the architecture file is
/// for.
fn recognize(
    formats: &Formats,
    input: &Input,
    architecture: Option<&ArchitectureFile>,
) -> Result<(Arc<dyn Codec>, Vec<Evidence>)> {
    formats.identify(input).or_else(|error| {
        if error.kind() == Kind::Io {
            return Err(error);
        }
        let named = architecture.and_then(ArchitectureFile::format).map(|id| formats.reader(id));
        match named {
            Some(Ok(codec)) if matches!(codec.probe(input), Ok(Match::Possible(_))) => {
                Ok((codec, Vec::new()))
            }
            _ => Err(error),
        }
    })
}

/// Of an input that is perhaps one format and surely none: why that format's codec cannot read it.
fn damage(formats: &Formats, input: &Input, options: &OpenOptions) -> Option<Error> {
    let mut possible = Vec::new();
    for codec in formats.codecs() {
        match codec.probe(input) {
            Ok(Match::Possible(_)) => possible.push(codec),
            Ok(_) => {}
            Err(error) => return Some(error),
        }
    }
    let [codec] = possible[..] else { return None };
    let shown = input.display(input.entry());
    let info = codec.info();
    // An option that the codec does not know must not hide those that it knows.
    let is_known =
        |key: &str| info.options.iter().any(|spec| spec.name == key && spec.side.includes(Side::Read));
    let own: Vec<_> = options.options.iter().filter(|(key, _)| is_known(key)).cloned().collect();
    let read = Options::parse(info.id, info.options, Side::Read, &own)
        .and_then(|own| codec.read(input, &own, &options.limits));
    read.err().map(|error| error.file(shown))
}

/// The architecture file, if it is for the codec itself.
fn own_architecture(info: &FormatInfo, options: &OpenOptions) -> Result<Option<ArchitectureFile>> {
    let Some((file, format)) = options.architecture.as_ref().and_then(|file| Some((file, file.format()?)))
    else {
        return Ok(None);
    };
    if format == info.id {
        return Ok(Some(file.clone()));
    }
    let error = Error::usage("the architecture file is for a different format")
        .field("format")
        .found(format!("'{format}'"))
        .expected(format!("'{}', or no format and a list of layers", info.id));
    Err(match file.name() {
        Some(name) => error.file(name),
        None => error,
    })
}

/// The note on a checkpoint without a graph.
fn missing_graph_note(contents: &Contents) -> Option<Text> {
    let missing = contents.missing_graph.as_ref()?;
    let advice = match contents.can_be_described() {
        true => text!["; ", contents.advise_graph()],
        false => Text::default(),
    };
    let mut metadata = contents.checkpoint.metadata.iter();
    let tensors = match metadata.any(|(_, keys)| keys.get(ckpt_api::KEY_WEIGHTS).is_some()) {
        true => "; some numbers of the model are no tensors",
        false if contents.is_complete() => "; the tensors are complete",
        false => "",
    };
    Some(text!["no graph: ", missing.reason.clone(), tensors, advice])
}

fn knows(info: &FormatInfo, key: &str) -> bool {
    info.options.iter().any(|spec| spec.name == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_option_does_not_hide_the_known_ones_of_a_damaged_input() {
        let damaged = |given: &[(&str, &str)]| {
            let input = Input::memory("raw.bin", [("raw.bin".to_owned(), vec![0; 12])].into());
            let given = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let options = OpenOptions { options: given, ..OpenOptions::default() };
            Source::open(&crate::Registry::for_tests(), input, &options).unwrap_err().to_string()
        };
        let (known, unknown) = (("arch", "simple:768x32x1"), ("no_such_option", "1"));
        assert_ne!(damaged(&[known]), damaged(&[]));
        assert_eq!(damaged(&[known, unknown]), damaged(&[known]));
        assert_eq!(damaged(&[unknown]), damaged(&[]));
    }
}
