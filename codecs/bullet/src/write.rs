//! Writing: which files there will be, and where every tensor goes in each of them.

use crate::architecture::{Architecture, Entry};
use crate::bind::{Bindings, Bound};
use crate::format::{
    Form, ID, KEY_LOG, KEY_PADDING, KEY_PARTS, KEY_RECORDS, KEY_STEP, LOG, MOMENTUM, PARAMS, Padding, Part,
    QUANTIZED, RAW, SLOTS, SLOW, STATE, STEP, State, VELOCITY, WEIGHTS, entries, padded, sections,
};
use crate::parameter::{Parameter, Stored};
use crate::{graph, step};
use ckpt_api::{
    Added, Block, Checkpoint, DType, Encoding, Endian, Error, Extent, FileId, Loss, LossKind, Options,
    OutputFile, Packing, Placed, Placement, Reading, Result, Rounding, Scaling,
};

/// Says where every tensor goes. See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<Placed> {
    let architecture = match Architecture::given(options)? {
        Some(architecture) => Some(architecture),
        None => Architecture::kept(checkpoint),
    };
    let architecture = Architecture::with_profile(architecture, options)?;
    let mut losses = Vec::new();
    let bindings = Bindings::new(checkpoint, architecture.as_ref(), &mut losses)?;
    let target = Target::new(checkpoint, name, options, architecture.as_ref())?;
    let mut writer = Writer {
        checkpoint,
        architecture: architecture.as_ref(),
        bindings,
        target,
        padding: choice(checkpoint, options, "padding", KEY_PADDING, Padding::from_name),
        form: choice(checkpoint, options, "records", KEY_RECORDS, Form::from_name),
        clipped: clipped_before(checkpoint),
        placed: Placed { losses, ..Placed::default() },
    };
    writer.write()?;
    writer.tell_losses();
    require_numbers(checkpoint, &writer.placed)?;
    Ok(writer.placed)
}

/// Refuses what bullet would load silently and ignore: records and files without a number.
fn require_numbers(checkpoint: &Checkpoint, placed: &Placed) -> Result<()> {
    let is_empty = |placement: &&Placement| placement.extents.iter().all(|extent| extent.len == 0);
    if let Some(placement) = placed.placements.iter().find(is_empty) {
        let tensor = checkpoint.tensors.get(placement.tensor.0).map_or("", |tensor| tensor.name.as_str());
        return Err(Error::unsupported("a weight of bullet's has at least one number")
            .tensor(tensor)
            .help("leave it out with --exclude"));
    }
    if placed.placements.is_empty() {
        return Err(Error::unsupported("bullet's files hold weights, and there is none to write"));
    }
    Ok(())
}

/// What an option says, or else what reading left in the metadata.
fn choice<T: Default>(
    checkpoint: &Checkpoint,
    options: &Options,
    option: &str,
    key: &str,
    parse: fn(&str) -> Option<T>,
) -> T {
    let asked = options.text(option).or_else(|| checkpoint.metadata.text(ID, key));
    asked.and_then(parse).unwrap_or_default()
}

/// What is to be written.
struct Target {
    /// What the names of the files begin with, for a directory; the name of the one file.
    name: String,
    single: bool,
    parts: Vec<Part>,
    /// Whether the source says itself which parts it has.
    kept: bool,
    /// Of a single file of the optimizer's, which.
    state: State,
}

