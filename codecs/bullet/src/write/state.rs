//! Writes the optimizer's files.

use super::bind::Binding;
use super::context::{Context, missing};
use super::output::Output;
use super::sections::floats;
use crate::format::{
    Content, ID, KEY_STEP, MOMENTUM, PARAMS, RecordForm, SLOW, STEP, StateFile, VELOCITY, WEIGHTS,
};
use crate::net::architecture::Architecture;
use crate::net::parameter::{Parameter, StoredWeight};
use crate::net::section::too_large;
use crate::step;
use ckpt_api::{Error, FileId, LossKind, Result, Setting, Writer, text};
use std::collections::{HashMap, HashSet};

/// Adds the folder that bullet resumes training from.
pub(super) fn write_folder(context: &Context<'_>, output: &mut Output) -> Result<()> {
    let path = |name: &str| context.target.path(context.state_folder(), name);
    let exists = |state| context.bindings.of(state).next().is_some();
    let weights = if context.form == RecordForm::Headerless { PARAMS } else { WEIGHTS };
    // bullet does not load weights without moments, so they are filled in; but a folder of bullet's that has none is
    // written as it was.
    if exists(MOMENTUM) || exists(VELOCITY) || !context.target.source_has(Content::State) {
        for state in [MOMENTUM, VELOCITY] {
            context.bindings.check_names(state)?;
            write_file(context, output, state, path(state.name))?;
        }
    }
    if exists(SLOW) {
        context.bindings.check_names(SLOW)?;
        write_file(context, output, SLOW, path(SLOW.name))?;
    }
    write_steps(context, output);
    write_file(context, output, weights, path(weights.name))
}

fn write_steps(context: &Context<'_>, output: &mut Output) {
    let Some(text) = context.checkpoint.metadata.text(ID, KEY_STEP) else { return };
    let has_record =
        |binding: &&Binding<'_>| binding.parameter.is_none_or(|parameter| parameter.leads.is_none());
    let ids = context.bindings.of(WEIGHTS).filter(has_record).map(|binding| binding.id);
    match step::check(text, ids) {
        Ok(()) => output.add_text(context.target.path(context.state_folder(), STEP), text),
        Err(_) => {
            output.add_loss(LossKind::CounterDropped, STEP, "it counts the steps of different weights");
        }
    }
}

/// Adds one file.
pub(super) fn write_file(
    context: &Context<'_>,
    output: &mut Output,
    state: StateFile,
    name: String,
) -> Result<()> {
    let file = output.add_file(name, 0);
    let mut end = 0;
    for record in records(context, state)? {
        end = write_record(context.form, output, state, (file, end), &record)?;
    }
    if let Some(output) = output.placed.files.get_mut(file.0) {
        output.len = Some(end);
    }
    Ok(())
}

/// Adds a record at an offset, and returns its end.
fn write_record(
    form: RecordForm,
    output: &mut Output,
    state: StateFile,
    (file, start): (FileId, u64),
    record: &Record<'_>,
) -> Result<u64> {
    let end = |offset: u64, len: Option<u64>| {
        len.and_then(|len| offset.checked_add(len)).ok_or_else(|| too_large(record.id))
    };
    let head = record.head(form).ok_or_else(|| too_large(record.id))?;
    let mut offset = end(start, Some(head.len() as u64))?;
    output.add_block(file, start, head);
    for part in &record.parts {
        let after = end(offset, part.elements.checked_mul(4))?;
        match part.source {
            None => output.add_filled(state, part.id),
            Some(binding) => {
                let range = (file, offset, after - offset);
                output.add_tensor(binding, part.id, range, floats(binding)?, Vec::new());
            }
        }
        offset = after;
    }
    Ok(offset)
}

/// One record to write.
struct Record<'a> {
    id: &'a str,
    /// The number of rows that the source's record stated.
    stated_rows: Option<u64>,
    /// The number of rows of the matrix.
    rows: u64,
    parts: Vec<Part<'a>>,
}

/// A tensor in a record.
struct Part<'a> {
    id: &'a str,
    elements: u64,
    /// `None` for zeros.
    source: Option<&'a Binding<'a>>,
}

