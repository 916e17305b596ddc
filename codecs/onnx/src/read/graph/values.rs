//! What is known of the values of a graph while it is read.

use super::pieces::{self, Numbers};
use crate::format::dtype;
use crate::format::message::{
    Attribute as StoredAttribute, Dimension, Graph as Stored, Node as StoredNode, Tensor as StoredTensor,
    Value as StoredValue,
};
use crate::read::initializers::{self, Ids};
use ckpt_api::{Attribute, Axis, DType, File, Graph, MAX_GRAPH_LEVELS, Node, Op, Tensor, Value};
use ckpt_graph::Names;
use ckpt_graph::shape::of_sizes;
use ckpt_graph::{Dims, Integers, Length, infer};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Numbers that are known at most at once, of all values.
const MOST_NUMBERS: usize = 1 << 22;
/// Bytes that all operators which become several nodes note at most: one of a few bytes may become thousands.
const MOST_COMPOSED: usize = 256 << 20;

/// What an operator could not be read for: a clause that follows its name.
pub(super) type Read<T> = Result<T, String>;

/// A value of the graph.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Computed when the graph runs.
    Computed,
    /// A tensor of the checkpoint.
    Tensor(usize),
    /// Integers that are known now, of this shape.
    Ints(Integers),
    /// Numbers that are known now, of this shape.
    Floats(Vec<f64>, Vec<u64>),
    /// One number, an integer or not, at every place of a shape that may have free axes.
    Filled { value: f64, is_int: bool, shape: Dims },
}

impl Known {
    pub(super) fn of(numbers: Numbers, shape: Vec<u64>) -> Self {
        match numbers {
            Numbers::Ints(ints) => Known::Ints(integers(ints, &shape)),
            Numbers::Floats(floats) => Known::Floats(floats, shape),
        }
    }
}