impl Target {
    fn new(
        checkpoint: &Checkpoint,
        name: &str,
        options: &Options,
        architecture: Option<&Architecture>,
    ) -> Result<Self> {
        let kept = checkpoint.metadata.value(ID, KEY_PARTS).and_then(|parts| parts.as_array());
        let kept: Option<Vec<Part>> =
            kept.map(|parts| parts.iter().filter_map(|part| Part::from_name(part.as_str()?)).collect());
        let content = options.text("content").and_then(Part::from_name);
        let state = [WEIGHTS, PARAMS].into_iter().chain(SLOTS).find(|state| state.file == name);
        let single =
            content.is_some() || state.is_some() || name.ends_with(".bin") || name.ends_with(".nnue");
        let parts = match (options.list("parts"), kept.as_deref()) {
            (Some(_), _) if single => {
                return Err(Error::usage("a single file has no parts")
                    .field("parts")
                    .help("say what it holds with the option content, or name a directory as the output"));
            }
            (Some(words), _) => words.into_iter().map(part).collect::<Result<Vec<Part>>>()?,
            (None, kept) if single => {
                let engine = architecture.is_some_and(|architecture| architecture.net.engine.is_some());
                let named = match (state, name) {
                    (Some(_), _) => Some(Part::State),
                    (None, RAW) => Some(Part::Raw),
                    (None, QUANTIZED) => Some(Part::Quantized),
                    (None, _) if engine && name.ends_with(".nnue") => Some(Part::Engine),
                    _ => None,
                };
                let own = || kept.and_then(|kept| if let [own] = kept { Some(*own) } else { None });
                vec![content.or(named).or_else(own).unwrap_or(Part::Quantized)]
            }
            (None, Some(kept)) if !kept.contains(&Part::Engine) => kept.to_vec(),
            (None, _) if architecture.is_some() => vec![Part::Raw, Part::Quantized, Part::State],
            (None, _) => vec![Part::State],
        };
        let name = if single || name.is_empty() { name.to_owned() } else { format!("{name}/") };
        Ok(Target { name, single, parts, kept: kept.is_some(), state: state.unwrap_or(WEIGHTS) })
    }

    /// The path of a file.
    fn file(&self, folder: &str, name: &str) -> String {
        if self.single { self.name.clone() } else { format!("{}{folder}{name}", self.name) }
    }
}

fn part(word: &str) -> Result<Part> {
    let known = [Part::Raw, Part::Quantized, Part::State];
    known.into_iter().find(|part| part.name() == word).ok_or_else(|| {
        Error::usage("a directory has no such part")
            .field("parts")
            .found(format!("'{word}'"))
            .help(ckpt_api::nearest(word, known.iter().map(|part| part.name())))
    })
}

struct Writer<'a> {
    checkpoint: &'a Checkpoint,
    architecture: Option<&'a Architecture>,
    bindings: Bindings<'a>,
    target: Target,
    padding: Padding,
    form: Form,
    /// Entries beyond whose bounds to clip at nothing lies, or lies on purpose.
    clipped: Vec<Entry>,
    placed: Placed,
}

impl<'a> Writer<'a> {
    fn write(&mut self) -> Result<()> {
        let mut parts = self.target.parts.clone();
        parts.sort_unstable();
        parts.dedup();
        for part in parts {
            match (part, self.architecture) {
                (Part::Failed, _) => {
                    let name = self.target.file("", QUANTIZED);
                    self.placed.files.push(OutputFile { name, len: Some(0) });
                }
                (Part::State, _) if self.target.single => {
                    self.write_records(self.target.state, self.target.name.clone())?;
                    self.add_reading(part, self.target.name.clone())?;
                }
                // Last, for bullet itself reads nothing else.
                (Part::State, _) => {
                    self.write_state()?;
                    self.add_reading(part, self.target.name.trim_end_matches('/').to_owned())?;
                }
                (Part::Raw | Part::Quantized | Part::Engine, Some(architecture)) => {
                    self.write_sections(part, architecture)?
                }
                (Part::Raw | Part::Quantized, None)
                    if self.target.kept && self.target.parts.contains(&Part::State) =>
                {
                    let name = if part == Part::Raw { RAW } else { QUANTIZED };
                    let why = "not written, for it can be made of the weights only with an architecture";
                    self.placed.losses.push(Loss::new(LossKind::MetadataDropped, name, why));
                }
                (Part::Raw | Part::Quantized | Part::Engine, None) => {
                    return Err(Error::usage("how the net is saved is not known").help(
                        "describe it in an architecture file, or name a preset, such as --set arch=simple:768x32x1 \
                         (--from-set where the source is bullet's, too); parts=state needs neither",
                    ));
                }
            }
        }
        let parts_written = self.placed.files.len();
        if let Some(text) = self.checkpoint.metadata.text(ID, KEY_LOG).filter(|_| !self.target.single) {
            self.write_text(self.target.file("", LOG), text);
        }
        if parts_written == 0 {
            return Err(Error::usage("nothing is to be written").field("parts"));
        }
        Ok(())
    }

