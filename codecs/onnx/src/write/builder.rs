//! Builds the nodes and tensors of a new model from a graph of the contract.

use crate::format::gates::Gates;
use crate::format::number;
use ckpt_api::{Checkpoint, DType, Error, Graph, Node, Op, Result, Role, Tensor, TensorId};
use ckpt_graph::Names;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A model without its bytes.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) name: String,
    pub(super) nodes: Vec<NewNode>,
    pub(super) initializers: Vec<Initializer>,
    pub(super) inputs: Vec<Interface>,
    pub(super) outputs: Vec<Interface>,
}

/// A node of ONNX's own operators.
#[derive(Clone, Debug)]
pub(super) struct NewNode {
    pub(super) name: String,
    pub(super) op: &'static str,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    /// Attributes by name.
    pub(super) settings: BTreeMap<&'static str, Setting>,
    /// `metadata_props`.
    pub(super) properties: Vec<(&'static str, String)>,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub(super) enum Setting {
    Float(f32),
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
    Graph(Box<Inner>),
}

/// A graph within a node. It has no tensors: those are the model's.
#[derive(Clone, Debug, Default)]
pub(super) struct Inner {
    pub(super) name: String,
    pub(super) nodes: Vec<NewNode>,
    pub(super) inputs: Vec<Interface>,
    pub(super) outputs: Vec<Interface>,
}

/// A tensor of the model.
#[derive(Debug)]
pub(super) enum Initializer {
    /// A tensor of the checkpoint: stored with these lengths, its axes in this order, its gates in another one.
    Tensor { id: TensorId, dims: Vec<u64>, order: Vec<usize>, gates: Option<Gates> },
    /// Numbers that are attributes in the contract.
    Literal { name: String, data_type: i64, dims: Vec<u64>, raw: Vec<u8> },
}

/// What the model takes or makes.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) data_type: i64,
    /// `None` if it is not stated.
    pub(super) shape: Option<Vec<Option<u64>>>,
}

/// What numbers a value has: ONNX tells them apart, the contract only if it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Real,
    Int,
    Bool,
}

/// How a tensor is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) order: Vec<usize>,
    pub(super) dims: Vec<u64>,
    pub(super) gates: Option<Gates>,
}

pub(super) struct Builder<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    ids: HashMap<&'a str, usize>,
    /// The type of all real numbers.
    pub(super) real: DType,
    pub(super) built: Built,
    /// How many graphs the one that is written is within.
    pub(super) level: usize,
    /// Nodes that compute with tensors alone; graphs within nodes take what they make.
    prelude: Vec<NewNode>,
    /// How tensors are stored, and the value that layers take of each.
    stored: HashMap<usize, (Stored, String)>,
    /// Names of values and tensors, and names of nodes, that are taken.
    names: Names,
    node_names: Names,
    /// The name of each of the graph's values in the model.
    values: HashMap<String, String>,
    kinds: HashMap<String, Kind>,
    /// Number of axes, if it is known.
    ranks: HashMap<String, usize>,
    /// The layer that is being written.
    pub(super) layer: String,
}

/// Builds the model of a graph.
pub(super) fn build(checkpoint: &Checkpoint, graph: &Graph) -> Result<Built> {
    let mut builder = Builder::new(checkpoint, graph);
    let indices = indices(graph);
    for input in &graph.inputs {
        let dtype = input.dtype.unwrap_or(if indices.contains(input.name.as_str()) {
            DType::I64
        } else {
            builder.real
        });
        let dtype = if dtype.is_float() { builder.real } else { dtype };
        let name = builder.declare(&input.name);
        let number = number(dtype)
            .ok_or_else(|| Error::unsupported("ONNX has no such data type").found(dtype.name()))?;
        builder.built.inputs.push(Interface {
            name: name.clone(),
            data_type: number,
            shape: Some(input.shape.clone()),
        });
        let value = match dtype {
            dtype if dtype.is_float() || matches!(dtype, DType::I64 | DType::Bool) => name,
            // Integers of all sizes are computed with 64 bits.
            _ => {
                builder.layer = input.name.clone();
                builder.cast_to(name, Kind::Int)
            }
        };
        let kind = if dtype.is_float() {
            Kind::Real
        } else if dtype == DType::Bool {
            Kind::Bool
        } else {
            Kind::Int
        };
        builder.define(&input.name, value, kind, Some(input.shape.len()));
    }
    for node in &graph.nodes {
        builder.layer.clone_from(&node.name);
        builder.node(node).map_err(|error| error.field(&node.name))?;
    }
    builder.outputs(graph)?;
    builder.others();
    if !builder.prelude.is_empty() {
        let nodes = std::mem::take(&mut builder.prelude);
        builder.built.nodes.splice(0..0, nodes);
    }
    builder.built.name = if graph.name.is_empty() { "graph".to_owned() } else { graph.name.clone() };
    Ok(builder.built)
}

