//! A model with its tensors.

use super::compressed::{self, Definitions, PREFIX};
use super::files::Files;
use super::model::{self, Model, Part};
use super::network::{self, Network};
use super::program::{Data, Operation, Program, Value};
use super::values::{Located, stored};
use crate::format::{NAMESPACE, constant_name};
use crate::graph;
use ckpt_api::{
    Contents, Error, File, Input, Limit, Limits, MetadataValue, MissingGraph, Placement, Result, TensorId,
    Viewed,
};
use ckpt_graph::Names;
use std::collections::{BTreeMap, HashMap};

/// Integers in the program itself are no tensors if they are fewer: axes, strides.
const FEW: u64 = 10;

/// A model with its tensors, without its structure.
pub(crate) struct Parsed {
    pub(crate) contents: Contents,
}

impl Parsed {
    /// Parses a model, and locates its tensors.
    ///
    /// # Errors
    /// As [`ckpt_api::Codec::read`].
    pub(crate) fn of(input: &Input, limits: &Limits, name: String, file: File) -> Result<Self> {
        let in_model = |error: Error| error.file(file.name());
        let model = model::parse(&file, limits).map_err(in_model)?;
        let mut reader = Reader {
            limits,
            files: Files::new(input, limits, name, file.clone()),
            contents: Contents::default(),
            names: Names::default(),
            viewed: Viewed::default(),
            opened: 0,
            compressed: BTreeMap::new(),
            ids: Vec::new(),
        };
        for (prefix, part) in &model.parts {
            match part {
                Part::Program(program) => reader.program(prefix, program),
                Part::Network(network) => reader.network(prefix, network),
            }
            .map_err(in_model)?;
        }
        let Reader { mut files, mut contents, compressed, ids, .. } = reader;
        add_graph(&mut contents, &model, &mut files, &ids);
        contents.files = files.names;
        describe(&mut contents, &model, &compressed);
        Ok(Parsed { contents })
    }
}

/// The function that a program begins with.
const MAIN: &str = "main";

/// Adds the graph of a model that is one program, or why there is none.
fn add_graph(contents: &mut Contents, model: &Model, files: &mut Files<'_>, ids: &[HashMap<String, usize>]) {
    let missing = |reason: String| MissingGraph { reason: reason.into(), is_unstated: false, help: None };
    let program = match &model.parts[..] {
        [(_, Part::Program(program))] => program,
        [(_, Part::Network(_))] => {
            let reason =
                "the layers of neural networks of Core ML are not read as a graph, but for their weights";
            contents.missing_graph = Some(missing(reason.to_owned()));
            return;
        }
        _ => {
            contents.missing_graph = Some(missing("the model is a pipeline of models".to_owned()));
            return;
        }
    };
    let number = program.functions.iter().position(|function| function.name == MAIN).unwrap_or(0);
    let (Some(function), Some(ids)) = (program.functions.get(number), ids.get(number)) else { return };
    let mut tensors = contents.checkpoint.tensors.clone();
    match graph::read(program, function, files, ids, &mut tensors) {
        Ok((graph, notes)) => {
            contents.checkpoint.tensors = tensors;
            contents.checkpoint.graph = Some(graph);
            contents.graph_notes.extend(notes.into_iter().map(Into::into));
            if program.functions.len() > 1 {
                let count = program.functions.len();
                let note =
                    format!("the model has {count} functions, and the graph is that of '{}'", function.name);
                contents.graph_notes.push(note.into());
            }
        }
        Err(reason) => contents.missing_graph = Some(missing(reason)),
    }
}

/// Adds what the model states beside its tensors, and notes on them.
fn describe(contents: &mut Contents, model: &Model, compressed: &BTreeMap<String, u64>) {
    let metadata = &mut contents.checkpoint.metadata;
    let operations: usize = model.parts.iter().map(|(_, part)| part.operations()).sum();
    if operations > 0 {
        metadata.insert(NAMESPACE, "operations", MetadataValue::integer(operations as u64));
    }
    for (key, value) in model.metadata.iter() {
        metadata.insert(NAMESPACE, key, value.clone());
    }
    let mut notes: Vec<String> = Vec::new();
    for (how, count) in compressed {
        let weights = ckpt_api::count(*count, "weight");
        notes.push(format!("{weights} stored by {how}: read are the numbers that they stand for"));
    }
    for what in &model.others {
        notes.push(format!("the pipeline has {what}, which has no tensors"));
    }
    contents.add_notes(notes);
}