    /// raw.bin, quantised.bin or an engine's file.
    fn write_sections(&mut self, part: Part, architecture: &'a Architecture) -> Result<()> {
        let quantized = part == Part::Quantized;
        let (sections, end) = sections(architecture, part)?;
        let name = self.target.file("", if quantized { QUANTIZED } else { RAW });
        self.add_reading(part, name.clone())?;
        let file = self.add_file(name, if quantized { padded(end) } else { end });
        if part == Part::Engine {
            let engine = architecture.net.engine.as_ref().ok_or_else(|| {
                Error::usage("what the engine's file is like is not known")
                    .help("describe it under 'engine' in the architecture file, or name a profile: --set profile=plain")
            })?;
            let bytes = engine.header.0.clone();
            if !bytes.is_empty() {
                self.placed.blocks.push(Block { file, offset: 0, bytes });
            }
        }
        for section in sections {
            let Some(entry) = entries(architecture, part).get(section.entry) else { continue };
            let size = if part == Part::Raw { Some(4) } else { entry.kind.dtype().bytes() };
            let mut offset = section.offset;
            for parameter in architecture.stored_as(entry, part)?.parts {
                // Within the section, whose end is known.
                let len = parameter.elements().saturating_mul(size.unwrap_or(1));
                let extent = Extent { file, offset, len, region: None, checksum: None };
                offset = offset.saturating_add(len);
                let Some(bound) = self.source_of(WEIGHTS, &parameter.id)? else {
                    self.tell_filled(WEIGHTS, &parameter.id);
                    continue;
                };
                let (encoding, added) = match part {
                    Part::Raw => (plain(&bound)?, Vec::new()),
                    _ => self.quantized(&bound, entry)?,
                };
                let mut placement =
                    Placement::new(bound.tensor, parameter.id.as_str(), vec![extent], encoding);
                placement.added = added;
                self.placed.placements.push(placement);
            }
        }
        if quantized {
            let bytes = self.padding.bytes(end);
            if !bytes.is_empty() {
                self.placed.blocks.push(Block { file, offset: end, bytes });
            }
        }
        Ok(())
    }

    /// How a weight is stored in quantised.bin or an engine's file, and what is added to it first.
    fn quantized(&self, bound: &Bound<'a>, entry: &Entry) -> Result<(Encoding, Vec<Added>)> {
        let (source, stored) = (bound.source, entry.kind.dtype());
        let mut encoding = Encoding {
            dtype: stored,
            endian: Endian::Little,
            order: bound.order(entry.transpose)?,
            packing: Packing::Bytes,
            scaling: None,
            tiles: Vec::new(),
        };
        if let Some(parameter) = bound.parameter
            && let Some(layout) = entry.layout(parameter)?
        {
            encoding = bound.lay_out(encoding, &layout)?;
        }
        let scale = source.quantization.as_ref().map(|quantization| quantization.scale);
        let limit = entry.limit().filter(|_| {
            let mut before = self.clipped.iter().filter(|other| other.id == entry.id);
            !before.any(|other| other.limit() == entry.limit() && other.scale == entry.scale)
        });
        if source.dtype == stored && entry.scale.is_some() && scale == entry.scale && limit.is_none() {
            return Ok((encoding, Vec::new()));
        }
        bound.require_f32()?;
        encoding.scaling = entry.scaling().map(|scaling| match bound.is_quantized_as(entry) {
            // Truncation would take one from what lies a rounding error below its integer.
            true => Scaling { rounding: Rounding::Nearest, limit, ..scaling },
            false => Scaling { limit, ..scaling },
        });
        let merged = entry.merge.as_deref();
        let added = match merged.map(|id| (id, self.bindings.weight(id))) {
            None => Vec::new(),
            Some((_, Some(other))) => {
                other.require_f32()?;
                vec![Added { tensor: other.tensor, axes: bound.along(other)? }]
            }
            // It is in there already.
            Some((_, None)) if bound.quantized().is_some() => Vec::new(),
            Some((id, None)) => return Err(missing(id)),
        };
        Ok((encoding, added))
    }

    /// The folder that bullet resumes training from.
    fn write_state(&mut self) -> Result<()> {
        let weights = if self.form == Form::Headerless { PARAMS } else { WEIGHTS };
        let moments = [MOMENTUM, VELOCITY].iter().any(|state| self.bindings.of(*state).next().is_some());
        // bullet loads no weights without moments; a source of bullet's that has none is kept as it is.
        let is_state =
            self.target.kept && self.checkpoint.metadata.value(ID, KEY_PARTS).is_some_and(has_state);
        if moments || !is_state {
            for state in [MOMENTUM, VELOCITY] {
                self.write_records(state, self.target.file(STATE, state.file))?;
            }
        }
        if self.bindings.of(SLOW).next().is_some() {
            self.write_records(SLOW, self.target.file(STATE, SLOW.file))?;
        }
        self.write_steps();
        self.write_records(weights, self.target.file(STATE, weights.file))
    }

