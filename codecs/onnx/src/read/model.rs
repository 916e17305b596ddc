//! Parses a model.

use super::functions;
use crate::format::message::{Attribute, Chunk, Dimension, Function, Graph, Model, Node, Tensor, Value};
use crate::format::{LEARNED, WIRE};
use ckpt_api::{Error, File, Limit, Limits, MAX_GRAPH_LEVELS, Result};
use ckpt_containers::protobuf::{Field, Value as Wired, Wire};
use std::ops::Range;

/// Elements of a list among the attributes of a layer: longer ones stay in the file.
const MOST_ELEMENTS: usize = 1 << 16;
/// The data type of 32-bit floats, and the field of a tensor that has them.
const FLOAT: i64 = 1;
const FLOAT_DATA: u64 = 4;
/// Fields of lists of floats that can be tensors: each number has a field of its own, and so an extent.
const MOST_PIECES: usize = 1 << 14;
/// Key of the name of a file of external data.
pub(crate) const LOCATION: &str = "location";
/// Levels of graphs within nodes that a model may have.
const MOST_LEVELS: usize = 64;

/// Parses all but the bytes of tensors.
pub(crate) fn parse(file: &File, limits: &Limits) -> Result<Model> {
    let wire = Wire::new(file, limits, &WIRE);
    let mut parser = Parser {
        wire,
        limits,
        data: 0,
        nodes: 0,
        tensors: 0,
        level: 0,
        subgraphs: Vec::new(),
        locations: Vec::new(),
        functions: Vec::new(),
        pieces: MOST_PIECES,
        room: MOST_PIECES,
    };
    let mut model = parser.model(file.len())?;
    let functions = std::mem::take(&mut parser.functions);
    match model.graph.as_ref().map(|graph| functions::inlined(graph, &functions, model.opset())) {
        Some(Ok(Some(graph))) => model.graph = Some(graph),
        Some(Err(reason)) => model.refusal = Some(reason),
        Some(Ok(None)) | None => {}
    }
    model.locations = std::mem::take(&mut parser.locations);
    let subgraphs = std::mem::take(&mut parser.subgraphs);
    check_levels(file, limits, subgraphs)?;
    Ok(model)
}

struct Parser<'a> {
    wire: Wire<'a>,
    limits: &'a Limits,
    /// Bytes of tensors so far, which are no part of the structure.
    data: u64,
    /// Nodes and initializers of all graphs so far.
    nodes: u64,
    tensors: u64,
    /// How many graphs the one that is parsed is within.
    level: usize,
    /// Graphs of attributes that nest deeper than graphs are parsed, which are only checked.
    subgraphs: Vec<Range<u64>>,
    /// Where files of external data are named.
    locations: Vec<(Range<u64>, String)>,
    functions: Vec<Function>,
    /// Fields of lists of floats that can still be tensors.
    pieces: usize,
    /// The same, without those of the node that is parsed.
    room: usize,
}

