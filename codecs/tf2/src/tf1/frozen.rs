//! Frozen graphs: a `GraphDef` whose weights are constants.

use super::options::{CONSTANTS, OUTPUTS};
use super::stored::{MESSAGES, Placer, Stored};
use crate::describe;
use ckpt_api::{
    Contents, DType, Error, File, Limit, Limits, MissingGraph, Options, Result, Setting, Tensor, TensorId,
    Text, count, text,
};
use ckpt_containers::protobuf::{Field, Wire};
use prost::bytes::Bytes;
use std::collections::HashSet;

/// Bytes that show whether a file is a graph.
const LOOKED_AT: u64 = 512;
/// Operations whose values are in a checkpoint.
const VARIABLES: [&str; 4] = ["VariableV2", "Variable", "VarHandleOp", "AutoReloadVariable"];

/// Whether the file begins with a node: its name, and an operation.
pub(super) fn begins(file: &File) -> Result<bool> {
    let head = file.bytes(0, file.len().min(LOOKED_AT))?;
    let mut rest = &head[..];
    Ok(first_node(&mut rest, file.len()).is_some())
}

/// The name and the operation of the first node.
fn first_node<'a>(rest: &mut &'a [u8], len: u64) -> Option<(&'a str, &'a str)> {
    let size = length(rest, 0x0a)?;
    (size <= len).then_some(())?;
    let name = taken(rest, 0x0a)?;
    let op = taken(rest, 0x12)?;
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_op = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_uppercase() || first == '_')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_>".contains(&byte))
    };
    (is_name(name) && is_op(op)).then_some((name, op))
}

fn length(rest: &mut &[u8], tag: u8) -> Option<u64> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    (*first == tag).then_some(())?;
    prost::encoding::decode_varint(rest).ok()
}