/// Inputs that are indices.
fn indices(graph: &Graph) -> HashSet<&str> {
    let tables = graph.nodes.iter().filter(|node| node.op == Op::Gather);
    tables.filter_map(|node| node.inputs.last().map(String::as_str)).collect()
}

impl<'a> Builder<'a> {
    fn new(checkpoint: &'a Checkpoint, graph: &Graph) -> Self {
        let ids: HashMap<&str, usize> =
            checkpoint.tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.as_str(), id)).collect();
        let real = real(checkpoint, graph, &ids);
        let mut names = Names::default();
        checkpoint.tensors.iter().for_each(|tensor| names.take(&tensor.name));
        Builder {
            checkpoint,
            ids,
            real,
            built: Built::default(),
            level: 0,
            prelude: Vec::new(),
            stored: HashMap::new(),
            names,
            node_names: Names::default(),
            values: HashMap::new(),
            kinds: HashMap::new(),
            ranks: HashMap::new(),
            layer: String::new(),
        }
    }

    /// A name that no value has yet: `wanted`, or it with a number.
    pub(super) fn declare(&mut self, wanted: &str) -> String {
        self.names.unused(wanted)
    }

    /// Notes under which name the model has a value of the graph, and what is known of it.
    pub(super) fn define(&mut self, value: &str, name: String, kind: Kind, rank: Option<usize>) {
        self.kinds.insert(name.clone(), kind);
        if let Some(rank) = rank {
            self.ranks.insert(name.clone(), rank);
        }
        self.values.insert(value.to_owned(), name);
    }

    /// The model's name of a value that a node takes; empty for one that is left out.
    pub(super) fn value(&self, name: &str) -> Result<String> {
        if name.is_empty() {
            return Ok(String::new());
        }
        self.values.get(name).cloned().ok_or_else(|| {
            Error::corrupt("a layer takes a value that no earlier layer produces").found(format!("'{name}'"))
        })
    }

    pub(super) fn kind(&self, name: &str) -> Kind {
        self.kinds.get(name).copied().unwrap_or(Kind::Real)
    }

    pub(super) fn rank(&self, name: &str) -> Option<usize> {
        self.ranks.get(name).copied()
    }

    /// Sets the number of axes of a value; `None` if it is not known.
    pub(super) fn set_rank(&mut self, name: &str, rank: Option<usize>) {
        match rank {
            Some(rank) => self.ranks.insert(name.to_owned(), rank),
            None => self.ranks.remove(name),
        };
    }

    /// Adds a node of the layer.
    pub(super) fn push(
        &mut self,
        op: &'static str,
        inputs: Vec<String>,
        outputs: Vec<String>,
        settings: impl IntoIterator<Item = (&'static str, Setting)>,
    ) {
        let name = self.node_names.unused(&self.layer);
        self.built.nodes.push(NewNode {
            name,
            op,
            inputs,
            outputs,
            settings: settings.into_iter().collect(),
            properties: Vec::new(),
        });
    }

    /// Notes a property of the node that was added last.
    pub(super) fn note(&mut self, key: &'static str, value: String) {
        if let Some(node) = self.built.nodes.last_mut() {
            node.properties.push((key, value));
        }
    }

    /// Adds a node with one output, whose name it returns; the name is near that of the layer.
    pub(super) fn step(
        &mut self,
        op: &'static str,
        inputs: Vec<String>,
        settings: impl IntoIterator<Item = (&'static str, Setting)>,
    ) -> String {
        let near = format!("{}/{}", self.layer, op.to_lowercase());
        let output = self.declare(&near);
        let (kind, rank) =
            inputs.first().map_or((Kind::Real, None), |first| (self.kind(first), self.rank(first)));
        self.push(op, inputs, vec![output.clone()], settings);
        self.kinds.insert(output.clone(), kind);
        self.set_rank(&output, rank);
        output
    }

    /// A value as numbers of another kind.
    pub(super) fn cast_to(&mut self, value: String, kind: Kind) -> String {
        let to = self.data_type(kind);
        let rank = self.rank(&value);
        let output = self.step("Cast", vec![value], [("to", Setting::Int(to))]);
        self.kinds.insert(output.clone(), kind);
        self.set_rank(&output, rank);
        output
    }

    /// A value that an operator computes with: truth values as the integers 1 and 0.
    pub(super) fn numeric(&mut self, value: String) -> String {
        if self.kind(&value) == Kind::Bool { self.cast_to(value, Kind::Int) } else { value }
    }

    /// ONNX's number of the type that numbers of a kind have.
    pub(super) fn data_type(&self, kind: Kind) -> i64 {
        match kind {
            Kind::Real => number(self.real).unwrap_or(1),
            Kind::Int => 7,
            Kind::Bool => 9,
        }
    }

    /// The values as numbers of one kind.
    pub(super) fn all_of(&mut self, values: Vec<String>, kind: Kind) -> Vec<String> {
        let as_kind =
            |value: String| if self.kind(&value) == kind { value } else { self.cast_to(value, kind) };
        values.into_iter().map(as_kind).collect()
    }

    /// A list of integers that ONNX takes as an input.
    pub(super) fn ints(&mut self, role: &str, values: &[i64]) -> String {
        let raw = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.literal(role, 7, vec![values.len() as u64], raw, Kind::Int)
    }

    /// An integer that ONNX takes as an input.
    pub(super) fn int(&mut self, role: &str, value: i64) -> String {
        self.literal(role, 7, Vec::new(), value.to_le_bytes().to_vec(), Kind::Int)
    }

    /// A number that ONNX takes as an input.
    pub(super) fn real(&mut self, role: &str, value: f64) -> Result<String> {
        let raw = self.real_bytes(value);
        let data_type = number(if raw.len() == 4 { DType::F32 } else { self.real }).unwrap_or(1);
        let literal = self.literal(role, data_type, Vec::new(), raw, Kind::Real);
        // Half floats are cast from 32-bit ones.
        let is_half = matches!(self.real, DType::F16 | DType::Bf16);
        Ok(if is_half { self.cast_to(literal, Kind::Real) } else { literal })
    }

    /// Numbers that ONNX takes as an input, in this shape.
    pub(super) fn reals(&mut self, role: &str, values: &[f64], dims: Vec<u64>) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|value| self.real_bytes(*value)).collect();
        let data_type = number(if self.real == DType::F64 { DType::F64 } else { DType::F32 }).unwrap_or(1);
        let literal = self.literal(role, data_type, dims, raw, Kind::Real);
        let is_half = matches!(self.real, DType::F16 | DType::Bf16);
        if is_half { self.cast_to(literal, Kind::Real) } else { literal }
    }

    fn real_bytes(&self, value: f64) -> Vec<u8> {
        match self.real {
            DType::F64 => value.to_le_bytes().to_vec(),
            _ => (value as f32).to_le_bytes().to_vec(),
        }
    }

    pub(super) fn literal(
        &mut self,
        role: &str,
        data_type: i64,
        dims: Vec<u64>,
        raw: Vec<u8>,
        kind: Kind,
    ) -> String {
        let near = format!("{}/{role}", self.layer);
        let name = self.declare(&near);
        self.kinds.insert(name.clone(), kind);
        self.ranks.insert(name.clone(), dims.len());
        self.built.initializers.push(Initializer::Literal { name: name.clone(), data_type, dims, raw });
        name
    }

    /// The tensor in a role, if there is one.
    pub(super) fn parameter(&self, node: &Node, role: &str) -> Result<Option<(usize, &'a Tensor)>> {
        let Some(name) = node.parameters.get(role) else { return Ok(None) };
        let id = self.ids.get(name.as_str()).copied();
        let found = id.and_then(|id| Some((id, self.checkpoint.tensors.get(id)?)));
        let missing =
            || Error::corrupt("the layer is bound to a tensor that does not exist").tensor(name.as_str());
        found.map(Some).ok_or_else(missing)
    }

    /// The tensor in a role that a layer must have.
    pub(super) fn required(&self, node: &Node, role: &str) -> Result<(usize, &'a Tensor)> {
        let lacks = || Error::corrupt("the layer lacks a tensor that its operator needs").expected(role);
        self.parameter(node, role)?.ok_or_else(lacks)
    }

    /// The name of a tensor that is stored with these lengths, its axes in this order; where another layer needs it in
    /// another order, a node turns it.
    pub(super) fn tensor(&mut self, id: usize, order: Vec<usize>, dims: Vec<u64>) -> Result<String> {
        self.stored_as(id, Stored { order, dims, gates: None })
    }

    /// As [`Builder::tensor`], with the gates of a recurrent layer in their places.
    pub(super) fn stored_as(&mut self, id: usize, wanted: Stored) -> Result<String> {
        let tensor =
            self.checkpoint.tensors.get(id).ok_or_else(|| Error::defect("a tensor does not exist"))?;
        if tensor.quantization.is_some() || tensor.dtype.bits().is_none() {
            return Err(Error::unsupported(
                "a layer's tensor has numbers that ONNX's operators do not compute with",
            )
            .tensor(&tensor.name)
            .found(tensor.dtype.name()));
        }
        let kind = if tensor.dtype.is_float() { Kind::Real } else { Kind::Int };
        match self.stored.get(&id) {
            None => {
                let Stored { order, dims, gates } = wanted.clone();
                self.built.initializers.push(Initializer::Tensor { id: TensorId(id), dims, order, gates });
                self.kinds.insert(tensor.name.to_string(), kind);
                self.ranks.insert(tensor.name.to_string(), wanted.dims.len());
                // Weights of another type keep it, and are cast where they are taken.
                let is_cast = kind == Kind::Real && tensor.dtype != self.real;
                let value =
                    if is_cast { self.cast_first(&tensor.name, kind) } else { tensor.name.to_string() };
                self.stored.insert(id, (wanted, value.clone()));
                Ok(value)
            }
            Some((stored, value)) if *stored == wanted => Ok(value.clone()),
            Some((stored, value)) => {
                let (stored, value) = (stored.clone(), value.clone());
                self.turned(tensor, value, &stored, &wanted)
            }
        }
    }

    /// A tensor as numbers of another kind, which layers of all graphs can take.
    fn cast_first(&mut self, name: &str, kind: Kind) -> String {
        if self.level == 0 {
            return self.cast_to(name.to_owned(), kind);
        }
        let own = std::mem::take(&mut self.built.nodes);
        let value = self.cast_to(name.to_owned(), kind);
        self.prelude.extend(std::mem::replace(&mut self.built.nodes, own));
        value
    }

    /// A tensor that is stored in one way as another layer needs it.
    fn turned(&mut self, tensor: &Tensor, value: String, stored: &Stored, wanted: &Stored) -> Result<String> {
        let rank = tensor.shape.rank();
        let perm: Option<Vec<i64>> = wanted
            .order
            .iter()
            .map(|axis| stored.order.iter().position(|own| own == axis).and_then(|at| i64::try_from(at).ok()))
            .collect();
        match perm {
            Some(perm)
                if stored.dims.len() == rank && wanted.dims.len() == rank && stored.gates == wanted.gates =>
            {
                Ok(self.step("Transpose", vec![value], [("perm", Setting::Ints(perm))]))
            }
            _ => Err(Error::unsupported("two layers need a tensor in different shapes").tensor(&tensor.name)),
        }
    }

    fn outputs(&mut self, graph: &Graph) -> Result<()> {
        let mut seen: HashSet<String> = self.built.inputs.iter().map(|input| input.name.clone()).collect();
        for output in &graph.outputs {
            self.layer.clone_from(&output.name);
            let mut name = self.value(&output.name)?;
            let is_tensor = self.ids.contains_key(name.as_str());
            // An output is a value of its own.
            if is_tensor || !seen.insert(name.clone()) {
                let kind = self.kind(&name);
                name = self.step("Identity", vec![name], []);
                self.kinds.insert(name.clone(), kind);
                seen.insert(name.clone());
            }
            let data_type = self.data_type(self.kind(&name));
            self.built.outputs.push(Interface { name, data_type, shape: Some(output.shape.clone()) });
        }
        Ok(())
    }

    /// Tensors that no layer takes are stored as they are.
    fn others(&mut self) {
        for (id, tensor) in self.checkpoint.tensors.iter().enumerate() {
            let is_kept =
                tensor.role == Role::Weight && tensor.slot.is_none() && number(tensor.dtype).is_some();
            if is_kept && !self.stored.contains_key(&id) {
                let (order, dims) = ((0..tensor.shape.rank()).collect(), tensor.shape.to_vec());
                self.built.initializers.push(Initializer::Tensor {
                    id: TensorId(id),
                    dims,
                    order,
                    gates: None,
                });
            }
        }
    }
}

/// The type of the graph's real numbers: that of its input, or of all its weights if onnxruntime computes with it.
fn real(checkpoint: &Checkpoint, graph: &Graph, ids: &HashMap<&str, usize>) -> DType {
    let stated = graph.inputs.iter().filter_map(|input| input.dtype).find(|dtype| dtype.is_float());
    let tensors = graph.tensors().filter_map(|name| checkpoint.tensors.get(*ids.get(name)?));
    let mut dtypes: Vec<DType> =
        tensors.map(|tensor| tensor.dtype).filter(|dtype| dtype.is_float()).collect();
    dtypes.sort();
    dtypes.dedup();
    match (stated, &dtypes[..]) {
        (Some(stated @ (DType::F32 | DType::F64 | DType::F16 | DType::Bf16)), _) => stated,
        (None, [one @ (DType::F64 | DType::F16)]) => *one,
        _ => DType::F32,
    }
}
