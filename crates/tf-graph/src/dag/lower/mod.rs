//! Makes the graph: recognizes what several operations compute together, and lowers all others one by one.
//!
//! The operations are lowered on demand, from the results back, so that what only a recognized pattern contains is not
//! lowered at all. A stack holds what is waited for.

mod cubic;
mod elementwise;
mod layers;
mod lowering;
mod masks;
mod moves;
mod places;
mod recurrent;
mod reduce;
mod values;

use super::super::no_chain::NoChain;
use super::super::node::describe;
use super::constant;
use super::facts::dtype;
use super::linear::Linear;
use super::lists::List;
use super::normalization::{BatchNorm, LayerNorm};
use super::pattern::{View, is_float_cast};
use super::reach::{Edge, What, output_names};
use super::recurrent::Recurrent;
use crate::proto::NodeDef;
use ckpt_api::{Attribute, Axis, DType, Graph, Node, Op, Value};
use ckpt_graph::{Dims, GraphResult, results};
use lowering::{Lowering, lost, refuse, shown};
use std::collections::{BTreeMap, HashMap, HashSet};
use values::{Val, Values};

/// An input of the model.
pub(super) struct ModelInput {
    pub name: String,
    pub dims: Dims,
    /// Whether its elements are integers or truth values.
    pub dtype: Option<DType>,
}

/// A graph, and the meanings of its parameters' axes by key.
pub(super) struct Lowered {
    pub graph: Graph,
    pub axes: BTreeMap<String, Vec<Axis>>,
    /// Whether operations compute in 16 bits.
    pub is_half: bool,
    /// Whether layers are within other layers.
    pub is_nested: bool,
}

/// What a node becomes.
enum Plan {
    Linear(Linear),
    BatchNorm(BatchNorm),
    LayerNorm(LayerNorm),
    Gelu(Edge, bool),
    Swish(Edge),
    /// Integers that are known.
    Known,
    /// A number that is known.
    Number(f64),
    /// The value itself.
    Alias(Edge),
    /// The operation, of these inputs; the others are constants that it takes as attributes.
    Operation(Vec<Edge>),
}

impl Plan {
    fn needs(&self) -> Vec<Edge> {
        match self {
            Plan::Linear(linear) => vec![linear.input],
            Plan::BatchNorm(norm) => vec![norm.input],
            Plan::LayerNorm(norm) => vec![norm.input],
            Plan::Gelu(input, _) | Plan::Swish(input) | Plan::Alias(input) => vec![*input],
            Plan::Known | Plan::Number(_) => Vec::new(),
            Plan::Operation(inputs) => inputs.clone(),
        }
    }
}

/// Makes a graph of all results; `names` are theirs.
pub(super) fn lower(
    view: View,
    loops: &HashMap<usize, Recurrent>,
    inputs: Vec<ModelInput>,
    names: &[String],
) -> Result<Lowered, NoChain> {
    let mut lowering = Lowering {
        view,
        values: Values::new(view.context, view.constants),
        made: HashMap::new(),
        is_half: false,
        elements: constant::MAX_ELEMENTS,
        scopes: HashSet::new(),
        loops,
    };
    let inputs = lowering.inputs(inputs);
    let mut outputs = Vec::new();
    for (result, name) in view.dag.results.iter().zip(names) {
        lowering.make(*result)?;
        let Val { name: value, dims, .. } = lowering.output(*result)?;
        outputs.push(GraphResult { value, dims, name: name.clone() });
    }
    let nodes = std::mem::take(&mut lowering.values.nodes);
    let mut graph = Graph { name: String::new(), inputs, outputs: Vec::new(), nodes };
    results::finish(&mut graph, outputs);
    let is_nested = lowering.scopes.len() > 1 || lowering.scopes.iter().any(|scope| scope.contains('/'));
    Ok(Lowered { graph, axes: lowering.values.axes, is_half: lowering.is_half, is_nested })
}

/// Operations whose results can leave the range of their inputs.
const WRAPPING: [&str; 13] = [
    "Add",
    "AddV2",
    "AddN",
    "Sub",
    "Mul",
    "Pow",
    "Neg",
    "Square",
    "SquaredDifference",
    "Sum",
    "Prod",
    "Cumsum",
    "MatMul",
];

