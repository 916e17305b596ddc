//! The tables of a model.

use crate::flat::{Flat, Table, Vector};
use crate::format::{Operator, VERSION, field};
use ckpt_api::{Error, Limit, Limits, Result};
use std::collections::HashSet;

/// A model without the bytes of its tensors.
pub(crate) struct Model<'a> {
    pub(crate) description: String,
    pub(crate) subgraphs: Vec<Subgraph<'a>>,
    pub(crate) buffers: Vec<Buffer>,
    /// Names of further buffers, and their numbers.
    pub(crate) metadata: Vec<(String, u32)>,
    pub(crate) signatures: Vec<Signature>,
}

/// The bytes of a buffer in the file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Buffer {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A graph, and its tensors.
pub(crate) struct Subgraph<'a> {
    pub(crate) name: String,
    pub(crate) tensors: Vec<TensorTable<'a>>,
    pub(crate) inputs: Vec<i32>,
    pub(crate) outputs: Vec<i32>,
    pub(crate) operators: Vec<Step<'a>>,
}

/// A constant, a variable, or a value that operators make.
pub(crate) struct TensorTable<'a> {
    pub(crate) name: String,
    /// Offset of the table.
    pub(crate) at: u64,
    pub(crate) shape: Vec<i32>,
    /// Lengths of the axes, −1 for a free one; empty if it is the shape.
    pub(crate) signature: Vec<i32>,
    pub(crate) dtype: i8,
    pub(crate) buffer: u32,
    pub(crate) is_variable: bool,
    pub(crate) quantization: Option<Table<'a>>,
    pub(crate) sparsity: Option<Table<'a>>,
    pub(crate) external_buffer: u32,
}

/// One use of an operator.
pub(crate) struct Step<'a> {
    pub(crate) operator: Operator,
    /// Numbers of tensors; −1 for one that is left out.
    pub(crate) inputs: Vec<i32>,
    pub(crate) outputs: Vec<i32>,
    pub(crate) options: Option<Table<'a>>,
}

/// The names that callers use for the inputs and outputs of a subgraph.
pub(crate) struct Signature {
    pub(crate) key: String,
    pub(crate) subgraph: u32,
    pub(crate) inputs: Vec<(String, u32)>,
    pub(crate) outputs: Vec<(String, u32)>,
}

/// Reads the tables of a model.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] at the offset of what is wrong; [`ckpt_api::Kind::Unsupported`] for another version of
/// the schema; [`ckpt_api::Kind::Limit`].
pub(crate) fn parse<'a>(flat: &'a Flat<'a>, limits: &Limits) -> Result<Model<'a>> {
    let root = flat.root()?;
    let version = root.u32(field::model::VERSION, 0)?;
    if version != VERSION {
        return Err(Error::unsupported("the model has another version of the schema")
            .offset(root.at)
            .field("version")
            .found(version.to_string())
            .expected(VERSION.to_string()));
    }
    let named = |name: &'static str| move |error: Error| error.field(name);
    let codes = codes(&root, limits).map_err(named("operator_codes"))?;
    let buffers = buffers(flat, &root, limits).map_err(named("buffers"))?;
    let mut parser = Parser { limits, codes: &codes, seen: HashSet::new(), tensors: 0, operators: 0 };
    let mut subgraphs = Vec::new();
    let tables = root.tables(field::model::SUBGRAPHS).map_err(named("subgraphs"))?;
    for (index, table) in each(tables).enumerate() {
        let subgraph = table.and_then(|table| parser.subgraph(&table));
        subgraphs.push(subgraph.map_err(|error| error.field(format!("subgraphs[{index}]")))?);
    }
    if subgraphs.is_empty() {
        return Err(Error::corrupt("the model has no subgraph").offset(root.at).field("subgraphs"));
    }
    let metadata = metadata(&root, limits).map_err(named("metadata"))?;
    let signatures = signatures(&root, limits).map_err(named("signature_defs"))?;
    let description = root.text(field::model::DESCRIPTION, limits).map_err(named("description"))?;
    Ok(Model { description, subgraphs, buffers, metadata, signatures })
}

/// The tables of a vector.
fn each<'a>(vector: Option<Vector<'a>>) -> impl Iterator<Item = Result<Table<'a>>> {
    vector.into_iter().flat_map(|vector| (0..vector.len).map(move |index| vector.table(index)))
}