pub(super) struct Reader<'a> {
    pub(super) opset: i64,
    pub(super) graph: &'a Stored,
    file: &'a File,
    pub(super) tensors: &'a mut [Tensor],
    pub(super) known: HashMap<&'a str, Known>,
    /// Lengths of the axes of values, if they are known.
    pub(super) shapes: HashMap<String, Dims>,
    pub(super) dtypes: HashMap<&'a str, i64>,
    /// The types of constants that have fewer than 32 bits.
    pub(super) narrow: HashMap<&'a str, DType>,
    /// Free axes by name, and how many there are.
    axes: HashMap<&'a str, usize>,
    free: usize,
    outputs: HashSet<&'a str>,
    /// Recurrent layers with another order of gates than ONNX's, by their first output.
    pub(super) reordered: &'a HashSet<&'a str>,
    /// Biases of recurrent layers in another shape, or without the recurrent ones, by the output of the node that gives
    /// it.
    pub(super) padded: HashMap<&'a str, usize>,
    /// Values that recurrent layers take as biases.
    pub(super) biases: HashSet<&'a str>,
    /// How many more numbers may be known: a node of a few bytes may repeat a thousand.
    room: usize,
    /// Bytes that operators which become several nodes may still note, and whether one needed more.
    composed_room: usize,
    pub(super) is_spent: bool,
    /// An input that has each free axis, the axis's place, and the input's rank.
    pub(super) origins: HashMap<usize, (String, usize, usize)>,
    /// Truth values along free axes, by axis and place.
    pub(super) conditions: HashMap<(usize, usize), String>,
    /// How often nodes and outputs take each value.
    uses: HashMap<&'a str, usize>,
    /// Names of initializers.
    pub(super) initializers: HashSet<&'a str>,
    /// The tensors of the model, by their ids in the checkpoint.
    stored: HashMap<usize, &'a StoredTensor>,
    /// The ids of tensors.
    pub(super) ids: &'a Ids,
    /// The values that a node can take now.
    pub(super) visible: HashSet<&'a str>,
    /// How many graphs the one that is read is within.
    pub(super) level: usize,
    /// Names of nodes, and of values, that are taken.
    names: Names,
    values: Names,
    /// The value of each constant that was emitted.
    pub(super) constants: HashMap<String, String>,
    /// The keys of `constants`, in the order in which they came.
    pub(super) noted: Vec<String>,
    /// Node that makes each value that is emitted.
    pub(super) makers: HashMap<String, usize>,
    pub(super) nodes: Vec<Node>,
    /// Places of nodes that are left out unless another one takes what they make.
    pub(super) spare: HashSet<usize>,
    /// Values that are known up to the lengths of free axes, and that nodes make, too.
    pub(super) open: HashSet<&'a str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        graph: &'a Stored,
        file: &'a File,
        opset: i64,
        tensors: &'a mut [Tensor],
        reordered: &'a HashSet<&'a str>,
        ids: &'a Ids,
    ) -> Read<Self> {
        let mut reader = Reader {
            opset,
            graph,
            file,
            known: HashMap::new(),
            shapes: HashMap::new(),
            dtypes: HashMap::new(),
            narrow: HashMap::new(),
            axes: HashMap::new(),
            free: 0,
            reordered,
            padded: HashMap::new(),
            biases: graph
                .nodes
                .iter()
                .filter(|node| crate::format::gates::standard(&node.op).is_some())
                .filter_map(|node| node.input(3))
                .collect(),
            room: MOST_NUMBERS,
            composed_room: MOST_COMPOSED,
            is_spent: false,
            origins: HashMap::new(),
            conditions: HashMap::new(),
            outputs: graph
                .levels()
                .flat_map(|level| &level.outputs)
                .map(|output| output.name.as_str())
                .collect(),
            uses: HashMap::new(),
            initializers: HashSet::new(),
            stored: initializers::tensors(graph)
                .into_iter()
                .filter_map(|(stored, _)| Some((*ids.get(&stored.span.start)?, stored)))
                .collect(),
            ids,
            visible: HashSet::new(),
            level: 0,
            names: Names::default(),
            values: Names::default(),
            constants: HashMap::new(),
            noted: Vec::new(),
            makers: HashMap::new(),
            nodes: Vec::with_capacity(graph.nodes.len()),
            spare: HashSet::new(),
            open: HashSet::new(),
            tensors,
        };
        let levels = || graph.levels().flat_map(|level| &level.nodes);
        let outputs = graph.levels().flat_map(|level| &level.outputs).map(|output| &output.name);
        for name in levels().flat_map(|node| &node.inputs).chain(outputs) {
            *reader.uses.entry(name).or_default() += 1;
        }
        reader.begin(graph)?;
        for input in &graph.inputs {
            if !reader.initializers.contains(input.name.as_str()) {
                reader.take_input(input, true)?;
                reader.values.take(&input.name);
            }
        }
        levels().flat_map(|node| &node.outputs).for_each(|name| reader.values.take(name));
        let inputs = graph.levels().flat_map(|level| &level.inputs);
        inputs.for_each(|input| reader.values.take(&input.name));
        Ok(reader)
    }

    /// What the graph that is read makes.
    pub(super) fn results(&mut self) -> Read<Vec<Value>> {
        let graph = self.graph;
        let mut outputs = Vec::with_capacity(graph.outputs.len());
        for output in &graph.outputs {
            // An output that is an input, a tensor or a number is a node of its own.
            let made = self.operand(&output.name)?;
            let name = match self.values.has(&output.name) && made == output.name {
                true => made,
                false if self.level > 0 => made,
                false => {
                    self.emit_as(
                        &output.name,
                        Op::Identity,
                        vec![made],
                        vec![output.name.clone()],
                        Attributes::new(),
                    );
                    output.name.clone()
                }
            };
            let shape = self.shape(&output.name).or_else(|| self.shape(&name));
            outputs.push(match self.level {
                0 => interface(output, name, shape)?,
                _ => interface(output, name, Some(shape.unwrap_or_default()))?,
            });
        }
        Ok(outputs)
    }

    /// Notes the stated shape of a value; an input's free axes are known by themselves.
    pub(super) fn declare(&mut self, value: &'a StoredValue, is_input: bool) {
        self.dtypes.insert(&value.name, value.data_type);
        let Some(stated) = &value.shape else { return };
        let mut shape = Vec::with_capacity(stated.len());
        for dimension in stated {
            shape.push(match dimension {
                Dimension::Known(len) => Length::from(*len),
                Dimension::Named(name) => {
                    let next = self.free;
                    let axis = *self.axes.entry(name).or_insert(next);
                    self.free = self.free.max(axis.saturating_add(1));
                    Length::free(axis)
                }
                Dimension::Free if is_input => {
                    self.free += 1;
                    Length::free(self.free - 1)
                }
                Dimension::Free => Length::Unknown,
            });
        }
        for (at, length) in shape.iter().enumerate().filter(|_| is_input) {
            if let Length::Free { axis, .. } = length {
                self.origins.entry(*axis).or_insert_with(|| (value.name.clone(), at, shape.len()));
            }
        }
        self.shapes.insert(value.name.clone(), shape);
    }

    /// The finished graph.
    pub(super) fn finish(mut self) -> Read<Graph> {
        let graph = self.graph;
        let outputs = self.results()?;
        self.leave_out_spare(&outputs);
        let inputs = graph.inputs.iter().filter(|input| !self.initializers.contains(input.name.as_str()));
        let inputs = inputs.map(|input| interface(input, input.name.clone(), None)).collect::<Read<_>>()?;
        Ok(Graph { name: graph.name.clone(), inputs, outputs, nodes: self.nodes })
    }

    /// What is known of a value.
    pub(super) fn known(&self, name: &str) -> &Known {
        self.known.get(name).unwrap_or(&Known::Computed)
    }

    /// Sets what is known of a node's output; `false` if too many numbers are known already.
    pub(super) fn set(&mut self, name: &'a str, known: Known) -> bool {
        let numbers = match &known {
            Known::Ints(ints) => ints.values.len(),
            Known::Floats(floats, _) => floats.len(),
            _ => 0,
        };
        let Some(room) = self.room.checked_sub(numbers) else { return false };
        self.room = room;
        self.known.insert(name, known);
        true
    }

    /// Takes room for what an operator that becomes several nodes notes; `false`, from then on always, if there is none left.
    pub(super) fn spend(&mut self, bytes: usize) -> bool {
        match self.composed_room.checked_sub(bytes) {
            Some(room) if !self.is_spent => self.composed_room = room,
            _ => self.is_spent = true,
        }
        !self.is_spent
    }

    /// The tensor of this name, and its id; `None` for what is no tensor of the checkpoint.
    pub(super) fn tensor(&self, name: &str) -> Option<(usize, &Tensor)> {
        match self.known.get(name)? {
            Known::Tensor(id) => Some((*id, self.tensors.get(*id)?)),
            _ => None,
        }
    }

    /// The tensor of a `Constant` node that the checkpoint lists.
    pub(super) fn listed(&self, stored: &StoredTensor) -> Option<usize> {
        self.ids.get(&stored.span.start).copied()
    }

    /// A value that is a tensor of the checkpoint.
    pub(super) fn stored_constant(&mut self, near: &str, id: usize) -> String {
        let tensor = self.tensors.get(id);
        let shape = tensor.map(|tensor| of_sizes(&tensor.shape));
        let name = tensor.map(|tensor| tensor.name.to_string()).unwrap_or_default();
        let value = self.fresh_value(&name);
        let node = Node::new(String::new(), Op::Constant).parameter("value", name);
        self.push(near, Node { outputs: vec![value.clone()], ..node });
        self.set_shape(&value, shape);
        value
    }

    /// The integers of a value that is known, or of a small tensor.
    pub(super) fn ints(&self, name: &str) -> Option<Integers> {
        match self.known.get(name)? {
            Known::Ints(ints) => Some(ints.clone()),
            Known::Tensor(id) => match pieces::numbers(self.file, self.stored(*id)?)? {
                (Numbers::Ints(ints), shape) => Some(integers(ints, &shape)),
                (Numbers::Floats(_), _) => None,
            },
            _ => None,
        }
    }

    /// The numbers of a value that is known, or of a small tensor.
    pub(super) fn floats(&self, name: &str) -> Option<(Vec<f64>, Vec<u64>)> {
        match self.known.get(name)? {
            Known::Floats(floats, shape) => Some((floats.clone(), shape.clone())),
            Known::Tensor(id) => match pieces::numbers(self.file, self.stored(*id)?)? {
                (Numbers::Floats(floats), shape) => Some((floats, shape)),
                (Numbers::Ints(_), _) => None,
            },
            _ => None,
        }
    }

    /// A tensor of the checkpoint as the model stores it.
    fn stored(&self, id: usize) -> Option<&'a StoredTensor> {
        self.stored.get(&id).copied()
    }

    pub(super) fn file(&self) -> &'a File {
        self.file
    }

    /// The lengths of a value's axes, if its rank is known.
    pub(super) fn shape(&self, name: &str) -> Option<Dims> {
        match self.known.get(name) {
            Some(Known::Tensor(id)) => self.tensors.get(*id).map(|tensor| of_sizes(&tensor.shape)),
            Some(Known::Ints(ints)) => Some(ints.shape.iter().map(|len| Length::from(*len)).collect()),
            Some(Known::Floats(_, shape)) => Some(of_sizes(shape)),
            Some(Known::Filled { shape, .. }) => Some(shape.clone()),
            _ => self.shapes.get(name).cloned(),
        }
    }

    /// Notes the shape of a value, unless the model states it with as much detail.
    pub(super) fn set_shape(&mut self, name: &str, shape: Option<Dims>) {
        let Some(shape) = shape else { return };
        let unknown = |shape: &[Length]| shape.iter().filter(|len| **len == Length::Unknown).count();
        // Programs that free the batch of a model leave 1 in the shapes of what it makes.
        let is_freed = |(stated, own): (&Length, &Length)| {
            *stated == Length::Known(1) && matches!(own, Length::Free { .. })
        };
        match self.shapes.get(name) {
            Some(stated)
                if stated.len() == shape.len()
                    && unknown(stated) <= unknown(&shape)
                    && !stated.iter().zip(&shape).any(is_freed) => {}
            _ => {
                self.shapes.insert(name.to_owned(), shape);
            }
        }
    }

    /// The stated type of a value.
    pub(super) fn dtype(&self, name: &str) -> Option<DType> {
        match self.known.get(name) {
            // A tensor under another name may have a wider type there.
            Some(Known::Tensor(id)) => match self.dtypes.get(name) {
                Some(number) => dtype(*number),
                None => self.tensors.get(*id).map(|tensor| tensor.dtype),
            },
            Some(Known::Ints(..)) => self.narrow.get(name).copied().or(Some(DType::I64)),
            Some(Known::Floats(..)) => Some(DType::F32),
            Some(Known::Filled { is_int, .. }) => Some(if *is_int { DType::I64 } else { DType::F32 }),
            _ => self.dtypes.get(name).and_then(|number| dtype(*number)),
        }
    }

    /// How often a value is taken.
    pub(super) fn uses(&self, name: &str) -> usize {
        self.uses.get(name).copied().unwrap_or(0)
    }

    /// Whether the graph outputs a value.
    pub(super) fn is_output(&self, name: &str) -> bool {
        self.outputs.contains(name)
    }

    /// Names the axes of a tensor; `false` if another node needs other ones.
    pub(super) fn claim(&mut self, id: usize, axes: &[Axis]) -> bool {
        let Some(tensor) = self.tensors.get_mut(id) else { return false };
        match tensor.axes.as_deref() {
            Some(own) => own == axes,
            None => {
                tensor.axes = Some(axes.into());
                true
            }
        }
    }

    /// The name of a value that a node can take: numbers and tensors become `Constant` nodes.
    pub(super) fn operand(&mut self, name: &str) -> Read<String> {
        if let Some(value) = self.constants.get(name) {
            return Ok(value.clone());
        }
        let known = match self.known.get(name) {
            None | Some(Known::Computed) => return Ok(name.to_owned()),
            Some(Known::Tensor(id)) => self.number_or_tensor(name, *id),
            Some(Known::Filled { value, is_int, shape }) => {
                let (value, is_int, shape) = (*value, *is_int, shape.clone());
                let made = match self.filled(name, value, is_int, &shape) {
                    Err(_) if self.open.contains(name) => return Ok(name.to_owned()),
                    made => made?,
                };
                self.constants.insert(name.to_owned(), made.clone());
                return Ok(made);
            }
            Some(Known::Ints(ints)) if ints.known().is_none() && self.open.contains(name) => {
                return Ok(name.to_owned());
            }
            Some(known) => known.clone(),
        };
        let mut node = Node::new(String::new(), Op::Constant);
        match known {
            Known::Computed | Known::Filled { .. } => {}
            Known::Tensor(id) => {
                let tensor = self.tensors.get(id).map(|tensor| tensor.name.clone()).unwrap_or_default();
                node = node.parameter("value", tensor);
            }
            Known::Ints(ints) => {
                let shape = ints.sizes();
                let ints = ints.known().ok_or("takes the length of a free axis as a number")?;
                if ints.iter().any(|int| i32::try_from(*int).is_err()) {
                    return Err("takes an integer of more than 32 bits".to_owned());
                }
                node = match (&ints[..], shape.is_empty()) {
                    ([int], true) => node.attribute("value_int", Attribute::Int(*int)),
                    _ => {
                        node.attribute("value_ints", Attribute::Ints(ints)).attribute("shape", signed(&shape))
                    }
                };
            }
            Known::Floats(floats, shape) => {
                node = match (&floats[..], shape.is_empty()) {
                    ([float], true) => node.attribute("value_float", Attribute::Float(*float)),
                    _ => node
                        .attribute("value_floats", Attribute::Floats(floats))
                        .attribute("shape", signed(&shape)),
                };
            }
        }
        let value = self.fresh_value(name);
        node.outputs = vec![value.clone()];
        self.push(name, node);
        self.constants.insert(name.to_owned(), value.clone());
        self.noted.push(name.to_owned());
        let shape = self.shape(name);
        self.set_shape(&value, shape);
        Ok(value)
    }

    /// A small tensor of 64-bit integers or truth values is a list of numbers: graphs compute with 32 bits.
    fn number_or_tensor(&self, name: &str, id: usize) -> Known {
        let is_wide = self
            .tensors
            .get(id)
            .is_some_and(|tensor| matches!(tensor.dtype, DType::I64 | DType::U64 | DType::U32 | DType::Bool));
        match self.ints(name).filter(|_| is_wide) {
            Some(ints) => Known::Ints(ints),
            None => Known::Tensor(id),
        }
    }

    /// A `Constant` node of one number; the name of its value.
    pub(super) fn scalar(&mut self, near: &str, value: f64) -> String {
        let output = self.fresh_value(&format!("{near}/{value}"));
        let mut node =
            Node::new(String::new(), Op::Constant).attribute("value_float", Attribute::Float(value));
        node.outputs = vec![output.clone()];
        self.push(&output, node);
        self.set_shape(&output, Some(Vec::new()));
        output
    }

    /// A name that no value has yet: `wanted`, or it with a number. The value of a node's own output keeps its name.
    pub(super) fn fresh_value(&mut self, wanted: &str) -> String {
        self.values.unused(wanted)
    }

    /// Adds a node under a name that no other has.
    pub(super) fn push(&mut self, wanted: &str, mut node: Node) {
        node.name = self.names.unused(wanted);
        for output in &node.outputs {
            self.makers.insert(output.clone(), self.nodes.len());
        }
        self.nodes.push(node);
    }

    /// Adds a node with these inputs and outputs.
    pub(super) fn emit_as(
        &mut self,
        name: &str,
        op: Op,
        inputs: Vec<String>,
        outputs: Vec<String>,
        attributes: Attributes,
    ) {
        let mut node = Node::new(String::new(), op);
        (node.inputs, node.outputs) = (inputs, outputs);
        node.attributes = attributes.0;
        self.push(name, node);
    }
}

