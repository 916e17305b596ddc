//! Any graph as a module of PyTorch whose state dict has the tensors under the names that the source gives them.
//!
//! A layer whose tensors are called as those of a module of PyTorch (`conv1.weight`, `conv1.bias`) is that module. All else is
//! a function of values and tensors: PyTorch's own, or one of `helpers.py`, which is written into the program if it is called.

mod attributes;
mod control;
mod elementwise;
mod keys;
mod layers;
mod moves;
mod nodes;
mod recurrent;
#[cfg(test)]
mod tests;

use crate::names::{Names, class, identifier, string};
use crate::refusal::refuse;
use crate::tensors::Tensors;
use ckpt_api::{DType, Error, Graph, Node, Result, Tensor};
use ckpt_engine::mapping::{Mapping, MappingGenerator, Translation};
use ckpt_engine::words::quote;
use keys::Keys;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

/// The name of the mapping.
const GRAPH_TO_TORCH: &str = "graph-to-torch";

/// Functions that a program may call; those that it calls are written into it.
const HELPERS: &str = include_str!("helpers.py");

/// The mapping `graph-to-torch`.
#[derive(Clone, Debug, Default)]
pub struct GraphToTorch;

impl MappingGenerator for GraphToTorch {
    fn name(&self) -> &'static str {
        GRAPH_TO_TORCH
    }

    fn title(&self) -> &'static str {
        "Any graph to PyTorch: its tensors keep their names"
    }

    fn source_framework(&self) -> &'static str {
        "a graph"
    }

    fn target_framework(&self) -> &'static str {
        "PyTorch"
    }

    fn with_names(&self, names: &str) -> Result<Arc<dyn MappingGenerator>> {
        Err(Error::usage("the mapping keeps the names of tensors").field(GRAPH_TO_TORCH).found(quote(names)))
    }

    fn translate(&self, graph: &Graph, tensors: &[Tensor]) -> Result<Translation> {
        graph.require_activations()?;
        let keys = Keys::of(tensors);
        let title = self.title().to_owned();
        let mut mapping = Mapping::of_generator(GRAPH_TO_TORCH, title, "pt");
        for tensor in tensors {
            if let Some(key) = keys.get(&tensor.name) {
                mapping.look_up(&tensor.name, key);
            }
        }
        Ok(Translation::new(mapping, program(graph, tensors, &keys)))
    }
}

/// Returns the program of a graph.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`], naming the node or the tensor that has no form in it.
fn program(graph: &Graph, tensors: &[Tensor], keys: &Keys) -> Result<String> {
    let mut emitter = Emitter::new(graph, tensors, keys);
    emitter.nodes(graph)?;
    let results: Vec<String> =
        graph.outputs.iter().map(|output| emitter.variable(&output.name)).collect::<Result<_>>()?;
    let arguments: Vec<String> =
        graph.inputs.iter().map(|input| emitter.variable(&input.name)).collect::<Result<_>>()?;
    let name = class(if graph.name.is_empty() { "model" } else { &graph.name });
    let mut text = format!("\"\"\"{name}, converted by ckpt.\n\nTakes the values that the model takes:\n\n");
    for (argument, input) in arguments.iter().zip(&graph.inputs) {
        let len = |len: &Option<u64>| len.map_or("?".to_owned(), |len| len.to_string());
        let lens: Vec<String> = input.shape.iter().map(len).collect();
        let _ = writeln!(text, "    {argument}: [{}]", lens.join(", "));
    }
    let _ = writeln!(
        text,
        "\nLoad the weights with {name}().load_state_dict(...), and call .eval() before predicting.\n\"\"\"\n\nimport torch\nimport \
         torch.nn.functional as F\nfrom torch import nn"
    );
    text += &helpers(&emitter.helpers);
    let _ =
        writeln!(text, "\n\nclass {name}(nn.Module):\n    def __init__(self):\n        super().__init__()");
    // A module comes before those within it.
    emitter.modules.sort();
    for (path, made) in &emitter.modules {
        let _ = writeln!(text, "        self.put({}, {made})", string(path));
    }
    for tensor in tensors {
        let key = keys.get(&tensor.name).unwrap_or_default();
        if !emitter.owned.contains(key) {
            let lens: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
            let dtype = dtype(tensor)?;
            let _ = writeln!(
                text,
                "        self.put({}, torch.zeros([{}], dtype=torch.{dtype}))",
                string(key),
                lens.join(", ")
            );
        }
    }
    text += PUT;
    let _ = writeln!(text, "\n    def forward(self, {}):", arguments.join(", "));
    if emitter.reads_tensors {
        text += "        w = self.state_dict(keep_vars=True)\n";
    }
    emitter.lines.iter().for_each(|line| text += line);
    let _ = writeln!(text, "        return {}", results.join(", "));
    Ok(text)
}

/// How modules and tensors get their places.
const PUT: &str = r#"
    def put(self, name, value):
        *path, own = name.split(".")
        module = self
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        if isinstance(value, nn.Module):
            module.add_module(own, value)
        elif value.is_floating_point():
            module.register_parameter(own, nn.Parameter(value))
        else:
            module.register_buffer(own, value)
"#;