impl Parser<'_> {
    fn model(&mut self, end: u64) -> Result<Model> {
        let mut model = Model::default();
        while let Some(field) = self.next(end)? {
            match field.number {
                1 => model.ir_version = self.wire.int(&field)?,
                2 => self.text(&field, "producer_name", &mut model)?,
                3 => self.text(&field, "producer_version", &mut model)?,
                4 => self.text(&field, "domain", &mut model)?,
                5 => model.model_version = self.wire.int(&field)?,
                6 => self.text(&field, "doc_string", &mut model)?,
                7 if model.graph.is_some() => {
                    return Err(self.wire.wrong("the model has two graphs", field.span.start));
                }
                7 => model.graph = Some(self.graph(&field)?),
                8 => model.opsets.push(self.opset(&field)?),
                14 => model.properties.push(self.pair(&field)?),
                25 => {
                    let function = self.function(&field)?;
                    self.functions.push(function);
                }
                _ => {}
            }
            self.wire.skip(&field)?;
        }
        Ok(model)
    }

    /// The next field, while the structure keeps to the limit of headers.
    fn next(&mut self, end: u64) -> Result<Option<Field>> {
        self.limits.check(Limit::HeaderBytes, self.wire.position().saturating_sub(self.data))?;
        self.wire.field(end)
    }

    fn text(&mut self, field: &Field, name: &'static str, model: &mut Model) -> Result<()> {
        let text = self.wire.text(field).map_err(|error| error.field(name))?;
        model.texts.retain(|(known, _)| *known != name);
        if !text.is_empty() {
            model.texts.push((name, text));
        }
        Ok(())
    }

    fn opset(&mut self, field: &Field) -> Result<(String, i64)> {
        let (mut domain, mut version) = (String::new(), 0);
        let end = self.wire.range(field)?.end;
        while let Some(field) = self.next(end)? {
            match field.number {
                1 => domain = self.wire.text(&field)?,
                2 => version = self.wire.int(&field)?,
                _ => {}
            }
            self.wire.skip(&field)?;
        }
        Ok((domain, version))
    }

    fn pair(&mut self, field: &Field) -> Result<(String, String)> {
        let (mut key, mut value) = (String::new(), String::new());
        let end = self.wire.range(field)?.end;
        while let Some(field) = self.next(end)? {
            match field.number {
                1 => key = self.wire.text(&field)?,
                2 => value = self.wire.text(&field)?,
                _ => {}
            }
            self.wire.skip(&field)?;
        }
        Ok((key, value))
    }

    fn graph(&mut self, field: &Field) -> Result<Graph> {
        let body = self.wire.range(field)?;
        let mut graph = Graph { span: field.span.clone(), body: body.clone(), ..Graph::default() };
        while let Some(field) = self.next(body.end)? {
            match field.number {
                1 => {
                    self.nodes = self.nodes.saturating_add(1);
                    self.limits.check(Limit::GraphNodes, self.nodes)?;
                    let node = self.node(&field)?;
                    graph.nodes.push(node);
                }
                2 => graph.name = self.wire.text(&field)?,
                5 => {
                    self.tensors = self.tensors.saturating_add(1);
                    self.limits.check(Limit::Tensors, self.tensors)?;
                    let tensor = self.tensor(&field)?;
                    graph.initializers.push(tensor);
                }
                11 => graph.inputs.push(self.value(&field)?),
                12 => graph.outputs.push(self.value(&field)?),
                13 => graph.values.push(self.value(&field)?),
                15 => graph.sparse.push(self.sparse(&field)?),
                _ => {}
            }
            self.wire.skip(&field)?;
        }
        Ok(graph)
    }

    fn function(&mut self, field: &Field) -> Result<Function> {
        let end = self.wire.range(field)?.end;
        let mut function = Function::default();
        while let Some(field) = self.next(end)? {
            match field.number {
                1 => function.name = self.wire.text(&field)?,
                4 => function.inputs.push(self.wire.text(&field)?),
                5 => function.outputs.push(self.wire.text(&field)?),
                7 => {
                    self.nodes = self.nodes.saturating_add(1);
                    self.limits.check(Limit::GraphNodes, self.nodes)?;
                    let node = self.node(&field)?;
                    function.nodes.push(node);
                }
                9 => function.opsets.push(self.opset(&field)?),
                10 => function.domain = self.wire.text(&field)?,
                11 => {
                    let (name, attribute, _) = self.attribute(&field)?;
                    function.defaults.push((name, attribute));
                }
                13 => function.overload = self.wire.text(&field)?,
                _ => {}
            }
            self.wire.skip(&field)?;
        }
        Ok(function)
    }

    /// The name of a sparse tensor, which is that of its values.
    fn sparse(&mut self, field: &Field) -> Result<String> {
        let end = self.wire.range(field)?.end;
        let mut name = String::new();
        while let Some(field) = self.next(end)? {
            if field.number == 1 {
                name = self.tensor(&field)?.name;
            }
            self.wire.skip(&field)?;
        }
        Ok(name)
    }

    fn node(&mut self, field: &Field) -> Result<Node> {
        let end = self.wire.range(field)?.end;
        let mut node = Node::default();
        while let Some(field) = self.next(end)? {
            match field.number {
                1 => node.inputs.push(self.wire.text(&field)?),
                2 => node.outputs.push(self.wire.text(&field)?),
                3 => node.name = self.wire.text(&field)?,
                4 => node.op = self.wire.text(&field)?,
                5 => {
                    let (name, attribute, list) = self.attribute(&field)?;
                    node.lists.extend(list.map(|list| Tensor { name: name.clone(), ..list }));
                    node.attributes.push((name, attribute));
                }
                7 => node.domain = self.wire.text(&field)?,
                8 => node.overload = self.wire.text(&field)?,
                9 => node.properties.push(self.pair(&field)?),
                _ => {}
            }
            self.wire.skip(&field)?;
        }
        self.keep_lists(&mut node);
        Ok(node)
    }

    /// An attribute, and the place of a list of floats.
    fn attribute(&mut self, field: &Field) -> Result<(String, Attribute, Option<Tensor>)> {
        let end = self.wire.range(field)?.end;
        let (mut name, mut kind) = (String::new(), 0);
        let (mut float, mut int, mut text, mut tensor) = (0.0, 0, Vec::new(), None);
        let (mut floats, mut ints, mut texts, mut graph) = (Vec::new(), Vec::new(), Vec::new(), None);
        let (mut is_deep, mut is_long, mut reference) = (false, false, String::new());
        let mut list = Tensor { data_type: FLOAT, ..Tensor::default() };
        // Before there was a field for it, the type followed from the field that is there.
        let mut present = 0;
        while let Some(field) = self.next(end)? {
            match field.number {
                1 => name = self.wire.text(&field)?,
                2 => (float, present) = (self.wire.float(&field)?, 1),
                3 => (int, present) = (self.wire.int(&field)?, 2),
                4 => (text, present) = (self.wire.bytes(&field)?, 3),
                5 => (tensor, present) = (Some(self.tensor(&field)?), 4),
                7 => {
                    is_long |= is_too_long(&field, floats.len());
                    add_to_list(&field, &mut list, &mut self.room);
                    if !is_long {
                        self.wire.floats(&field, &mut floats)?;
                    }
                    present = 6;
                }
                8 => {
                    is_long |= is_too_long(&field, ints.len());
                    if !is_long {
                        self.wire.ints(&field, &mut ints)?;
                    }
                    present = 7;
                }
                9 => {
                    is_long |= texts.len() >= MOST_ELEMENTS;
                    if !is_long {
                        texts.push(self.wire.bytes(&field)?);
                    }
                    present = 8;
                }
                6 if self.level + 1 < MAX_GRAPH_LEVELS => {
                    self.level += 1;
                    graph = Some(self.graph(&field)?);
                    self.level -= 1;
                    present = 5;
                }
                6 => {
                    self.subgraphs.push(self.wire.range(&field)?);
                    (is_deep, present) = (true, 5);
                }
                11 => {
                    self.subgraphs.push(self.wire.range(&field)?);
                    present = 5;
                }
                20 => kind = self.wire.int(&field)?,
                21 => reference = self.wire.text(&field)?,
                10 | 14 | 15 | 22 | 23 => present = 5,
                _ => {}
            }
            self.wire.skip(&field)?;
        }
        if !reference.is_empty() {
            return Ok((name, Attribute::Reference(reference), None));
        }
        list.dims.push(i64::try_from(floats.len()).unwrap_or(i64::MAX));
        let is_whole = !is_long && !list.typed.is_empty() && list.bytes() / 4 == floats.len() as u64;
        let attribute = match if kind == 0 { present } else { kind } {
            1 => Attribute::Float(float),
            2 => Attribute::Int(int),
            3 => Attribute::Text(text),
            4 => tensor.map_or(Attribute::Other, |tensor| Attribute::Tensor(Box::new(tensor))),
            5 if is_deep => Attribute::Deep,
            5 => graph.map_or(Attribute::Other, |graph| Attribute::Graph(Box::new(graph))),
            kind @ 6..=8 if is_long => Attribute::Long { is_float: kind == 6 },
            6 => Attribute::Floats(floats),
            7 => Attribute::Ints(ints),
            8 => Attribute::Texts(texts),
            _ => Attribute::Other,
        };
        Ok((name, attribute, is_whole.then_some(list)))
    }

    /// Keeps the lists of floats that are tensors: those of a node that has weights among its attributes, up to the bound.
    fn keep_lists(&mut self, node: &mut Node) {
        let pieces = node.lists.iter().map(|list| list.typed.len()).sum::<usize>();
        match self.pieces.checked_sub(pieces).filter(|_| node.domain == LEARNED) {
            Some(left) => self.pieces = left,
            None => node.lists.clear(),
        }
        self.room = self.pieces;
    }

    fn tensor(&mut self, field: &Field) -> Result<Tensor> {
        let body = self.wire.range(field)?;
        let mut tensor = Tensor { span: field.span.clone(), body: body.clone(), ..Tensor::default() };
        while let Some(field) = self.next(body.end)? {
            self.tensor_field(&field, &mut tensor).map_err(|error| match tensor.name.is_empty() {
                true => error,
                false => error.tensor(&tensor.name),
            })?;
        }
        if tensor.is_external() {
            let named = tensor.external.iter().filter(|(key, ..)| key == LOCATION);
            self.locations.extend(named.map(|(_, name, span)| (span.clone(), name.clone())));
        }
        Ok(tensor)
    }

    fn tensor_field(&mut self, field: &Field, tensor: &mut Tensor) -> Result<()> {
        match field.number {
            1 => {
                self.wire.ints(field, &mut tensor.dims)?;
                self.limits.check(Limit::Rank, tensor.dims.len() as u64)?;
            }
            2 => tensor.data_type = self.wire.int(field)?,
            4 | 5 | 7 | 10 | 11 => self.typed(field, tensor)?,
            6 => tensor.strings = tensor.strings.saturating_add(1),
            8 => tensor.name = self.wire.text(field)?,
            9 => {
                let range = self.wire.range(field)?;
                self.data = self.data.saturating_add(range.end.saturating_sub(range.start));
                tensor.raw = Some(range);
            }
            13 => {
                let (key, value) = self.pair(field)?;
                tensor.external.push((key, value, field.span.clone()));
            }
            14 => tensor.location = self.wire.int(field)?,
            3 => {
                return Err(
                    Error::unsupported("segments of tensors are not supported").offset(field.span.start)
                );
            }
            _ => {}
        }
        self.wire.skip(field)
    }

    /// Adds numbers of a typed field; those that are not packed and are side by side are one chunk.
    fn typed(&mut self, field: &Field, tensor: &mut Tensor) -> Result<()> {
        let (tag_bytes, range) = match (&field.value, field.number) {
            (Wired::Bytes(range), _) => (0, range.clone()),
            (Wired::Varint(_), 5 | 7 | 11) | (Wired::Fixed32(_), 4) | (Wired::Fixed64, 10) => {
                (1, field.span.clone())
            }
            _ => {
                return Err(self.wire.wrong(WIRE.other_type, field.span.start));
            }
        };
        self.data = self.data.saturating_add(range.end.saturating_sub(range.start));
        if range.is_empty() {
            return Ok(());
        }
        match tensor.typed.last_mut() {
            Some(last)
                if last.field == field.number
                    && last.tag_bytes == 1
                    && tag_bytes == 1
                    && last.range.end == range.start =>
            {
                last.range.end = range.end;
                last.span.end = field.span.end;
            }
            _ => {
                self.limits.check(Limit::Slices, tensor.typed.len() as u64 + 1)?;
                tensor.typed.push(Chunk { field: field.number, tag_bytes, range, span: field.span.clone() });
            }
        }
        Ok(())
    }

    fn value(&mut self, field: &Field) -> Result<Value> {
        let end = self.wire.range(field)?.end;
        let mut value = Value::default();
        while let Some(field) = self.next(end)? {
            match field.number {
                1 => value.name = self.wire.text(&field)?,
                2 => self.of_type(&field, &mut value)?,
                _ => {}
            }
            self.wire.skip(&field)?;
        }
        Ok(value)
    }

    fn of_type(&mut self, field: &Field, value: &mut Value) -> Result<()> {
        let end = self.wire.range(field)?.end;
        while let Some(field) = self.next(end)? {
            if field.number == 1 {
                let end = self.wire.range(&field)?.end;
                while let Some(field) = self.next(end)? {
                    match field.number {
                        1 => value.data_type = self.wire.int(&field)?,
                        2 => value.shape = Some(self.shape(&field)?),
                        _ => {}
                    }
                    self.wire.skip(&field)?;
                }
            }
            self.wire.skip(&field)?;
        }
        Ok(())
    }

    fn shape(&mut self, field: &Field) -> Result<Vec<Dimension>> {
        let end = self.wire.range(field)?.end;
        let mut shape = Vec::new();
        while let Some(field) = self.next(end)? {
            if field.number == 1 {
                self.limits.check(Limit::Rank, shape.len() as u64 + 1)?;
                shape.push(self.dimension(&field)?);
            }
            self.wire.skip(&field)?;
        }
        Ok(shape)
    }

    fn dimension(&mut self, field: &Field) -> Result<Dimension> {
        let end = self.wire.range(field)?.end;
        let mut dimension = Dimension::Free;
        while let Some(field) = self.next(end)? {
            match field.number {
                1 => {
                    let len = u64::try_from(self.wire.int(&field)?);
                    dimension = len.map_or(Dimension::Free, Dimension::Known);
                }
                2 => {
                    let name = self.wire.text(&field)?;
                    dimension = if name.is_empty() { Dimension::Free } else { Dimension::Named(name) };
                }
                _ => {}
            }
            self.wire.skip(&field)?;
        }
        Ok(dimension)
    }
}