impl Record<'_> {
    /// Returns the bytes before the values; `None` if there are too many values.
    fn head(&self, form: RecordForm) -> Option<Vec<u8>> {
        let elements = self.parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.elements))?;
        let stated = self.stated_rows.filter(|rows| *rows > 0 && elements.is_multiple_of(*rows));
        let rows = stated.unwrap_or(self.rows);
        let columns = elements.checked_div(rows).unwrap_or(0);
        let numbers: &[u64] = match form {
            RecordForm::Headerless => return Some(Vec::new()),
            RecordForm::Current => &[elements],
            RecordForm::Rows => &[rows, columns],
        };
        let mut head = Writer::new();
        head.bytes(self.id.as_bytes()).bytes(b"\n").numbers(numbers);
        Some(head.into_bytes())
    }
}

/// Returns the records of a file: first those that the source has, in its order, then the others.
fn records<'c>(context: &'c Context<'_>, state: StateFile) -> Result<Vec<Record<'c>>> {
    let own = context.bindings.of(state).map(|binding| binding.id);
    match context.architecture {
        Some(architecture) => described_records(context, state, architecture, own),
        None if context.form == RecordForm::Headerless => {
            Err(Error::usage("files without records need an architecture: their order is that of the layers")
                .field("records"))
        }
        None => {
            let all = context.bindings.of(WEIGHTS).map(|binding| binding.id);
            // A folder has no slot of a weight that it lacks.
            let is_stored =
                |id: &&str| context.target.is_single || context.bindings.get(WEIGHTS, id).is_some();
            let own = own.filter(is_stored);
            own_first(own, all).into_iter().map(|id| list_record(context, state, id)).collect()
        }
    }
}

/// The records of all weights of the architecture.
fn described_records<'c>(
    context: &'c Context<'_>,
    state: StateFile,
    architecture: &'c Architecture,
    own: impl Iterator<Item = &'c str>,
) -> Result<Vec<Record<'c>>> {
    let stored: Vec<StoredWeight<'_>> = architecture.all_stored().collect();
    let by_id: HashMap<&str, &StoredWeight<'_>> = stored.iter().map(|stored| (stored.id, stored)).collect();
    // A parameter that is the first columns of another has no record; and values without records are in the order of
    // the layers.
    let own = own.filter(|id| by_id.contains_key(id) && context.form != RecordForm::Headerless);
    let order = own_first(own, stored.iter().map(|stored| stored.id));
    let part = |parameter: &&'c Parameter| {
        let source = context.source_of(state, &parameter.id)?;
        Ok(Part { id: &parameter.id, elements: parameter.elements(), source })
    };
    let record = |stored: &&StoredWeight<'c>| {
        Ok(Record {
            id: stored.id,
            stated_rows: context.bindings.get(state, stored.id).and_then(Binding::stated_rows),
            rows: stored.rows_and_columns().0,
            parts: stored.parts.iter().map(part).collect::<Result<_>>()?,
        })
    };
    order.into_iter().filter_map(|id| by_id.get(id)).map(record).collect()
}

/// The record of a tensor of which only the number of elements is known.
fn list_record<'c>(context: &'c Context<'_>, state: StateFile, id: &'c str) -> Result<Record<'c>> {
    let own = context.bindings.get(state, id).or_else(|| context.bindings.get(WEIGHTS, id));
    let own = own.ok_or_else(|| missing(id))?;
    let elements = own.source.shape.elements();
    if let Some(weight) =
        context.bindings.get(WEIGHTS, id).filter(|weight| weight.source.shape.elements() != elements)
    {
        return Err(Error::unsupported("bullet stores as many numbers for a slot as for its weight")
            .tensor(&own.source.name)
            .found(elements.to_string())
            .expected(format!("{}, as '{}' has", weight.source.shape.elements(), weight.source.name))
            .help(text!["leave it out with ", Setting::EXCLUDE]));
    }
    let part = Part { id, elements, source: context.source_of(state, id)? };
    Ok(Record { id, stated_rows: own.stated_rows(), rows: elements, parts: vec![part] })
}

fn own_first<'a>(own: impl Iterator<Item = &'a str>, all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    own.chain(all).filter(|id| seen.insert(*id)).collect()
}