    fn write_steps(&mut self) {
        let Some(text) = self.checkpoint.metadata.text(ID, KEY_STEP) else { return };
        let weights = self.bindings.of(WEIGHTS);
        let stored =
            weights.filter(|bound| bound.parameter.is_none_or(|parameter| parameter.begins.is_none()));
        let ids = stored.map(|bound| bound.id.as_str());
        if step::check(text, ids).is_err() {
            let why = "not written, for the weights are not those that it counts the steps of";
            self.placed.losses.push(Loss::new(LossKind::CounterDropped, STEP, why));
            return;
        }
        self.write_text(self.target.file(STATE, STEP), text);
    }

    fn write_text(&mut self, name: String, text: &str) {
        let bytes = text.as_bytes().to_vec();
        let file = self.add_file(name, bytes.len() as u64);
        if !bytes.is_empty() {
            self.placed.blocks.push(Block { file, offset: 0, bytes });
        }
    }

    /// One of the optimizer's files.
    fn write_records(&mut self, state: State, name: String) -> Result<()> {
        if state.slot.is_some() && !self.target.single {
            self.bindings.check_names(state)?;
        }
        let file = self.add_file(name, 0);
        let mut end = 0u64;
        for record in self.records(state)? {
            let head = record.head(self.form).ok_or_else(|| crate::format::too_large(&record.id))?;
            let start = end;
            let mut advance = |bytes: Option<u64>| {
                let offset = end;
                end = bytes
                    .and_then(|bytes| end.checked_add(bytes))
                    .ok_or_else(|| crate::format::too_large(&record.id))?;
                Ok::<u64, Error>(offset)
            };
            advance(Some(head.len() as u64))?;
            if !head.is_empty() {
                self.placed.blocks.push(Block { file, offset: start, bytes: head });
            }
            for piece in &record.pieces {
                let len = piece.elements.checked_mul(4);
                let offset = advance(len)?;
                let Some(bound) = &piece.bound else {
                    self.tell_filled(state, &piece.id);
                    continue;
                };
                let extent = Extent { file, offset, len: len.unwrap_or(0), region: None, checksum: None };
                let placement = Placement::new(bound.tensor, piece.id.as_str(), vec![extent], plain(bound)?);
                self.placed.placements.push(placement);
            }
        }
        if let Some(output) = self.placed.files.get_mut(file.0) {
            output.len = Some(end);
        }
        Ok(())
    }

