//! Reading: which files there are, what each of them is, and where its tensors lie.

use crate::architecture::{Architecture, Entry, EntryType};
use crate::compare::{self, Weights};
use crate::format::{
    Form, ID, KEY_ARCHITECTURE, KEY_ID, KEY_LOG, KEY_PADDING, KEY_PARTS, KEY_QUANTISED, KEY_RECORDS,
    KEY_ROWS, KEY_STEP, LOG, MOMENTUM, PARAMS, Padding, Part, QUANTIZED, RAW, SLOTS, SLOW, STATE, STEP,
    Section, State, VELOCITY, WEIGHTS, entries, padded, sections,
};
use crate::parameter::Parameter;
use crate::records::{self, Record};
use crate::{engine, graph, preset, propose, step};
use ckpt_api::{
    Contents, DType, Encoding, Endian, Error, Extent, File, FileId, Input, Limit, Limits, Match, Options,
    Packing, Placement, Quantization, Result, Role, Shape, Slot, Tensor, TensorId,
};
use std::num::NonZeroU32;

/// Certain where a file is records to its end, or ends with bullet's name; possible where files are called as bullet
/// calls them.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if !input.is_directory() {
        return if input.is_file() { probe_file(input, input.entry()) } else { Ok(Match::No) };
    }
    let mut verdict = Match::No;
    for name in [&format!("{STATE}{}", WEIGHTS.file), WEIGHTS.file, QUANTIZED, RAW] {
        if !input.has_file(name) {
            continue;
        }
        match probe_file(input, name)? {
            certain @ Match::Certain(_) => return Ok(certain),
            Match::Possible(why) if verdict == Match::No => verdict = Match::Possible(why),
            _ => {}
        }
    }
    let params = [format!("{STATE}{}", PARAMS.file), PARAMS.file.to_owned()];
    match params.iter().find(|name| input.has_file(name)) {
        Some(name) if verdict == Match::No => Ok(Match::Possible(format!("it has a file '{name}'"))),
        _ => Ok(verdict),
    }
}

fn probe_file(input: &Input, name: &str) -> Result<Match> {
    let file = input.file(name)?;
    if let Some(count) = records::count(&file)? {
        return Ok(Match::Certain(format!("{name} is {count} records to its last byte")));
    }
    if ends_with_name(&file)? {
        return Ok(Match::Certain(format!("{name} is filled up to a multiple of 64 bytes with 'bullet'")));
    }
    let base = base(name);
    let known = [RAW, QUANTIZED, WEIGHTS.file, PARAMS.file, MOMENTUM.file, VELOCITY.file, SLOW.file];
    Ok(match known.contains(&base) {
        true => Match::Possible(format!("bullet calls a file '{base}'")),
        false => Match::No,
    })
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Whether the file is filled up with at least one whole `bullet`.
fn ends_with_name(file: &File) -> Result<bool> {
    let whole = padded(1);
    if file.len() < whole || !file.len().is_multiple_of(whole) {
        return Ok(false);
    }
    let tail = file.bytes(file.len() - whole, whole)?;
    Ok((6..whole).any(|len| {
        let filler = Padding::Name.bytes(whole - len);
        tail.ends_with(&filler)
    }))
}

/// Bytes of the longest log that is kept: a line for every 32 batches of a long training.
const LONGEST_LOG: u64 = 16 << 20;

/// Reads everything but the numbers.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut reader = Reader {
        input,
        limits,
        integers: options.flag("integers"),
        check: options.flag("check"),
        form: options.text("records").and_then(Form::from_name),
        optimizer: options.text("optimiser"),
        architecture: Architecture::with_profile(Architecture::given(options)?, options)?,
        contents: Contents::default(),
        parts: Vec::new(),
    };
    match input.is_directory() {
        true => reader.read_directory()?,
        false => reader.read_single(options.text("content"))?,
    }
    reader.finish()
}

struct Reader<'a> {
    input: &'a Input,
    limits: &'a Limits,
    integers: bool,
    check: bool,
    form: Option<Form>,
    optimizer: Option<&'a str>,
    architecture: Option<Architecture>,
    contents: Contents,
    parts: Vec<Part>,
}

