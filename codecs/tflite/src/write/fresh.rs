//! Writes a new model.

use super::flat::{ALIGNMENT, Built, Field, Table, build, too_large};
use super::tensors::Stored;
use crate::format::{IDENTIFIER, VERSION, field};
use ckpt_api::{Checkpoint, Extent, FileId, Literal, OutputFile, OutputLayout, Placement, Result, TensorId};

/// Bytes from which on buffers lie behind the FlatBuffer, because offsets within it would not reach them.
const MOST_INSIDE: u64 = 1 << 30;
/// Text that says what wrote the model.
const DESCRIPTION: &str = "ckpt";

/// The layout of a model of tensors alone, which the interpreter loads.
pub(super) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    let mut tensors = Vec::with_capacity(checkpoint.tensors.len());
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        tensors.extend(Stored::of(tensor)?.map(|stored| (TensorId(id), tensor, stored)));
    }
    let total = tensors
        .iter()
        .fold(0u64, |sum, (_, _, stored)| sum.saturating_add(stored.buffer_len()).saturating_add(ALIGNMENT));
    let mut tables = Vec::with_capacity(tensors.len());
    for (number, (_, tensor, stored)) in tensors.iter().enumerate() {
        // Buffer 0 is empty by convention.
        let buffer =
            u32::try_from(number).ok().and_then(|number| number.checked_add(1)).ok_or_else(too_large)?;
        tables.push(stored.table(tensor, buffer)?);
    }
    let lens: Vec<u64> = tensors.iter().map(|(_, _, stored)| stored.buffer_len()).collect();
    let built = match total <= MOST_INSIDE {
        true => build(&model(tables, inside(&lens)), IDENTIFIER)?,
        false => behind(tables, &lens)?,
    };
    let mut layout = OutputLayout::default().with_files(vec![OutputFile::new(name, built.len)]);
    layout.literals = built
        .literals
        .into_iter()
        .map(|(offset, bytes)| Literal { file: FileId(0), offset, bytes })
        .collect();
    for (number, (id, tensor, stored)) in tensors.into_iter().enumerate() {
        let offset = built.data.get(&number).copied().unwrap_or_default();
        let extent = (stored.len > 0).then(|| Extent::new(FileId(0), offset, stored.len));
        let extents: Vec<Extent> = extent.into_iter().collect();
        layout.placements.push(Placement::new(id, &tensor.name, extents, stored.encoding));
        layout.losses.extend(stored.loss);
    }
    Ok(layout)
}

fn model(tensors: Vec<Table>, buffers: Vec<Table>) -> Table {
    let subgraph = Table::default()
        .with(field::subgraph::TENSORS, Field::Tables(tensors))
        .with(field::subgraph::INPUTS, Field::I32s(Vec::new()))
        .with(field::subgraph::OUTPUTS, Field::I32s(Vec::new()))
        .with(field::subgraph::OPERATORS, Field::Tables(Vec::new()))
        .with(field::subgraph::NAME, Field::Text("main".to_owned()));
    Table::default()
        .with(field::model::VERSION, Field::U32(VERSION))
        .with(field::model::OPERATOR_CODES, Field::Tables(Vec::new()))
        .with(field::model::SUBGRAPHS, Field::Tables(vec![subgraph]))
        .with(field::model::DESCRIPTION, Field::Text(DESCRIPTION.to_owned()))
        .with(field::model::BUFFERS, Field::Tables(buffers))
}

/// Buffers whose bytes are vectors of the FlatBuffer.
fn inside(lens: &[u64]) -> Vec<Table> {
    let data = |(number, len): (usize, &u64)| Table::default().with(0, Field::Data { len: *len, number });
    [Table::default()].into_iter().chain(lens.iter().enumerate().map(data)).collect()
}

/// Builds a model whose buffers lie behind the FlatBuffer, at offsets from the start of the file.
fn behind(tensors: Vec<Table>, lens: &[u64]) -> Result<Built> {
    // The tables have the same bytes wherever the buffers are.
    let head = build(&model(tensors.clone(), ranges(lens, 0)?.0), IDENTIFIER)?.len;
    let (buffers, offsets, len) = ranges(lens, head.next_multiple_of(ALIGNMENT))?;
    let mut built = build(&model(tensors, buffers), IDENTIFIER)?;
    (built.data, built.len) = (offsets.into_iter().enumerate().collect(), len);
    Ok(built)
}

/// Buffers at offsets from `start` on, these offsets, and the end of the last.
fn ranges(lens: &[u64], start: u64) -> Result<(Vec<Table>, Vec<u64>, u64)> {
    let (mut tables, mut offsets, mut at) = (vec![Table::default()], Vec::with_capacity(lens.len()), start);
    for len in lens {
        at = at.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)?;
        tables.push(Table::default().with(1, Field::U64(at)).with(2, Field::U64(*len)));
        offsets.push(at);
        at = at.checked_add(*len).ok_or_else(too_large)?;
    }
    Ok((tables, offsets, at))
}