/// Adds the floats of a field to a list: packed ones, or one. A list for which there is no room stays too short.
fn add_to_list(field: &Field, list: &mut Tensor, room: &mut usize) {
    let range = match &field.value {
        Wired::Bytes(range) => range.clone(),
        Wired::Fixed32(_) => field.span.end.saturating_sub(4)..field.span.end,
        _ => return,
    };
    if range.is_empty() || *room == 0 {
        return;
    }
    *room -= 1;
    if list.typed.is_empty() {
        (list.span, list.body) = (field.span.clone(), field.span.clone());
    }
    list.typed.push(Chunk { field: FLOAT_DATA, tag_bytes: 0, range, span: field.span.clone() });
}

/// Whether a list of an attribute is too long with the numbers of this field, which may be packed. A packed number takes at
/// most ten bytes.
fn is_too_long(field: &Field, len: usize) -> bool {
    let packed = match &field.value {
        Wired::Bytes(range) => range.end.saturating_sub(range.start) / 10,
        _ => 0,
    };
    len >= MOST_ELEMENTS || packed >= MOST_ELEMENTS as u64
}

/// Checks that graphs within nodes do not nest too deep; takes no stack for their levels.
fn check_levels(file: &File, limits: &Limits, subgraphs: Vec<Range<u64>>) -> Result<()> {
    /// A message: a graph, a node, an attribute.
    const NESTED: [&[u64]; 3] = [&[1], &[5], &[6, 11]];
    let mut left: Vec<(Range<u64>, usize)> = subgraphs.into_iter().map(|range| (range, 0)).collect();
    while let Some((range, level)) = left.pop() {
        if level / NESTED.len() >= MOST_LEVELS {
            return Err(Error::corrupt("graphs nest too deep in the nodes of graphs")
                .offset(range.start)
                .expected(format!("at most {MOST_LEVELS} levels")));
        }
        let mut wire = Wire::within(file, limits, &WIRE, range.clone())?;
        let kinds = NESTED.get(level % NESTED.len()).copied().unwrap_or_default();
        while let Some(field) = wire.field(range.end)? {
            if kinds.contains(&field.number) {
                left.push((wire.range(&field)?, level + 1));
            }
            wire.skip(&field)?;
        }
    }
    Ok(())
}