impl Reader<'_> {
    /// The optimizer's weights where there are any, for only they are complete; else raw.bin; else quantised.bin.
    fn read_directory(&mut self) -> Result<()> {
        let holds = |folder: &str, state: State| self.input.has_file(&format!("{folder}{}", state.file));
        let folders = [STATE, ""].into_iter().flat_map(|folder| [(folder, WEIGHTS), (folder, PARAMS)]);
        let state = folders.into_iter().find(|(folder, weights)| holds(folder, *weights));
        let orphans =
            [STATE, ""].into_iter().find(|folder| SLOTS.into_iter().any(|slot| holds(folder, slot)));
        if let (None, Some(folder)) = (state, orphans) {
            return Err(Error::corrupt("the optimizer's files are there, and the weights are not")
                .file(self.input.display(&format!("{folder}{}", WEIGHTS.file)))
                .help("copy the whole folder again, or name raw.bin or quantised.bin itself"));
        }
        let (raw, quantized) = (self.input.has_file(RAW), self.input.has_file(QUANTIZED));
        self.read_log()?;
        if let Some((folder, weights)) = state {
            self.read_state(folder, weights)?;
            if raw {
                self.check_beside(Part::Raw)?;
            }
            if quantized {
                self.check_beside(Part::Quantized)?;
            }
        } else if raw {
            self.read_sections(RAW, Part::Raw)?;
            if quantized {
                self.check_beside(Part::Quantized)?;
            }
        } else if quantized {
            self.read_sections(QUANTIZED, Part::Quantized)?;
        } else {
            return Err(Error::usage("the directory is no checkpoint of bullet's")
                .file(self.input.display(""))
                .expected(format!("{STATE}{}, {RAW} or {QUANTIZED}", WEIGHTS.file)));
        }
        if self.check && self.parts.len() < 2 {
            return Err(nothing_to_check(&self.input.display("")));
        }
        Ok(())
    }

    /// The training's log, which some checkpoints have beside their files.
    fn read_log(&mut self) -> Result<()> {
        if !self.input.has_file(LOG) {
            return Ok(());
        }
        let file = self.input.file(LOG)?;
        let fits = file.len() <= LONGEST_LOG && self.limits.check(Limit::HeaderBytes, file.len()).is_ok();
        let text = if fits { String::from_utf8(file.bytes(0, file.len())?).ok() } else { None };
        match text {
            Some(text) => self.contents.checkpoint.metadata.insert(ID, KEY_LOG, text),
            None => self.contents.notes.push(format!("{LOG} is too long, or no text: it is not kept")),
        }
        Ok(())
    }

    fn read_single(&mut self, content: Option<&str>) -> Result<()> {
        if self.check {
            return Err(nothing_to_check(self.input.entry()));
        }
        let name = self.input.entry().to_owned();
        let file = self.input.main()?;
        let state = [WEIGHTS, PARAMS].into_iter().chain(SLOTS).find(|state| state.file == base(&name));
        let part = match (content.and_then(Part::from_name), base(&name), state) {
            (Some(part), ..) => part,
            (None, RAW, _) => Part::Raw,
            (None, QUANTIZED, _) => Part::Quantized,
            (None, _, Some(_)) => Part::State,
            (None, ..) if records::count(&file)?.is_some() => Part::State,
            (None, ..) => self.by_size(&file)?,
        };
        match part {
            Part::State => {
                let state = state.unwrap_or(WEIGHTS);
                let (form, records) = self.records(&file, state == PARAMS)?;
                self.keep_form(form);
                self.add_records(&name, state, &records)?;
                self.parts.push(Part::State);
                Ok(())
            }
            part => self.read_sections(&name, part),
        }
    }

    /// What a file must be that has neither a telling name nor records.
    fn by_size(&self, file: &File) -> Result<Part> {
        let Some(architecture) = &self.architecture else { return Err(needs_architecture(file)) };
        let mut sizes = vec![
            (Part::Raw, RAW, sections(architecture, Part::Raw)?.1),
            (Part::Quantized, QUANTIZED, padded(sections(architecture, Part::Quantized)?.1)),
        ];
        if architecture.net.engine.is_some() {
            sizes.push((Part::Engine, "file of the engine's", sections(architecture, Part::Engine)?.1));
        }
        let fitting: Vec<Part> =
            sizes.iter().filter(|(.., size)| *size == file.len()).map(|(part, ..)| *part).collect();
        let help = "say which with the option content";
        let sizes: Vec<String> =
            sizes.iter().map(|(_, what, size)| format!("{size} bytes for a {what}")).collect();
        match fitting[..] {
            [part] => Ok(part),
            [] => Err(Error::usage("the architecture does not fit the file")
                .file(file.name())
                .found(format!("{} bytes", file.len()))
                .expected(sizes.join(", or "))
                .help(help)),
            _ => Err(Error::usage("the file may be a raw.bin as well as a quantised.bin or an engine's")
                .file(file.name())
                .found(format!("{} bytes", file.len()))
                .help(help)),
        }
    }

    /// The optimizer's files in a folder: the weights, and what else it keeps for each of them.
    fn read_state(&mut self, folder: &str, weights: State) -> Result<()> {
        let name = |file: &str| format!("{folder}{file}");
        let (form, own) = self.records(&self.input.file(&name(weights.file))?, weights == PARAMS)?;
        self.keep_form(form);
        self.add_records(&name(weights.file), weights, &own)?;
        let there = |state: &State| self.input.has_file(&name(state.file));
        let moments = self.optimizer.is_some() || there(&MOMENTUM) || there(&VELOCITY);
        let slow = self.optimizer == Some("ranger");
        let wanted: Vec<State> = SLOTS
            .into_iter()
            .filter(|state| there(state) || if *state == SLOW { slow } else { moments })
            .collect();
        self.form = Some(form);
        if wanted.is_empty() {
            let note = "the optimizer's weights are alone: bullet itself resumes no training without momentum.bin and velocity.bin";
            self.contents.notes.push(note.to_owned());
        }
        for state in wanted {
            let file = self.input.file(&name(state.file)).map_err(|error| {
                error.help("the optimizer's files belong together, and bullet loads none without the others")
            })?;
            let (_, records) = self.records(&file, form == Form::Headerless)?;
            same_weights(&own, &records).map_err(|error| error.file(file.name()))?;
            self.add_records(&name(state.file), state, &records)?;
        }
        if self.optimizer == Some("radam") || self.input.has_file(&name(STEP)) {
            let file = self.input.file(&name(STEP))?;
            let text = step::read(&file, &own, self.limits).map_err(|error| error.file(file.name()))?;
            self.contents.checkpoint.metadata.insert(ID, KEY_STEP, text);
        }
        self.parts.push(Part::State);
        Ok(())
    }

    /// The records of a file, which fit the architecture if there is one.
    fn records(&self, file: &File, headerless: bool) -> Result<(Form, Vec<Record>)> {
        let named = |error: Error| error.file(file.name());
        if headerless || self.form == Some(Form::Headerless) {
            let architecture = self.architecture.as_ref().ok_or_else(|| needs_architecture(file))?;
            return Ok((Form::Headerless, records::headerless(file, architecture)?));
        }
        match (records::read(file, self.architecture.as_ref(), self.form, self.limits), &self.architecture) {
            (Ok((form, records)), Some(architecture)) => {
                records::check(&records, architecture).map_err(named)?;
                Ok((form, records))
            }
            (Ok(found), None) => Ok(found),
            (Err(error), _) => Err(error),
        }
    }

    fn keep_form(&mut self, form: Form) {
        if form != Form::Current {
            self.contents.checkpoint.metadata.insert(ID, KEY_RECORDS, form.name());
        }
    }

    fn add_records(&mut self, name: &str, state: State, records: &[Record]) -> Result<()> {
        let file = self.add_file(name);
        for record in records {
            let mut offset = record.offset;
            for (id, tensor, order) in tensors(record, state, self.architecture.as_ref())? {
                let len = tensor.shape.elements().saturating_mul(4);
                let extent = Extent { file, offset, len, region: None, checksum: None };
                self.add(tensor, &id, extent, encoding(order));
                // Within the record, as was checked.
                offset = offset.saturating_add(len);
            }
        }
        Ok(())
    }

    /// The tensors of raw.bin, quantised.bin or an engine's file.
    fn read_sections(&mut self, name: &str, part: Part) -> Result<()> {
        let source = self.input.file(name)?;
        let quantized = part != Part::Raw;
        if part == Part::Quantized && source.is_empty() {
            return Err(without_bytes(&source));
        }
        let Some(architecture) = self.architecture.take() else { return Err(needs_architecture(&source)) };
        let sections = match part {
            Part::Engine => engine::check(&architecture, &source)?,
            _ => self.check_sections(&architecture, &source, part)?,
        };
        let file = self.add_file(name);
        for section in sections {
            let Some(entry) = entries(&architecture, part).get(section.entry) else { continue };
            let wide = quantized && entry.kind == EntryType::I32 && !self.integers;
            let inexact = wide && compare::has_inexact(&source, &section)?;
            if inexact {
                self.contents.notes.push(format!(
                    "'{}' has integers that no 32-bit float leads back to: integers=true keeps them",
                    entry.id
                ));
            }
            let mut offset = section.offset;
            for parameter in architecture.stored_as(entry, part)?.parts {
                let mut tensor = parameter.tensor(&parameter.id);
                tensor.metadata.insert(ID, KEY_ID, parameter.id.as_str());
                if let Some(merged) = entry.merge.as_ref().filter(|_| quantized) {
                    self.contents.notes.push(format!(
                        "'{merged}' is merged into '{}', from which it cannot be told again",
                        entry.id
                    ));
                }
                let encoding = match quantized {
                    true => quantized_as(entry, parameter, &mut tensor, self.integers, inexact)?,
                    false => encoding(parameter.order(false)),
                };
                let size = encoding.dtype.bytes().unwrap_or(1);
                // Within the section, as was checked.
                let len = parameter.elements().saturating_mul(size);
                let extent = Extent { file, offset, len, region: None, checksum: None };
                self.add(tensor, &parameter.id, extent, encoding);
                offset = offset.saturating_add(len);
            }
        }
        self.architecture = Some(architecture);
        self.parts.push(part);
        Ok(())
    }

    /// Checks a file that holds in another form what was read already.
    fn check_beside(&mut self, part: Part) -> Result<()> {
        let file = self.input.file(if part == Part::Raw { RAW } else { QUANTIZED })?;
        if part == Part::Quantized && file.is_empty() {
            self.contents.notes.push(format!(
                "{QUANTIZED} has no bytes: bullet leaves it so when a number does not fit its integers"
            ));
            self.parts.push(Part::Failed);
            return Ok(());
        }
        match self.architecture.take() {
            Some(architecture) => {
                let sections = self.check_sections(&architecture, &file, part)?;
                if self.check {
                    let weights = Weights { input: self.input, contents: &self.contents };
                    compare::compare(&architecture, part, &file, &sections, &weights)?;
                }
                self.architecture = Some(architecture);
            }
            None if self.check => return Err(needs_architecture(&file)),
            None => {}
        }
        self.parts.push(part);
        Ok(())
    }

    /// Whether the file ends where its last entry does; what fills quantised.bin up is kept.
    fn check_sections(
        &mut self,
        architecture: &Architecture,
        file: &File,
        part: Part,
    ) -> Result<Vec<Section>> {
        let quantized = part == Part::Quantized;
        let (sections, end) = sections(architecture, part)?;
        records::check_lengths(architecture, part, file, &sections)?;
        let expected = if quantized { padded(end) } else { end };
        if file.len() > expected {
            return Err(records::too_long(file, end));
        }
        if file.len() < expected {
            return Err(Error::corrupt("the file is not filled up to a multiple of 64 bytes")
                .file(file.name())
                .offset(end)
                .found(format!("{} bytes", file.len()))
                .expected(format!("{expected} bytes")));
        }
        let filler = file.bytes(end, expected - end)?;
        let padding = [Padding::Name, Padding::Zero].into_iter().find(|padding| padding.bytes(end) == filler);
        match padding.filter(|_| quantized) {
            Some(Padding::Zero) => {
                self.contents.checkpoint.metadata.insert(ID, KEY_PADDING, Padding::Zero.name());
            }
            Some(Padding::Name) => {}
            None if filler.is_empty() => {}
            None => {
                return Err(Error::corrupt("what follows the last entry is not bullet's filler")
                    .file(file.name())
                    .offset(end)
                    .found(format!("\"{}\"", filler.escape_ascii()))
                    .expected("the text bullet, again and again, or zeros")
                    .help("the architecture may be that of another net"));
            }
        }
        Ok(sections)
    }

    fn add_file(&mut self, name: &str) -> FileId {
        self.contents.files.push(name.to_owned());
        FileId(self.contents.files.len() - 1)
    }

    fn add(&mut self, tensor: Tensor, stored: &str, extent: Extent, encoding: Encoding) {
        let id = TensorId(self.contents.checkpoint.tensors.len());
        self.contents.placements.push(Placement::new(id, stored, vec![extent], encoding));
        self.contents.checkpoint.tensors.push(tensor);
    }

    /// Adds what is known of the whole.
    fn finish(self) -> Result<Contents> {
        let Reader { mut contents, architecture, mut parts, integers, .. } = self;
        self.limits.check(Limit::Tensors, contents.checkpoint.tensors.len() as u64)?;
        parts.sort_unstable();
        let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
        contents.checkpoint.metadata.insert(ID, KEY_PARTS, names);
        match architecture {
            Some(architecture) => {
                match graph::build(&architecture, &contents.checkpoint) {
                    Ok(graph) if !integers => contents.checkpoint.graph = Some(graph),
                    Ok(_) => {}
                    Err(why) => contents.notes.push(why),
                }
                contents.checkpoint.metadata.insert(ID, KEY_ARCHITECTURE, architecture.file()?.document);
            }
            None => contents.notes.extend(propose::propose(&contents.checkpoint.tensors)),
        }
        Ok(contents)
    }
}

