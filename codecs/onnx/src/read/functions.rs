//! Puts the nodes of the functions that a model defines in the place of their calls.

use crate::format::message::{Attribute, Function, Graph, Node, Tensor};
use ckpt_api::MAX_GRAPH_LEVELS;
use ckpt_graph::Names;
use std::collections::{HashMap, HashSet};

/// How deep functions may call each other.
const MOST_CALLS: usize = 32;
/// Nodes, and bytes of their names and attributes, that calls may become.
const MOST_NODES: usize = 1 << 18;
const MOST_BYTES: usize = 64 << 20;

/// The graph with the nodes of functions in the place of their calls; `None` if it calls none.
///
/// # Errors
/// Why there is no such graph, as a clause about the model.
pub(super) fn inlined(
    graph: &Graph,
    functions: &[Function],
    opset: Option<i64>,
) -> Result<Option<Graph>, String> {
    let functions: HashMap<Key<'_>, &Function> = functions
        .iter()
        .map(|function| (key(&function.domain, &function.name, &function.overload), function))
        .collect();
    let mut nodes = graph.levels().flat_map(|level| &level.nodes);
    if !nodes.any(|node| functions.contains_key(&called(node))) {
        return Ok(None);
    }
    let mut names = Names::default();
    for level in graph.levels() {
        level.initializers.iter().for_each(|tensor| names.take(&tensor.name));
        level.inputs.iter().for_each(|input| names.take(&input.name));
        level.nodes.iter().flat_map(|node| &node.outputs).for_each(|output| names.take(output));
    }
    let mut inliner = Inliner { functions, names, opset, left: (MOST_NODES, MOST_BYTES) };
    let mut graph = graph.clone();
    graph.nodes = inliner.expanded(graph.nodes, 0)?;
    Ok(Some(graph))
}

/// The domain, name and overload of a function.
type Key<'a> = (&'a str, &'a str, &'a str);

fn key<'a>(domain: &'a str, name: &'a str, overload: &'a str) -> Key<'a> {
    (if domain == "ai.onnx" { "" } else { domain }, name, overload)
}

fn called(node: &Node) -> Key<'_> {
    key(&node.domain, &node.op, &node.overload)
}

struct Inliner<'a> {
    functions: HashMap<Key<'a>, &'a Function>,
    /// Names of values.
    names: Names,
    /// The version of ONNX's operator set in the model.
    opset: Option<i64>,
    /// Nodes and bytes that calls may still become.
    left: (usize, usize),
}