/// Whether the file begins as a model does: with its version, and then fields of a model up to its graph.
pub(crate) fn looks_like(file: &File, limits: &Limits) -> Result<bool> {
    /// Fields that are looked at.
    const MOST_FIELDS: usize = 64;
    let mut wire = Wire::new(file, limits, &WIRE);
    let mut has_version = false;
    for _ in 0..MOST_FIELDS {
        let Some(field) = wire.field(file.len())? else { return Ok(false) };
        match (field.number, &field.value) {
            (1, Wired::Varint(version)) if (1..=u64::from(u16::MAX)).contains(version) => has_version = true,
            (7, Wired::Bytes(body)) => return Ok(has_version && is_graph(file, limits, body.clone())?),
            (5, Wired::Varint(_)) => {}
            (2 | 3 | 4 | 6 | 8 | 14 | 20 | 25 | 26, Wired::Bytes(_)) => {}
            _ => return Ok(false),
        }
        wire.skip(&field)?;
    }
    Ok(false)
}

/// Whether the first field of a message is one of a graph.
fn is_graph(file: &File, limits: &Limits, body: Range<u64>) -> Result<bool> {
    let first = Wire::within(file, limits, &WIRE, body.clone())?.field(body.end)?;
    Ok(first
        .is_some_and(|field| matches!((field.number, field.value), (1 | 2 | 5 | 10..=16, Wired::Bytes(_)))))
}