/// What a record holds: for each tensor its id, the tensor, and its stored axis order.
fn tensors(
    record: &Record,
    state: State,
    architecture: Option<&Architecture>,
) -> Result<Vec<(String, Tensor, Vec<usize>)>> {
    let named = |id: &str| format!("{}{id}", state.prefix);
    let mut all = match (architecture, record.rows) {
        (Some(architecture), _) => {
            let parts = architecture.stored(&record.id)?.parts.into_iter();
            let part = |part: &Parameter| (part.id.clone(), part.tensor(named(&part.id)), part.order(false));
            parts.map(part).collect()
        }
        (None, rows) => {
            let columns = rows.map(|rows| record.count.checked_div(rows).unwrap_or(0));
            let shape = rows.zip(columns).map_or(vec![record.count], |(rows, columns)| vec![rows, columns]);
            let order = (0..shape.len()).rev().collect();
            let tensor = Tensor::new(named(&record.id), DType::F32, Shape::new(shape)?);
            vec![(record.id.clone(), tensor, order)]
        }
    };
    for (id, tensor, _) in &mut all {
        if let Some(rows) = record.rows {
            tensor.metadata.insert(ID, KEY_ROWS, rows);
        }
        match state.slot {
            Some(slot) => {
                tensor.role = Role::Optimizer;
                tensor.slot = Some(Box::new(Slot { variable: id.clone(), name: slot.to_owned() }));
            }
            None => tensor.metadata.insert(ID, KEY_ID, id.as_str()),
        }
    }
    Ok(all)
}