/// Refuses what is computed otherwise with integers: graphs have integers of 32 bits, which do not wrap around.
fn check_integers(op: &NodeDef) -> Result<(), NoChain> {
    // TensorFlow's numbers of u8, i16, i8 and u16, and of wider integers.
    let number = dtype(op, "T");
    let is_narrow = matches!(number, Some(4 | 5 | 6 | 17));
    match op.op.as_str() {
        name if is_narrow && WRAPPING.contains(&name) => {
            Err(refuse(op, "computes with integers of fewer than 32 bits, which wrap around"))
        }
        "Mean" if is_narrow || matches!(number, Some(3 | 9 | 22 | 23)) => {
            Err(refuse(op, "is a mean of integers"))
        }
        _ => Ok(()),
    }
}

impl Lowering<'_> {
    fn inputs(&mut self, inputs: Vec<ModelInput>) -> Vec<Value> {
        let mut made = Vec::new();
        for input in inputs {
            let lens: Vec<Option<u64>> = input.dims.iter().map(|len| len.size()).collect();
            let value = Value::new(self.values.input(&input.name, input.dims).name, lens);
            made.push(match input.dtype {
                Some(dtype) => value.of_type(dtype),
                None => value,
            });
        }
        made
    }

    /// Makes a value, and first all values that it needs.
    fn make(&mut self, wanted: Edge) -> Result<(), NoChain> {
        let mut open: Vec<(Edge, Option<Plan>)> = vec![(wanted, None)];
        while let Some((edge, plan)) = open.pop() {
            if self.made.contains_key(&edge) {
                continue;
            }
            match plan {
                None => {
                    let plan = self.plan(edge)?;
                    let needs = plan.needs();
                    open.push((edge, Some(plan)));
                    open.extend(needs.into_iter().rev().map(|need| (need, None)));
                }
                Some(plan) => self.lower(edge, &plan)?,
            }
        }
        Ok(())
    }

    fn plan(&self, edge: Edge) -> Result<Plan, NoChain> {
        let view = self.view;
        let Some(op) = view.op(edge) else { return Ok(Plan::Operation(Vec::new())) };
        if view.facts.get(edge).ints.as_ref().is_some_and(|ints| ints.known().is_some()) {
            return Ok(Plan::Known);
        }
        if is_float_cast(op) {
            return view.only(edge, &["Cast"]).map(Plan::Alias).ok_or_else(|| refuse(op, "lacks an input"));
        }
        if edge.output == 0 {
            if let Some(kept) = view.kept(edge).or_else(|| view.item(edge)) {
                return Ok(Plan::Alias(kept));
            }
            let is_scalar = op.op != "Const" && view.dims(edge).is_some_and(Vec::is_empty);
            if let Some(number) = view.arithmetic(edge).filter(|_| is_scalar) {
                return Ok(Plan::Number(number));
            }
            if let Some(linear) = view.linear(edge) {
                return Ok(Plan::Linear(linear));
            }
            if let Some(norm) = view.batch_norm(edge) {
                return Ok(Plan::BatchNorm(norm));
            }
            if let Some(norm) = view.layer_norm(edge).or_else(|| view.rms_norm(edge)) {
                return Ok(Plan::LayerNorm(norm));
            }
            if let Some((input, is_approximate)) = view.gelu(edge) {
                return Ok(Plan::Gelu(input, is_approximate));
            }
            if let Some(input) = view.swish(edge) {
                return Ok(Plan::Swish(input));
            }
        }
        self.operands(op, edge).map(Plan::Operation)
    }

    /// Returns the inputs of an operation that are values of the graph.
    fn operands(&self, op: &NodeDef, edge: Edge) -> Result<Vec<Edge>, NoChain> {
        let view = self.view;
        let all = view.inputs(edge);
        let some = |range: std::ops::Range<usize>| {
            all.get(range).map(<[Edge]>::to_vec).ok_or_else(|| refuse(op, "lacks an input"))
        };
        match op.op.as_str() {
            "Const" => Ok(Vec::new()),
            "While" | "StatelessWhile" => match self.loops.get(&edge.node) {
                Some(layer) => {
                    let states = layer.states.iter().copied().flatten();
                    Ok([layer.input].into_iter().chain(states).collect())
                }
                None => Err(refuse(op, "is a loop that is not recognized as a recurrent layer")),
            },
            "TensorListStack" => match all.first().and_then(|list| view.items(*list)) {
                Some(items) => Ok(items),
                None if all.first().is_some_and(|list| view.kind(*list) == "TensorListSetItem") => {
                    Err(refuse(op, "takes a list of which items are not known"))
                }
                None => some(0..1),
            },
            "TensorListGetItem" => match all.first().and_then(|list| view.list(*list)) {
                Some(List::Rows(rows)) => Ok(vec![rows]),
                _ => Err(refuse(op, "takes an item of a list that is not known")),
            },
            "ConcatV2" => some(0..all.len().saturating_sub(1)),
            "Fill" | "Split" => some(1..2),
            "ScatterNd" => some(0..2),
            "GatherV2" | "ResourceGather" => {
                let [data, indices, ..] = all else { return Err(refuse(op, "lacks an input")) };
                let is_first = all.get(2).is_none_or(|axis| view.ints(*axis).is_some_and(|axis| axis == [0]));
                let rows = view.dims(*data).and_then(|dims| dims.first()).copied().filter(|_| is_first);
                let indices = rows.map_or(*indices, |rows| view.index(*indices, rows));
                Ok(if self.table(edge).is_some() { vec![indices] } else { vec![*data, indices] })
            }
            "Reshape"
            | "Transpose"
            | "ExpandDims"
            | "Squeeze"
            | "StridedSlice"
            | "Slice"
            | "Mean"
            | "Sum"
            | "Max"
            | "Min"
            | "Prod"
            | "All"
            | "Any"
            | "EuclideanNorm"
            | "ArgMax"
            | "ArgMin"
            | "Pad"
            | "PadV2"
            | "MirrorPad"
            | "Tile"
            | "BroadcastTo"
            | "ResizeBilinear"
            | "ResizeNearestNeighbor"
            | "ResizeBicubic"
            | "ResizeArea"
            | "ReverseV2"
            | "SplitV"
            | "Cumsum"
            | "MatrixBandPart"
            | "OneHot"
            | "TopKV2"
            | "FusedBatchNormV3"
            | "FusedBatchNormV2"
            | "FusedBatchNorm" => some(0..1),
            _ => Ok(all.to_vec()),
        }
    }

    fn lower(&mut self, edge: Edge, plan: &Plan) -> Result<(), NoChain> {
        let view = self.view;
        let place = view.op(edge).map_or(String::new(), |op| shown(&op.name).to_owned());
        self.values.place.clone_from(&place);
        let inputs = plan.needs().iter().map(|need| self.value(*need)).collect::<Result<Vec<_>, _>>()?;
        let op = view.op(edge).filter(|_| !matches!(plan, Plan::Known | Plan::Number(_)));
        self.is_half |=
            op.is_some_and(|op| ["DstT", "T"].iter().any(|name| matches!(dtype(op, name), Some(14 | 19))));
        let lowered = match (plan, view.op(edge)) {
            (Plan::Alias(_), _) => inputs.first().cloned().ok_or_else(lost),
            (Plan::Known, _) => self.known(edge),
            (Plan::Number(number), _) => self.values.scalar(*number).map_err(NoChain::from),
            (_, None) => self.source(edge),
            (plan, Some(op)) => {
                let named = |error: NoChain| error.of(describe(op));
                match plan {
                    Plan::Operation(_) => return self.operation(op, edge, &inputs),
                    Plan::Linear(linear) => self.linear(op, edge, linear, &inputs).map_err(named),
                    Plan::BatchNorm(norm) => self.batch_norm(op, norm, &inputs).map_err(named),
                    Plan::LayerNorm(norm) => self.layer_norm(op, norm, &inputs).map_err(named),
                    Plan::Gelu(_, is_approximate) => {
                        let node = Node::new("", Op::Gelu);
                        let node = match is_approximate {
                            true => node.attribute("approximate", Attribute::Text("tanh".into())),
                            false => node,
                        };
                        self.activation(op, node, &inputs).map_err(named)
                    }
                    _ => self.activation(op, Node::new("", Op::Swish), &inputs).map_err(named),
                }
            }
        };
        self.put(edge, lowered?);
        Ok(())
    }

    /// Remembers a value.
    fn put(&mut self, edge: Edge, val: Val) {
        self.made.insert(edge, val);
    }

    fn value(&self, edge: Edge) -> Result<Val, NoChain> {
        self.made.get(&edge).cloned().ok_or_else(lost)
    }

    /// Makes the value of an input or variable.
    fn source(&mut self, edge: Edge) -> Result<Val, NoChain> {
        match self.view.dag.nodes.get(edge.node).map(|node| &node.what) {
            Some(What::Input(at)) => self.values.inputs().get(*at).cloned().ok_or_else(lost),
            Some(What::Variable(key)) => self.values.stored(key),
            _ => Err(lost()),
        }
    }

    /// Makes the value of integers that are known.
    fn known(&mut self, edge: Edge) -> Result<Val, NoChain> {
        let ints = self.view.facts.get(edge).ints.clone().ok_or_else(lost)?;
        let values = ints.known().ok_or_else(lost)?;
        let name = self.values.place.clone();
        Ok(self.values.integers(&name, &ints.sizes(), values)?)
    }

    /// Makes the value of a constant of floating-point numbers.
    fn constant(&mut self, op: &NodeDef, edge: Edge) -> Result<Val, NoChain> {
        let Some(reals) = constant::reals(op, self.elements) else {
            let key = self.view.variable(edge);
            let key =
                key.ok_or_else(|| refuse(op, "is a constant of a type or size that is not supported"))?;
            return self.values.stored(key);
        };
        self.elements -= reals.values.len();
        let name = self.values.place.clone();
        let shape: Vec<u64> = reals.shape.iter().map(|len| *len as u64).collect();
        Ok(self.values.floats(&name, &shape, reals.values)?)
    }

    /// Lowers one operation, and remembers its results.
    fn operation(&mut self, op: &NodeDef, edge: Edge, inputs: &[Val]) -> Result<(), NoChain> {
        let named = |error: NoChain| error.of(describe(op));
        check_integers(op)?;
        let val = match op.op.as_str() {
            "Const" => self.constant(op, edge)?,
            "While" | "StatelessWhile" => return self.recurrent(op, edge, inputs),
            "Unpack" | "Split" | "SplitV" | "TopKV2" => {
                let parts = match op.op.as_str() {
                    "TopKV2" => self.greatest(edge, inputs).map_err(named)?,
                    _ => self.parts(op, edge, inputs).map_err(named)?,
                };
                for (output, part) in parts.into_iter().enumerate() {
                    self.put(Edge { node: edge.node, output }, part);
                }
                return if self.made.contains_key(&edge) {
                    Ok(())
                } else {
                    Err(refuse(op, "has too few results"))
                };
            }
            _ if edge.output > 0 => {
                let name = output_names(op)
                    .get(edge.output)
                    .map_or(edge.output.to_string(), |name| (*name).to_owned());
                return Err(NoChain::unsupported(format!(
                    "the use of '{name}' of {} is not supported",
                    describe(op)
                )));
            }
            _ => {
                let found = self.single(op, edge, inputs).map_err(named)?;
                found.ok_or_else(|| refuse(op, self.why_unknown(op, edge)))?
            }
        };
        self.put(edge, val);
        Ok(())
    }

    /// Says why an operation is not known: of a convolution, which itself is supported, only some forms are not.
    fn why_unknown(&self, op: &NodeDef, edge: Edge) -> &'static str {
        let inputs = self.view.inputs(edge);
        let kernel = match op.op.as_str() {
            "Conv2D"
            | "Conv3D"
            | "DepthwiseConv2dNative"
            | "Conv2DBackpropInput"
            | "Conv3DBackpropInputV2" => inputs.get(1).copied(),
            _ => return "is not supported",
        };
        // A sequence's kernel is made one of images.
        let is_variable = |edge: Edge| {
            let within = self.view.only(edge, &["ExpandDims", "Reshape", "Squeeze"]);
            self.view.variable(within.unwrap_or(edge)).is_some()
        };
        match kernel.is_some_and(is_variable) {
            true => "has a form that is not supported",
            false => {
                "has a kernel that is no variable, and no constant of which the file has each number: computed kernels are not supported"
            }
        }
    }

    /// Lowers an operation with one result; `None` if it is not known.
    fn single(&mut self, op: &NodeDef, edge: Edge, inputs: &[Val]) -> Result<Option<Val>, NoChain> {
        if let Some(val) = self.elementwise(op, inputs)? {
            return Ok(Some(val));
        }
        if let Some(val) = self.moved(op, edge, inputs)? {
            return Ok(Some(val));
        }
        if let Some(val) = self.placed(op, edge, inputs)? {
            return Ok(Some(val));
        }
        match self.masked(op, edge, inputs)? {
            Some(val) => Ok(Some(val)),
            None => self.reduced(op, edge, inputs),
        }
    }

    /// Returns the name of a result in TensorFlow's order; an input gets a node.
    fn output(&mut self, edge: Edge) -> Result<Val, NoChain> {
        let val = self.value(edge)?;
        let val = self.values.last(&val)?;
        if self.values.inputs().iter().all(|input| input.name != val.name) {
            return Ok(val);
        }
        self.values.place = "output".to_owned();
        Ok(self.values.apply("Identity", &[&val])?)
    }

    /// Returns what is stated of a value's shape.
    fn dims(&self, edge: Edge) -> Result<Dims, NoChain> {
        let dims = self.view.dims(edge).cloned();
        dims.ok_or_else(|| NoChain::unsupported("the shape of its result is not stated"))
    }
}