/// The functions of these names, and those that they call.
fn helpers(wanted: &BTreeSet<&'static str>) -> String {
    let all: Vec<(&str, &str)> = HELPERS
        .split("\n\n\n")
        .filter_map(|text| Some((text.strip_prefix("def ")?.split('(').next()?, text.trim_end())))
        .collect();
    let mut open: Vec<&str> = wanted.iter().copied().collect();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    while let Some(name) = open.pop() {
        if used.insert(name) {
            let text = all.iter().find(|(own, _)| *own == name).map_or("", |(_, text)| *text);
            open.extend(all.iter().map(|(own, _)| *own).filter(|own| text.contains(&format!("{own}("))));
        }
    }
    let used = all.iter().filter(|(name, _)| used.contains(name));
    used.map(|(_, text)| format!("\n\n{text}\n")).collect()
}

/// PyTorch's name of a tensor's dtype.
fn dtype(tensor: &Tensor) -> Result<&'static str> {
    Ok(match tensor.dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        DType::I8 => "int8",
        DType::U8 => "uint8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::Bool => "bool",
        other => {
            return Err(Error::unsupported("a tensor's dtype has no form in the generated code")
                .tensor(&tensor.name)
                .found(other.to_string()));
        }
    })
}

/// A program that is being written.
pub(super) struct Emitter<'g> {
    tensors: Tensors<'g>,
    keys: &'g Keys,
    names: Names,
    /// How many variables have each name, apart from a number behind it.
    numbers: HashMap<String, u64>,
    /// Variables by the names of the graph's values.
    variables: HashMap<&'g str, String>,
    lines: Vec<String>,
    /// How many blocks the lines are within.
    depth: usize,
    helpers: BTreeSet<&'static str>,
    /// Modules by their path, and how they are made.
    modules: Vec<(String, String)>,
    /// The place of each path among them.
    places: HashMap<String, usize>,
    /// The keys of their tensors.
    owned: HashSet<String>,
    reads_tensors: bool,
}

impl<'g> Emitter<'g> {
    fn new(graph: &'g Graph, tensors: &'g [Tensor], keys: &'g Keys) -> Self {
        let mut emitter = Emitter {
            tensors: Tensors::new(tensors),
            keys,
            names: Names::default(),
            numbers: HashMap::new(),
            variables: HashMap::new(),
            lines: Vec::new(),
            depth: 0,
            helpers: BTreeSet::new(),
            modules: Vec::new(),
            places: HashMap::new(),
            owned: HashSet::new(),
            reads_tensors: false,
        };
        // What the program itself calls these.
        ["w", "range", "tuple", "bool"].into_iter().for_each(|name| emitter.names.take(name));
        for name in HELPERS.lines().filter_map(|line| line.strip_prefix("def ")?.split('(').next()) {
            emitter.names.take(name);
        }
        graph.inputs.iter().for_each(|input| drop(emitter.named(&input.name)));
        emitter
    }

    /// Gives a value a variable.
    fn named(&mut self, value: &'g str) -> String {
        let plain = identifier(&value.to_ascii_lowercase());
        let number = self.numbers.entry(plain.clone()).or_insert(0);
        let mut name = plain.clone();
        loop {
            *number += 1;
            if *number > 1 {
                name = format!("{plain}_{number}");
            }
            if self.names.is_free(&name) {
                break;
            }
        }
        self.names.take(&name);
        self.variables.insert(value, name.clone());
        name
    }

    /// The variable of a value; `None` of Python for one that is left out.
    fn variable(&self, value: &str) -> Result<String> {
        match value {
            "" => Ok("None".to_owned()),
            value => {
                self.variables.get(value).cloned().ok_or_else(|| {
                    Error::unsupported("a value of the graph does not exist").field(quote(value))
                })
            }
        }
    }

    /// The variable of an input, which must be given.
    fn input(&self, node: &Node, at: usize) -> Result<String> {
        match node.inputs.get(at).filter(|name| !name.is_empty()) {
            Some(name) => self.variable(name),
            None => Err(refuse(node, "lacks an input")),
        }
    }

    /// Adds a line at the current depth.
    fn line(&mut self, text: &str) {
        let indent = "    ".repeat(self.depth + 2);
        self.lines.push(format!("{indent}{text}\n"));
    }

    /// A call of a helper.
    fn call(&mut self, helper: &'static str, arguments: &[String]) -> String {
        self.helpers.insert(helper);
        format!("{helper}({})", arguments.join(", "))
    }

    /// The tensor in a role, if the node has one.
    fn tensor(&self, node: &Node, role: &str) -> Result<Option<&'g Tensor>> {
        let Some(name) = node.parameters.get(role) else { return Ok(None) };
        let found =
            self.tensors.get(name).ok_or_else(|| refuse(node, &format!("has no tensor for its {role}")))?;
        match found.quantization {
            None => Ok(Some(found)),
            Some(_) => Err(Error::unsupported(
                "a tensor of integers that stand for real numbers has no form in the generated code",
            )
            .tensor(name)
            .found(format!("the {role} of layer {}", quote(&node.name)))),
        }
    }

    /// The numbers of a tensor: real ones of 32 bits or more, or integers.
    fn read(&mut self, tensor: &Tensor) -> Result<String> {
        self.reads_tensors = true;
        let key = self.keys.get(&tensor.name).unwrap_or_default();
        dtype(tensor)?;
        let kind = match tensor.dtype {
            DType::F32 | DType::F64 => "",
            other if other.is_float() => ".float()",
            _ => ".long()",
        };
        Ok(format!("w[{}]{kind}", string(key)))
    }
}