/// How quantised.bin or an engine's file stores a parameter, and what its tensor is then.
fn quantized_as(
    entry: &Entry,
    parameter: &Parameter,
    tensor: &mut Tensor,
    integers: bool,
    inexact: bool,
) -> Result<Encoding> {
    let mut encoding = encoding(parameter.order(entry.transpose));
    if let Some(layout) = entry.layout(parameter)? {
        let axes: Vec<usize> = (0..parameter.shape.rank()).collect();
        encoding = layout.apply(encoding, &axes);
    }
    encoding.dtype = entry.kind.dtype();
    match entry.scale.filter(|_| integers) {
        Some(scale) => {
            tensor.dtype = entry.kind.dtype();
            tensor.quantization = Some(Quantization { scale });
        }
        None => encoding.scaling = entry.scaling(),
    }
    if entry.scale.is_some() || entry.merge.is_some() {
        let exact = entry.scale.filter(|_| !inexact);
        tensor.metadata.insert(ID, KEY_QUANTISED, exact.map_or(0, NonZeroU32::get));
    }
    Ok(encoding)
}

/// 32-bit floats in this order.
fn encoding(order: Vec<usize>) -> Encoding {
    Encoding {
        dtype: DType::F32,
        endian: Endian::Little,
        order,
        packing: Packing::Bytes,
        scaling: None,
        tiles: Vec::new(),
    }
}