    /// What a file of the optimizer's holds, in order.
    fn records(&self, state: State) -> Result<Vec<Record<'a>>> {
        let Some(architecture) = self.architecture else {
            if self.form == Form::Headerless {
                let message = "files without ids need an architecture, for their order is that of its layers";
                return Err(Error::usage(message).field("records"));
            }
            let own = self.bindings.of(state).map(|bound| bound.id.as_str());
            let all = self.bindings.of(WEIGHTS).map(|bound| bound.id.as_str());
            return in_order(own, all).into_iter().map(|id| self.list(state, id)).collect();
        };
        let stored: Vec<Stored<'_>> = architecture.all_stored().collect();
        let own = self.bindings.of(state).filter(|_| self.form != Form::Headerless);
        // What is the first columns of another has no record.
        let own =
            own.map(|bound| bound.id.as_str()).filter(|id| stored.iter().any(|stored| stored.id == *id));
        let order = in_order(own, stored.iter().map(|stored| stored.id));
        let stored = order.iter().filter_map(|id| stored.iter().find(|stored| stored.id == *id));
        stored.map(|stored| self.record(state, stored)).collect()
    }

    /// A record of what the architecture says is stored under one id.
    fn record(&self, state: State, stored: &Stored<'_>) -> Result<Record<'a>> {
        let piece = |parameter: &&Parameter| {
            let bound = self.source_of(state, &parameter.id)?;
            Ok(Piece { id: parameter.id.clone(), elements: parameter.elements(), bound })
        };
        let pieces = stored.parts.iter().map(piece).collect::<Result<Vec<_>>>()?;
        let own = self.bindings.of(state).find(|bound| bound.id == stored.id);
        let kept = own.and_then(Bound::kept_rows);
        Ok(Record { id: stored.id.to_owned(), kept, rows: stored.rows_and_columns().0, pieces })
    }

    /// A record of a tensor of which no more is known than how many numbers it has.
    fn list(&self, state: State, id: &str) -> Result<Record<'a>> {
        let own = self.bindings.of(state).find(|bound| bound.id == id);
        let like = own.or_else(|| self.bindings.weight(id)).ok_or_else(|| missing(id))?;
        let elements = like.source.shape.elements();
        let bound = self.source_of(state, id)?;
        let pieces = vec![Piece { id: id.to_owned(), elements, bound }];
        Ok(Record { id: id.to_owned(), kept: like.kept_rows(), rows: elements, pieces })
    }

    /// What is written as a weight, or what is kept for it; `None` for zeros.
    fn source_of(&self, state: State, id: &str) -> Result<Option<Bound<'a>>> {
        let own = self.bindings.of(state).find(|bound| bound.id == id);
        match (own, state.slot) {
            (Some(bound), _) => Ok(Some(bound.clone())),
            (None, None) if self.is_merged(id) => Ok(None),
            (None, None) => Err(missing(id)),
            // What is slow begins as what is fast.
            (None, Some(_)) if state == SLOW => Ok(self.bindings.weight(id).cloned()),
            (None, Some(_)) => Ok(None),
        }
    }

    fn tell_filled(&mut self, state: State, id: &str) {
        let why = match state.slot {
            None => "it is merged into others already, so that zeros in its place compute the same",
            Some(_) => "the source has none: zeros are written",
        };
        self.placed.losses.push(Loss::new(LossKind::Filled, format!("{}{id}", state.prefix), why));
    }

    /// Whether the weight is one that others hold already, so that zeros in its place change nothing.
    fn is_merged(&self, id: &str) -> bool {
        let mut into =
            self.architecture.into_iter().flat_map(|architecture| architecture.merging(id)).peekable();
        into.peek().is_some()
            && into
                .all(|entry| self.bindings.weight(&entry.id).is_some_and(|bound| bound.quantized().is_some()))
    }

    /// The files say little of themselves.
    fn add_reading(&mut self, part: Part, entry: String) -> Result<()> {
        let architecture = self.architecture.map(Architecture::file).transpose()?;
        let records = (part == Part::State).then_some(("records", self.form.name()));
        let content = (self.target.single || part != Part::State).then_some(("content", part.name()));
        let options = [records, content].into_iter().flatten();
        let options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        self.placed.readings.push(Reading { entry, options, architecture });
        Ok(())
    }

    fn add_file(&mut self, name: String, len: u64) -> FileId {
        self.placed.files.push(OutputFile { name, len: Some(len) });
        FileId(self.placed.files.len() - 1)
    }

    /// What no file that is written holds.
    fn tell_losses(&mut self) {
        let steps = (KEY_STEP, STEP, LossKind::CounterDropped);
        for (key, name, kind) in [steps, (KEY_LOG, LOG, LossKind::MetadataDropped)] {
            let there = |file: &OutputFile| file.name.rsplit('/').next() == Some(name);
            let told = |loss: &Loss| loss.subject == name;
            if self.checkpoint.metadata.text(ID, key).is_some()
                && !self.placed.files.iter().any(there)
                && !self.placed.losses.iter().any(told)
            {
                let why = "the files that are written have no place for it";
                self.placed.losses.push(Loss::new(kind, name, why));
            }
        }
        let Placed { placements, losses, .. } = &mut self.placed;
        for bound in &self.bindings.all {
            let own = || placements.iter().filter(|placement| placement.tensor == bound.tensor);
            let added = placements.iter().flat_map(|placement| &placement.added);
            if own().next().is_none() {
                let (kind, why) = match added.clone().any(|added| added.tensor == bound.tensor) {
                    true => (LossKind::Merged, "added to others, from which it cannot be told again"),
                    false => {
                        let kind = LossKind::of_dropping(bound.source.role);
                        (kind, "the files that are written do not hold it")
                    }
                };
                losses.push(Loss::new(kind, &bound.source.name, why));
            } else if own().next().is_some() && own().all(|placement| rounds(placement, bound)) {
                let why = "stored as scaled integers";
                losses.push(Loss::new(LossKind::Quantized, &bound.source.name, why));
            }
            let clipped = own().map(clips).collect::<Option<Vec<String>>>();
            if let Some(why) = clipped.and_then(|all| all.into_iter().next()) {
                losses.push(Loss::new(LossKind::Clipped, &bound.source.name, why));
            }
            for (namespace, _) in bound.source.metadata.iter().filter(|(namespace, _)| *namespace != ID) {
                losses.push(Loss::new(
                    LossKind::MetadataDropped,
                    &bound.source.name,
                    format!("its metadata of '{namespace}'"),
                ));
            }
        }
        let Some(own) = &self.checkpoint.graph else { return };
        let built =
            self.architecture.and_then(|architecture| graph::build(architecture, self.checkpoint).ok());
        if built.as_ref() != Some(own) {
            let name = if own.name.is_empty() { "graph" } else { &own.name };
            let why = "bullet's files do not say what the net computes: keep the architecture file";
            losses.push(Loss::new(LossKind::GraphDropped, name, why));
        }
    }
}