/// What a graph takes or makes. `shape` has the lengths that are known where the model states none.
pub(super) fn interface(value: &StoredValue, name: String, shape: Option<Dims>) -> Read<Value> {
    let shape: Vec<Option<u64>> = match (&value.shape, shape) {
        (Some(stated), inferred) => {
            let inferred = inferred.filter(|inferred| inferred.len() == stated.len());
            let known = |(axis, dimension): (usize, &Dimension)| match dimension {
                Dimension::Known(len) => match inferred.as_ref().and_then(|inferred| inferred.get(axis)) {
                    // Exporters of trees state one row, or one column, where there are others.
                    Some(own) if own.known().is_some() => own.size(),
                    Some(_) if *len == 1 => None,
                    _ => Some(*len),
                },
                _ => None,
            };
            stated.iter().enumerate().map(known).collect()
        }
        (None, Some(shape)) => shape.into_iter().map(|length| u64::try_from(length.known()?).ok()).collect(),
        (None, None) => return Err(format!("does not state the shape of '{name}'")),
    };
    let name_of = |dimension: &Dimension| match dimension {
        Dimension::Named(name) => name.clone(),
        _ => String::new(),
    };
    let axes: Vec<String> = value.shape.iter().flatten().map(name_of).collect();
    let axes = if axes.iter().all(String::is_empty) { Vec::new() } else { axes };
    Ok(Value { dtype: dtype(value.data_type), axes, ..Value::new(name, shape) })
}