/// What the optimizer keeps, it keeps for every weight.
fn same_weights(weights: &[Record], records: &[Record]) -> Result<()> {
    for record in records {
        match weights.iter().find(|weight| weight.id == record.id) {
            None => {
                return Err(Error::corrupt("a record belongs to no weight").tensor(&record.id));
            }
            Some(weight) if weight.count != record.count => {
                return Err(Error::corrupt("a record does not have as many numbers as the weight has")
                    .tensor(&record.id)
                    .offset(record.offset)
                    .found(record.count.to_string())
                    .expected(weight.count.to_string()));
            }
            Some(_) => {}
        }
    }
    match weights.iter().find(|weight| records.iter().all(|record| record.id != weight.id)) {
        Some(weight) => Err(Error::corrupt("a weight has no record")
            .tensor(&weight.id)
            .help("bullet itself would load the file silently and keep its initial values")),
        None => Ok(()),
    }
}

fn nothing_to_check(name: &str) -> Error {
    Error::usage("there is nothing to compare")
        .file(name)
        .field("check")
        .expected(format!("a directory with {RAW} or {QUANTIZED} beside other files"))
}

fn needs_architecture(file: &File) -> Error {
    Error::usage("the file holds numbers alone: it does not say what they are")
        .file(file.name())
        .found(format!("{} bytes", file.len()))
        .help(format!(
            "describe the net in an architecture file (--arch), or name a preset, such as --set arch={}",
            preset::SYNTAX
        ))
}

fn without_bytes(file: &File) -> Error {
    Error::corrupt("bullet could not quantize the net, and left the file without bytes")
        .file(file.name())
        .found("0 bytes")
        .help("a number did not fit its integers: clip the weights or choose smaller scales; raw.bin and optimiser_state of the same checkpoint are whole")
}