fn taken<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a str> {
    let len = usize::try_from(length(rest, tag)?).ok()?;
    let (text, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    std::str::from_utf8(text).ok()
}

/// A node, as far as tensors need it.
#[derive(Default)]
struct Node {
    name: String,
    op: String,
    /// Operations whose results it takes.
    inputs: Vec<String>,
    value: Option<Stored>,
}

/// Reads the constants, and the graph of what they are the weights of.
pub(super) fn read(file: &File, options: &Options, limits: &Limits) -> Result<Contents> {
    if !begins(file)? {
        return Err(Error::corrupt("the file is no frozen graph: it does not begin with a node"));
    }
    let lists_all = options.flag(CONSTANTS);
    let mut contents = Contents::default();
    let mut placer = Placer::new(file, limits);
    let (mut names, mut taken) = (HashSet::<String>::new(), HashSet::<String>::new());
    let (mut left, mut texts, mut variable) = (0u64, 0u64, None);
    let mut wire = Wire::new(file, limits, &MESSAGES);
    while let Some(field) = wire.field(file.len())? {
        if field.number != 1 {
            wire.skip(&field)?;
            continue;
        }
        limits.check(Limit::GraphNodes, names.len() as u64 + 1)?;
        let mut node = node(&mut wire, &field)?;
        taken.extend(std::mem::take(&mut node.inputs));
        let located = |error: Error| match error.context().offset {
            Some(_) => error.tensor(&node.name),
            None => error.tensor(&node.name).offset(field.span.start),
        };
        if !names.insert(node.name.clone()) {
            return Err(located(Error::corrupt("two nodes of the graph have the same name")));
        }
        if VARIABLES.contains(&node.op.as_str()) {
            variable.get_or_insert_with(|| node.name.clone());
        }
        if node.op != "Const" {
            continue;
        }
        let stored = node.value.as_ref().ok_or_else(|| located(Error::corrupt("a constant has no value")))?;
        if stored.is_text() {
            texts = texts.saturating_add(1);
            continue;
        }
        let tensor = stored.tensor(&node.name).map_err(located)?;
        let placement =
            placer.place(stored, &tensor, TensorId(contents.placements.len())).map_err(located)?;
        if !lists_all && is_number(&tensor) {
            left = left.saturating_add(1);
            continue;
        }
        limits.check(Limit::Tensors, contents.placements.len() as u64 + 1)?;
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    if names.is_empty() {
        return Err(Error::corrupt("the file is no frozen graph: it has no nodes"));
    }
    if let Some(name) = taken.iter().filter(|name| !names.contains(*name)).min() {
        return Err(
            Error::corrupt("a node of the graph takes the result of one that does not exist").found(name)
        );
    }
    contents.add_notes(notes(left, texts));
    match &variable {
        Some(name) => contents.missing_graph = Some(unfrozen(name)),
        None => add_graph(file, options.list(OUTPUTS).as_deref(), &mut contents, limits)?,
    }
    Ok(contents)
}

fn node(wire: &mut Wire, field: &Field) -> Result<Node> {
    let (mut node, end) = (Node::default(), wire.range(field)?.end);
    while let Some(field) = wire.field(end)? {
        match field.number {
            1 => node.name = wire.text(&field)?,
            2 => node.op = wire.text(&field)?,
            3 => node.inputs.push(describe::operation(&wire.text(&field)?).to_owned()),
            5 => {
                if let Some(value) = value(wire, &field)? {
                    node.value = Some(value);
                }
            }
            _ => {}
        }
        wire.skip(&field)?;
    }
    match node.name.is_empty() || node.op.is_empty() {
        true => {
            Err(Error::corrupt("a node of the graph has no name or no operation").offset(field.span.start))
        }
        false => Ok(node),
    }
}

/// The tensor of an attribute, if it is the value of a constant.
fn value(wire: &mut Wire, attribute: &Field) -> Result<Option<Stored>> {
    let (mut is_value, mut found, end) = (false, None, wire.range(attribute)?.end);
    while let Some(field) = wire.field(end)? {
        match field.number {
            1 => is_value = wire.text(&field)? == "value",
            2 => {
                let end = wire.range(&field)?.end;
                while let Some(field) = wire.field(end)? {
                    if field.number == 8 {
                        found = Some(Stored::read(wire, wire.range(&field)?.end)?);
                    }
                    wire.skip(&field)?;
                }
            }
            _ => {}
        }
        wire.skip(&field)?;
    }
    Ok(found.filter(|_| is_value))
}

/// Whether a constant is what an operation takes as a number: a scalar, a list of lengths or axes.
fn is_number(tensor: &Tensor) -> bool {
    tensor.shape.rank() == 0 || tensor.dtype == DType::I32
}

fn notes(left: u64, texts: u64) -> Vec<Text> {
    let mut notes = Vec::new();
    if left > 0 {
        notes.push(text![
            format!(
                "{} of the graph are scalars or 32-bit integers, and not listed: ",
                count(left, "constant")
            ),
            Setting::READ_OPTION.of("constants=true"),
            " lists them",
        ]);
    }
    if texts > 0 {
        notes.push(format!("{} of the graph are texts, and not read", count(texts, "constant")).into());
    }
    notes
}

fn unfrozen(variable: &str) -> MissingGraph {
    let reason = format!("the graph is not frozen: the values of '{variable}' are in a checkpoint");
    MissingGraph { reason: reason.into(), is_unstated: true, help: None }
}

/// Adds the graph of ONNX operators, whose weights are the constants.
fn add_graph(file: &File, outputs: Option<&[&str]>, contents: &mut Contents, limits: &Limits) -> Result<()> {
    if limits.check(Limit::HeaderBytes, file.len()).is_err() {
        let reason =
            format!("the graph is read from files of at most {} bytes", limits.get(Limit::HeaderBytes));
        contents.missing_graph = Some(MissingGraph { reason: reason.into(), is_unstated: false, help: None });
        return Ok(());
    }
    let bytes = Bytes::from(file.bytes(0, file.len())?);
    describe::add_frozen(&bytes, outputs, contents, limits)
}