fn codes(root: &Table<'_>, limits: &Limits) -> Result<Vec<Operator>> {
    let mut codes = Vec::new();
    for table in each(root.tables(field::model::OPERATOR_CODES)?) {
        let table = table?;
        limits.check(Limit::GraphNodes, codes.len() as u64 + 1)?;
        // Old files have only the first; new ones cap it at 127.
        let number = i32::from(table.i8(0, 0)?).max(table.i32(3, 0)?);
        codes.push(Operator::new(number, table.text(1, limits)?));
    }
    Ok(codes)
}

fn buffers(flat: &Flat<'_>, root: &Table<'_>, limits: &Limits) -> Result<Vec<Buffer>> {
    let mut buffers = Vec::new();
    for table in each(root.tables(field::model::BUFFERS)?) {
        limits.check(Limit::Tensors, buffers.len() as u64 + 1)?;
        buffers.push(buffer(flat, &table?)?);
    }
    Ok(buffers)
}

/// The bytes of a buffer: a vector or, in models of more than 2 GB, a range of the file.
fn buffer(flat: &Flat<'_>, table: &Table<'_>) -> Result<Buffer> {
    if let Some(data) = table.vector(0, 1)? {
        return Ok(Buffer { offset: data.at, len: data.len });
    }
    let (offset, len) = (table.u64(1, 0)?, table.u64(2, 0)?);
    // Writers put 0 and 1 where no data is.
    if offset <= 1 {
        return Ok(Buffer::default());
    }
    flat.check_range(offset, len)?;
    Ok(Buffer { offset, len })
}

fn metadata(root: &Table<'_>, limits: &Limits) -> Result<Vec<(String, u32)>> {
    let mut metadata = Vec::new();
    for table in each(root.tables(field::model::METADATA)?) {
        let table = table?;
        limits.check(Limit::MetadataEntries, metadata.len() as u64 + 1)?;
        metadata.push((table.text(0, limits)?, table.u32(1, 0)?));
    }
    Ok(metadata)
}

fn signatures(root: &Table<'_>, limits: &Limits) -> Result<Vec<Signature>> {
    let mut signatures = Vec::new();
    let mut entries = 0u64;
    for table in each(root.tables(field::model::SIGNATURES)?) {
        let table = table?;
        let mut names = |number: u64| -> Result<Vec<(String, u32)>> {
            let mut names = Vec::new();
            for table in each(table.tables(number)?) {
                let table = table?;
                entries = entries.saturating_add(1);
                limits.check(Limit::MetadataEntries, entries)?;
                names.push((table.text(0, limits)?, table.u32(1, 0)?));
            }
            Ok(names)
        };
        let (inputs, outputs) = (names(0)?, names(1)?);
        let (key, subgraph) = (table.text(2, limits)?, table.u32(4, 0)?);
        signatures.push(Signature { key, subgraph, inputs, outputs });
        limits.check(Limit::MetadataEntries, signatures.len() as u64)?;
    }
    Ok(signatures)
}

struct Parser<'p> {
    limits: &'p Limits,
    codes: &'p [Operator],
    /// Offsets of the tables that were read: work is linear in the file if each is read once.
    seen: HashSet<u64>,
    tensors: u64,
    operators: u64,
}