/// An array of a small tensor's integers.
fn integers(ints: Vec<i64>, shape: &[u64]) -> Integers {
    let shape = shape.iter().map(|len| usize::try_from(*len).unwrap_or(usize::MAX)).collect();
    Integers { shape, values: ints.into_iter().map(Length::Known).collect() }
}

impl infer::Known for Reader<'_> {
    fn dims(&self, value: &str) -> Option<Dims> {
        self.shape(value)
    }

    fn tensor(&self, _name: &str) -> Option<&Tensor> {
        // A node with parameters notes its shape when it is made.
        None
    }
}

/// Lengths as an attribute.
pub(super) fn signed(shape: &[u64]) -> Attribute {
    Attribute::Ints(shape.iter().map(|len| i64::try_from(*len).unwrap_or(i64::MAX)).collect())
}

/// Attributes of a node of the contract.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(pub(super) BTreeMap<String, Attribute>);

impl Attributes {
    /// The bytes of their lists of numbers.
    pub(super) fn bytes(&self) -> usize {
        let len = |attribute: &Attribute| match attribute {
            Attribute::Ints(values) => size_of_val(&values[..]),
            Attribute::Floats(values) => size_of_val(&values[..]),
            _ => 0,
        };
        self.0.values().map(len).sum()
    }