/// What a limit does to the values that are stored so.
fn clips(placement: &Placement) -> Option<String> {
    let Scaling { scale, limit, .. } = placement.encoding.scaling?;
    limit.map(|limit| format!("what is further from 0 than {limit}/{scale} is stored as that"))
}

/// What an engine's file held that was read, which was clipped when it was written.
fn clipped_before(checkpoint: &Checkpoint) -> Vec<Entry> {
    let parts = checkpoint.metadata.value(ID, KEY_PARTS).and_then(|parts| parts.as_array());
    let is_engine = parts.is_some_and(|parts| parts.iter().any(|part| part == Part::Engine.name()));
    let kept = Architecture::kept(checkpoint).filter(|_| is_engine);
    kept.and_then(|architecture| architecture.net.engine).map(|engine| engine.members).unwrap_or_default()
}

/// Whether storing the values so changes them.
fn rounds(placement: &Placement, bound: &Bound<'_>) -> bool {
    let scale = placement.encoding.scaling.map(|scaling| u64::from(scaling.scale.get()));
    scale.is_some() && bound.quantized() != scale
}

fn has_state(parts: &serde_json::Value) -> bool {
    parts.as_array().is_some_and(|parts| parts.iter().any(|part| part == Part::State.name()))
}

/// Those of the source's own order, then the others.
fn in_order<'a>(own: impl Iterator<Item = &'a str>, all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut ids: Vec<&str> = own.collect();
    let others: Vec<&str> = all.filter(|id| !ids.contains(id)).collect();
    ids.extend(others);
    ids
}

/// One record to be written.
struct Record<'a> {
    id: String,
    /// The rows that an old record stated, and those that the architecture says.
    kept: Option<u64>,
    rows: u64,
    /// One behind the other.
    pieces: Vec<Piece<'a>>,
}

/// A tensor, or zeros in its place.
struct Piece<'a> {
    id: String,
    elements: u64,
    bound: Option<Bound<'a>>,
}

impl Record<'_> {
    /// What comes before the numbers; `None` where they are too many.
    fn head(&self, form: Form) -> Option<Vec<u8>> {
        let elements = self.pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.elements))?;
        let kept = self.kept.filter(|rows| *rows > 0 && elements.is_multiple_of(*rows));
        let rows = kept.unwrap_or(self.rows);
        let columns = elements.checked_div(rows).unwrap_or(0);
        let numbers: &[u64] = match form {
            Form::Headerless => return Some(Vec::new()),
            Form::Current => &[elements],
            Form::Rows => &[rows, columns],
        };
        let mut head = format!("{}\n", self.id).into_bytes();
        numbers.iter().for_each(|number| head.extend(number.to_le_bytes()));
        Some(head)
    }
}

/// 32-bit floats, column-major.
fn plain(bound: &Bound<'_>) -> Result<Encoding> {
    bound.require_f32()?;
    let order = bound.order(false)?;
    Ok(Encoding {
        dtype: DType::F32,
        endian: Endian::Little,
        order,
        packing: Packing::Bytes,
        scaling: None,
        tiles: Vec::new(),
    })
}

fn missing(id: &str) -> Error {
    Error::usage("the source has not all weights of the net")
        .tensor(id)
        .help("raw.bin lacks what is only merged into others: read weights.bin or quantised.bin; rename tensors with --map where they are called differently")
}
