//! The optimizer's files: the weights, and the slots that the optimizer keeps for each of them.

use super::reader::Reader;
use super::records::{self, Record};
use crate::format::{
    Content, ID, KEY_FOLDER, KEY_ID, KEY_RECORDS, KEY_ROWS, KEY_STEP, MOMENTUM, PARAMS, RecordForm, SLOTS,
    SLOW, STATE, STEP, StateFile, VELOCITY, encoding, extent,
};
use crate::net::architecture::Architecture;
use crate::net::parameter::Parameter;
use crate::step;
use ckpt_api::{DType, Error, File, Limit, Limits, MetadataValue, Result, Role, Shape, Slot, Tensor};
use std::borrow::Borrow;
use std::collections::HashMap;

/// Reads a single file.
pub(super) fn read_file(reader: &mut Reader<'_>, name: &str, state: StateFile) -> Result<()> {
    let file = reader.input.file(name)?;
    let form = given_form(reader, state)?;
    let (form, records) = records::read(&file, reader.architecture, form, reader.limits)?;
    keep_form(reader, form);
    add_records(reader, name, state, records)?;
    reader.parts.push(Content::State);
    Ok(())
}

/// Reads the files of a folder, whose weights are in the file `weights`.
pub(super) fn read_folder(reader: &mut Reader<'_>, folder: &str, weights: StateFile) -> Result<()> {
    let path = |name: &str| format!("{folder}{name}");
    let file = reader.input.file(&path(weights.name))?;
    let form = given_form(reader, weights)?;
    let (form, own) = records::read(&file, reader.architecture, form, reader.limits)?;
    keep_form(reader, form);
    if form == RecordForm::Headerless && folder == STATE {
        reader.keep(KEY_FOLDER, STATE);
    }
    add_records(reader, &path(weights.name), weights, &own)?;

    let slots = expected_slots(reader, folder);
    if slots.is_empty() {
        reader.note(
            "the optimizer's state is missing: bullet cannot resume training without momentum.bin and \
                     velocity.bin",
        );
    }
    for slot in slots {
        let file = reader.input.file(&path(slot.name)).map_err(|error| {
            error.help("the optimizer's files belong together: bullet loads none without the others")
        })?;
        let (_, records) = records::read(&file, reader.architecture, Some(form), reader.limits)?;
        check_same_weights(&own, &records).map_err(|error| error.file(file.name()))?;
        add_records(reader, &path(slot.name), slot, records)?;
    }
    if reader.optimizer == Some("radam") || reader.input.has_file(&path(STEP)) {
        let file = reader.input.file(&path(STEP))?;
        let text = read_steps(&file, &own, reader.limits).map_err(|error| error.file(file.name()))?;
        reader.keep(KEY_STEP, text);
    }
    reader.parts.push(Content::State);
    Ok(())
}

/// The slots whose files a folder has or must have.
fn expected_slots(reader: &Reader<'_>, folder: &str) -> Vec<StateFile> {
    let exists = |state: &StateFile| reader.input.has_file(&format!("{folder}{}", state.name));
    let has_moments = reader.optimizer.is_some() || exists(&MOMENTUM) || exists(&VELOCITY);
    let has_slow = reader.optimizer == Some("ranger");
    let is_expected =
        |state: &StateFile| exists(state) || if *state == SLOW { has_slow } else { has_moments };
    SLOTS.into_iter().filter(is_expected).collect()
}

/// Reads step.txt.
fn read_steps(file: &File, weights: &[Record], limits: &Limits) -> Result<String> {
    limits.check(Limit::HeaderBytes, file.len())?;
    let text = String::from_utf8(file.bytes(0, file.len())?).map_err(|error| {
        Error::corrupt("the text is not UTF-8").offset(error.utf8_error().valid_up_to() as u64)
    })?;
    step::check(&text, weights.iter().map(|record| record.id.as_str()))?;
    Ok(text)
}