impl Inliner<'_> {
    /// Replaces calls, those in functions and in graphs within nodes among them.
    fn expanded(&mut self, mut nodes: Vec<Node>, level: usize) -> Result<Vec<Node>, String> {
        if level > MAX_GRAPH_LEVELS {
            return Err("its functions have graphs that nest too deep".to_owned());
        }
        for depth in 0.. {
            let Some(call) = nodes.iter().find(|node| self.functions.contains_key(&called(node))) else {
                break;
            };
            if depth == MOST_CALLS {
                return Err(format!(
                    "its functions call each other too deep, at '{}'",
                    call.op.escape_debug()
                ));
            }
            let mut replaced = Vec::with_capacity(nodes.len());
            for node in nodes {
                match self.functions.get(&called(&node)).copied() {
                    Some(function) => replaced.extend(self.body(function, &node)?),
                    None => replaced.push(node),
                }
            }
            nodes = replaced;
        }
        for (_, attribute) in nodes.iter_mut().flat_map(|node| &mut node.attributes) {
            if let Attribute::Graph(graph) = attribute {
                graph.nodes = self.expanded(std::mem::take(&mut graph.nodes), level + 1)?;
            }
        }
        Ok(nodes)
    }

    /// The nodes of a function, with the values and attributes of a call.
    fn body(&mut self, function: &Function, call: &Node) -> Result<Vec<Node>, String> {
        let shown = || format!("function '{}'", function.name.escape_debug());
        if function.opset().is_some_and(|own| self.opset.is_some_and(|opset| own != opset)) {
            return Err(format!("its {} has another operator set than its graph", shown()));
        }
        let made: HashSet<&str> =
            function.nodes.iter().flat_map(|node| &node.outputs).map(String::as_str).collect();
        let mut values: HashMap<String, String> = HashMap::new();
        for (at, formal) in function.inputs.iter().enumerate() {
            values.insert(formal.clone(), call.inputs.get(at).cloned().unwrap_or_default());
        }
        let given = call.outputs.iter().filter(|output| !output.is_empty());
        let place = if call.name.is_empty() { given.clone().next().unwrap_or(&call.op) } else { &call.name };
        let mut passed = Vec::new();
        for (formal, actual) in
            function.outputs.iter().zip(&call.outputs).filter(|(_, actual)| !actual.is_empty())
        {
            // An output that is an input, or another output again, is passed on.
            match values.get(formal) {
                Some(value) => passed.push(passes_on(value, actual)),
                None if made.contains(formal.as_str()) => {
                    values.insert(formal.clone(), actual.clone());
                }
                None => return Err(format!("its {} does not make '{}'", shown(), formal.escape_debug())),
            }
        }
        let scope = Scope { place, call, defaults: &function.defaults };
        let mut nodes = Vec::with_capacity(function.nodes.len() + passed.len());
        for node in &function.nodes {
            let missing =
                node.inputs.iter().find(|name| !name.is_empty() && !values.contains_key(name.as_str()));
            if let Some(name) = missing {
                return Err(format!(
                    "its {} takes '{}', which it does not make",
                    shown(),
                    name.escape_debug()
                ));
            }
            nodes.push(self.renamed(node, &mut values, &scope)?);
        }
        nodes.extend(passed);
        Ok(nodes)
    }

    /// A node with the names and attributes that it has in a call.
    fn renamed(
        &mut self,
        node: &Node,
        values: &mut HashMap<String, String>,
        scope: &Scope<'_>,
    ) -> Result<Node, String> {
        self.take(node, scope.place.len())?;
        let mut node = node.clone();
        if !node.name.is_empty() {
            node.name = format!("{}/{}", scope.place, node.name);
        }
        for (name, attribute) in std::mem::take(&mut node.attributes) {
            let attribute = match attribute {
                Attribute::Reference(of) => match scope.attribute(&of) {
                    Some(given) => {
                        self.take_attribute(given)?;
                        given.clone()
                    }
                    // The call leaves it out.
                    None => continue,
                },
                Attribute::Graph(mut graph) => {
                    self.rename_graph(&mut graph, values, scope)?;
                    Attribute::Graph(graph)
                }
                other => other,
            };
            node.attributes.push((name, attribute));
        }
        for input in &mut node.inputs {
            if let Some(value) = values.get(input.as_str()) {
                input.clone_from(value);
            }
        }
        for output in node.outputs.iter_mut().filter(|output| !output.is_empty()) {
            *output = self.value(output, values, scope);
        }
        Ok(node)
    }

    /// The name in a call of a value that a function makes.
    fn value(&mut self, name: &str, values: &mut HashMap<String, String>, scope: &Scope<'_>) -> String {
        if let Some(value) = values.get(name) {
            return value.clone();
        }
        let value = self.names.unused(&format!("{}/{name}", scope.place));
        values.insert(name.to_owned(), value.clone());
        value
    }

    /// Renames what a graph within a node of a function has; values around it are known.
    fn rename_graph(
        &mut self,
        graph: &mut Graph,
        values: &mut HashMap<String, String>,
        scope: &Scope<'_>,
    ) -> Result<(), String> {
        for Tensor { name, .. } in &mut graph.initializers {
            *name = self.value(name, values, scope);
        }
        for input in &mut graph.inputs {
            input.name = self.value(&input.name, values, scope);
        }
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            nodes.push(self.renamed(node, values, scope)?);
        }
        graph.nodes = nodes;
        for output in graph.outputs.iter_mut().chain(&mut graph.values) {
            if let Some(value) = values.get(output.name.as_str()) {
                output.name.clone_from(value);
            }
        }
        Ok(())
    }

    /// Counts a node that is copied.
    fn take(&mut self, node: &Node, longer: usize) -> Result<(), String> {
        let texts = node.inputs.iter().chain(&node.outputs).chain([&node.name, &node.op, &node.domain]);
        let names = texts.map(|text| text.len() + longer + size_of::<String>()).sum::<usize>();
        self.left.0 = self.left.0.checked_sub(1).ok_or_else(too_many)?;
        self.take_bytes(names + size_of::<Node>())?;
        // What the graphs of attributes hold is counted with their nodes.
        node.attributes.iter().try_for_each(|(_, attribute)| self.take_attribute(attribute))
    }

    fn take_attribute(&mut self, attribute: &Attribute) -> Result<(), String> {
        let tensor = |tensor: &Tensor| {
            let texts = tensor.external.iter().map(|(key, value, _)| key.len() + value.len());
            size_of::<Tensor>() + 8 * tensor.dims.len() + 64 * tensor.typed.len() + texts.sum::<usize>()
        };
        let bytes = match attribute {
            Attribute::Text(text) => text.len(),
            Attribute::Floats(list) => 4 * list.len(),
            Attribute::Ints(list) => 8 * list.len(),
            Attribute::Texts(list) => list.iter().map(|text| text.len() + size_of::<Vec<u8>>()).sum(),
            Attribute::Tensor(stored) => tensor(stored),
            Attribute::Graph(graph) => graph.initializers.iter().map(tensor).sum(),
            _ => 0,
        };
        self.take_bytes(bytes + size_of::<(String, Attribute)>())
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), String> {
        self.left.1 = self.left.1.checked_sub(bytes).ok_or_else(too_many)?;
        Ok(())
    }
}

/// Where a function is called.
struct Scope<'a> {
    /// What its values are named after.
    place: &'a str,
    call: &'a Node,
    defaults: &'a [(String, Attribute)],
}

impl Scope<'_> {
    /// The attribute of a call, or else the function's own.
    fn attribute(&self, name: &str) -> Option<&Attribute> {
        let all = self.call.attributes.iter().chain(self.defaults);
        all.filter(|(own, _)| own == name).map(|(_, attribute)| attribute).next()
    }
}

/// A node that gives a value another name.
fn passes_on(from: &str, to: &str) -> Node {
    Node {
        op: "Identity".to_owned(),
        inputs: vec![from.to_owned()],
        outputs: vec![to.to_owned()],
        ..Node::default()
    }
}

fn too_many() -> String {
    format!("its functions become more than {MOST_NODES} nodes, or {MOST_BYTES} bytes of them")
}