    pub(super) fn new() -> Self {
        Attributes::default()
    }

    #[must_use]
    pub(super) fn with(mut self, name: &str, value: Attribute) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    #[must_use]
    pub(super) fn int(self, name: &str, value: i64) -> Self {
        self.with(name, Attribute::Int(value))
    }

    #[must_use]
    pub(super) fn ints(self, name: &str, value: Vec<i64>) -> Self {
        self.with(name, Attribute::Ints(value))
    }
}

/// The attributes of a node of a model.
impl StoredNode {
    fn attribute(&self, name: &str) -> Option<&StoredAttribute> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, attribute)| attribute)
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        match self.attribute(name)? {
            StoredAttribute::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn float(&self, name: &str) -> Option<f32> {
        match self.attribute(name)? {
            StoredAttribute::Float(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.attribute(name)? {
            StoredAttribute::Text(value) => std::str::from_utf8(value).ok(),
            _ => None,
        }
    }

    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attribute(name)? {
            StoredAttribute::Ints(values) => Some(values),
            _ => None,
        }
    }

    pub(super) fn floats(&self, name: &str) -> Option<&[f32]> {
        match self.attribute(name)? {
            StoredAttribute::Floats(values) => Some(values),
            _ => None,
        }
    }

    /// Texts; `None` also if one is not UTF-8.
    pub(super) fn texts(&self, name: &str) -> Option<Vec<String>> {
        match self.attribute(name)? {
            StoredAttribute::Texts(values) => {
                values.iter().map(|value| std::str::from_utf8(value).ok().map(str::to_owned)).collect()
            }
            _ => None,
        }
    }

    /// A graph within the node.
    pub(super) fn graph(&self, name: &str) -> Read<&Stored> {
        match self.attribute(name) {
            Some(StoredAttribute::Graph(graph)) => Ok(graph),
            Some(StoredAttribute::Deep) => Err(format!(
                "has a graph '{name}' below the {MAX_GRAPH_LEVELS} levels of graphs that are read"
            )),
            _ => Err(format!("lacks its graph '{name}'")),
        }
    }

    /// The floats of an attribute, as a tensor.
    pub(super) fn list(&self, name: &str) -> Option<&StoredTensor> {
        self.lists.iter().find(|list| list.name == name)
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&StoredTensor> {
        match self.attribute(name)? {
            StoredAttribute::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// An input that is given.
    pub(super) fn input(&self, at: usize) -> Option<&str> {
        self.inputs.get(at).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The name for the layer: the node's own, or that of its output.
    pub(super) fn layer(&self) -> &str {
        if self.name.is_empty() { self.outputs.first().map_or("", String::as_str) } else { &self.name }
    }
}