/// The form that the file's name or the option states.
fn given_form(reader: &Reader<'_>, state: StateFile) -> Result<Option<RecordForm>> {
    match state {
        PARAMS => RecordForm::of_params(reader.form).map(Some),
        _ => Ok(reader.form),
    }
}

fn keep_form(reader: &mut Reader<'_>, form: RecordForm) {
    if form != RecordForm::Current {
        reader.keep(KEY_RECORDS, form.name());
    }
}

/// Adds the tensors of records. A record is freed as soon as its tensors are there: a file can have a million.
fn add_records(
    reader: &mut Reader<'_>,
    name: &str,
    state: StateFile,
    records: impl IntoIterator<Item: Borrow<Record>>,
) -> Result<()> {
    let file = reader.add_file(name);
    for record in records {
        let record = record.borrow();
        let mut offset = record.offset;
        for Part { id, mut tensor, order } in parts(record, state, reader.architecture)? {
            describe(&mut tensor, &id, record, state);
            let len = tensor.shape.elements().saturating_mul(4);
            reader.add_tensor(tensor, &id, extent(file, offset, len), encoding(DType::F32, order));
            // The record is within the file, and the parts are within the record.
            offset = offset.saturating_add(len);
        }
    }
    Ok(())
}

/// A tensor of a record.
struct Part {
    id: String,
    tensor: Tensor,
    /// The stored axis order.
    order: Vec<usize>,
}

/// Divides a record into tensors: those that the architecture names, or one that is as long as the record.
fn parts(record: &Record, state: StateFile, architecture: Option<&Architecture>) -> Result<Vec<Part>> {
    let name = |id: &str| format!("{}{id}", state.prefix);
    if let Some(architecture) = architecture {
        let part = |part: &Parameter| Part {
            id: part.id.clone(),
            tensor: part.tensor(name(&part.id)),
            order: part.order(false),
        };
        return Ok(architecture.stored(&record.id)?.parts.into_iter().map(part).collect());
    }
    let dims = match record.rows {
        Some(rows) => vec![rows, record.count.checked_div(rows).unwrap_or(0)],
        None => vec![record.count],
    };
    let order = (0..dims.len()).rev().collect();
    let tensor = Tensor::new(name(&record.id), DType::F32, Shape::new(dims)?);
    Ok(vec![Part { id: record.id.clone(), tensor, order }])
}

/// Sets the metadata, role and slot of a tensor.
fn describe(tensor: &mut Tensor, id: &str, record: &Record, state: StateFile) {
    if let Some(rows) = record.rows {
        tensor.metadata.insert(ID, KEY_ROWS, MetadataValue::integer(rows));
    }
    match state.slot {
        Some(slot) => {
            tensor.role = Role::Optimizer;
            tensor.slot = Some(Box::new(Slot { variable: id.into(), name: slot.to_owned() }));
        }
        None => tensor.metadata.insert(ID, KEY_ID, id),
    }
}

/// Checks that a slot has one record of the same length for every weight, and no other record.
fn check_same_weights(weights: &[Record], records: &[Record]) -> Result<()> {
    let mut missing: HashMap<&str, u64> =
        weights.iter().map(|weight| (weight.id.as_str(), weight.count)).collect();
    for record in records {
        match missing.remove(record.id.as_str()) {
            None => return Err(Error::corrupt("a record belongs to no weight").tensor(&record.id)),
            Some(count) if count != record.count => {
                return Err(Error::corrupt("a record has a different length than its weight")
                    .tensor(&record.id)
                    .offset(record.offset)
                    .found(format!("{} numbers", record.count))
                    .expected(count.to_string()));
            }
            Some(_) => {}
        }
    }
    match weights.iter().find(|weight| missing.contains_key(weight.id.as_str())) {
        Some(weight) => Err(Error::corrupt("a weight has no record")
            .tensor(&weight.id)
            .help("bullet would load the file silently and keep its initial values")),
        None => Ok(()),
    }
}