struct Reader<'a> {
    limits: &'a Limits,
    files: Files<'a>,
    contents: Contents,
    names: Names,
    /// Constants can share blobs.
    viewed: Viewed,
    /// Files that were counted.
    opened: usize,
    /// How many weights are compressed in each way.
    compressed: BTreeMap<String, u64>,
    /// The tensor of each constant, for each function.
    ids: Vec<HashMap<String, usize>>,
}

impl Reader<'_> {
    fn program(&mut self, prefix: &str, program: &Program) -> Result<()> {
        for function in &program.functions {
            let Some(block) = function.block else {
                self.ids.push(HashMap::new());
                continue;
            };
            let operations = program.operations(block);
            let prefix = match program.functions.len() {
                1 => prefix.to_owned(),
                _ => format!("{prefix}{}/", function.name),
            };
            let (mut definitions, mut ids) = (Definitions::new(), HashMap::new());
            for operation in &operations {
                if operation.op == "const" || operation.op.starts_with(PREFIX) {
                    let results = operation.outputs.iter().enumerate();
                    definitions.extend(results.map(|(at, output)| (output.name.as_str(), (*operation, at))));
                }
            }
            for operation in operations {
                let own = format!("{prefix}{}", constant_name(operation.name(), operation.shown()));
                let located = self.constant(operation, &own, &definitions);
                if let Some(located) = located.map_err(|error| error.tensor(&own))? {
                    ids.insert(operation.name().to_owned(), self.add(located)?);
                }
            }
            self.ids.push(ids);
        }
        Ok(())
    }

    /// The tensor of an operation; `None` if it is no constant, or one that is no tensor.
    fn constant(
        &mut self,
        operation: &Operation,
        name: &str,
        definitions: &Definitions<'_>,
    ) -> Result<Option<Located>> {
        if operation.op.starts_with(PREFIX) {
            let located = compressed::tensor(operation, name, definitions, &mut self.files)?;
            if located.is_some() {
                *self.compressed.entry(operation.op.clone()).or_default() += 1;
            }
            return Ok(located);
        }
        let Some(value) = operation.value("val").filter(|_| operation.op == "const") else {
            return Ok(None);
        };
        self.check_type(operation, value)?;
        let Some(stored) = stored(value, &mut self.files)? else { return Ok(None) };
        let is_few = matches!(value.data, Data::Immediate(_)) && stored.shape.elements() < FEW;
        let is_tensor = stored.element.is_float() || !is_few;
        is_tensor.then(|| stored.tensor(name)).transpose()
    }

    /// A constant has the type that its operation states.
    fn check_type(&self, operation: &Operation, value: &Value) -> Result<()> {
        let stated = operation.outputs.first().map(|output| &output.ty);
        let is_same = stated.is_none_or(|stated| {
            stated.number == value.ty.number && (stated.lens == value.ty.lens || stated.lens.is_empty())
        });
        if is_same || value.ty.number == 0 {
            return Ok(());
        }
        Err(Error::corrupt("a constant has another type than its operation states")
            .offset(value.at)
            .field("val")
            .found(format!("type {} with axes {:?}", value.ty.number, value.ty.lens))
            .expected("the type of the operation's result"))
    }

    fn network(&mut self, prefix: &str, network: &Network) -> Result<()> {
        for layer in &network.layers {
            for weights in &layer.weights {
                let own = format!("{prefix}{}/{}", layer.name, weights.name);
                let located = network::locate(layer, weights, &own, &self.files);
                let Some(located) = located.map_err(|error| error.tensor(&own))? else { continue };
                if let Some(quantization) = &weights.quantization {
                    let how = if quantization.table.is_some() { "a table" } else { "scale and bias" };
                    *self.compressed.entry(how.to_owned()).or_default() += 1;
                }
                self.add(located)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, located: Located) -> Result<usize> {
        let Located { mut tensor, extents, encoding } = located;
        for file in self.files.files.iter().skip(self.opened) {
            self.viewed.open(file.len(), []);
        }
        self.opened = self.files.files.len();
        let id = self.contents.checkpoint.tensors.len();
        self.limits.check(Limit::Tensors, id as u64 + 1)?;
        // Many names can begin with one long name of a function or a layer.
        self.files.check(tensor.name.len() as u64)?;
        tensor.name = self.names.unused(&tensor.name).into();
        self.viewed.add(&tensor).map_err(|error| error.tensor(&tensor.name))?;
        let stored = tensor.name.clone();
        self.contents.placements.push(Placement::new(TensorId(id), stored, extents, encoding));
        self.contents.checkpoint.tensors.push(tensor);
        Ok(id)
    }
}