impl Parser<'_> {
    fn subgraph<'a>(&mut self, table: &Table<'a>) -> Result<Subgraph<'a>> {
        self.note(table)?;
        let name = table.text(field::subgraph::NAME, self.limits)?;
        let mut tensors = Vec::new();
        for (index, table) in each(table.tables(field::subgraph::TENSORS)?).enumerate() {
            let tensor = table.and_then(|table| self.tensor(&table));
            tensors.push(tensor.map_err(|error| error.field(format!("tensors[{index}]")))?);
        }
        let count = tensors.len();
        let mut operators = Vec::new();
        for (index, table) in each(table.tables(field::subgraph::OPERATORS)?).enumerate() {
            let step = table.and_then(|table| self.step(&table, count));
            operators.push(step.map_err(|error| error.field(format!("operators[{index}]")))?);
        }
        let numbers = |number: u64, name: &'static str| {
            let numbers = table.i32s(number)?;
            check_numbers(&numbers, count, false).map_err(|error| error.offset(table.at).field(name))?;
            Ok(numbers)
        };
        let inputs = numbers(field::subgraph::INPUTS, "inputs")?;
        let outputs = numbers(field::subgraph::OUTPUTS, "outputs")?;
        Ok(Subgraph { name, tensors, inputs, outputs, operators })
    }

    fn tensor<'a>(&mut self, table: &Table<'a>) -> Result<TensorTable<'a>> {
        self.note(table)?;
        self.tensors = self.tensors.saturating_add(1);
        self.limits.check(Limit::Tensors, self.tensors)?;
        let name = table.text(field::tensor::NAME, self.limits).map_err(|error| error.field("name"))?;
        let tensor = self.described(table, &name);
        tensor.map_err(|error| if name.is_empty() { error } else { error.tensor(&name) })
    }

    fn described<'a>(&self, table: &Table<'a>, name: &str) -> Result<TensorTable<'a>> {
        let lengths = |number: u64, name: &'static str| {
            let vector = table.vector(number, 4).map_err(|error| error.field(name))?;
            self.limits.check(Limit::Rank, vector.map_or(0, |vector| vector.len))?;
            table.i32s(number)
        };
        Ok(TensorTable {
            name: name.to_owned(),
            at: table.at,
            shape: lengths(field::tensor::SHAPE, "shape")?,
            signature: lengths(field::tensor::SHAPE_SIGNATURE, "shape_signature")?,
            dtype: table.i8(field::tensor::TYPE, 0)?,
            buffer: table.u32(field::tensor::BUFFER, 0)?,
            is_variable: table.flag(field::tensor::IS_VARIABLE)?,
            quantization: table
                .table(field::tensor::QUANTIZATION)
                .map_err(|error| error.field("quantization"))?,
            sparsity: table.table(field::tensor::SPARSITY).map_err(|error| error.field("sparsity"))?,
            external_buffer: table.u32(field::tensor::EXTERNAL_BUFFER, 0)?,
        })
    }

    fn step<'a>(&mut self, table: &Table<'a>, tensors: usize) -> Result<Step<'a>> {
        self.note(table)?;
        self.operators = self.operators.saturating_add(1);
        self.limits.check(Limit::GraphNodes, self.operators)?;
        let code = table.u32(field::operator::CODE, 0)?;
        let operator = usize::try_from(code).ok().and_then(|code| self.codes.get(code));
        let operator = operator.cloned().ok_or_else(|| {
            Error::corrupt("an operator has a code that is not listed")
                .offset(table.at)
                .found(code.to_string())
                .expected(format!("less than {}", self.codes.len()))
        })?;
        let numbers = |number: u64| {
            let numbers = table.i32s(number)?;
            check_numbers(&numbers, tensors, true).map_err(|error| error.offset(table.at))?;
            Ok(numbers)
        };
        let (inputs, outputs) = (numbers(field::operator::INPUTS)?, numbers(field::operator::OUTPUTS)?);
        // The table of options is only one if their type is stated.
        let has_options = table.u8(field::operator::OPTIONS_TYPE, 0)? != 0;
        let options = if has_options { table.table(field::operator::OPTIONS)? } else { None };
        Ok(Step { operator, inputs, outputs, options })
    }

    fn note(&mut self, table: &Table<'_>) -> Result<()> {
        match self.seen.insert(table.at) {
            true => Ok(()),
            false => Err(Error::unsupported("two entries of the model are one table")
                .offset(table.at)
                .found("a table that was read before")
                .expected("a table for each subgraph, tensor and operator")),
        }
    }
}

/// Checks numbers of tensors.
fn check_numbers(numbers: &[i32], count: usize, may_be_absent: bool) -> Result<()> {
    let is_valid = |number: &i32| match usize::try_from(*number) {
        Ok(number) => number < count,
        Err(_) => may_be_absent && *number == -1,
    };
    match numbers.iter().find(|number| !is_valid(number)) {
        None => Ok(()),
        Some(number) => Err(Error::corrupt("a tensor is referred to that does not exist")
            .found(format!("tensor {number}"))
            .expected(format!("one of {}", ckpt_api::count(count, "tensor")))),
    }
}
