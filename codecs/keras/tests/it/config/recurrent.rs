//! Recurrent layers as ONNX has them: an axis of directions, gates in another order, two biases.

use super::described::described;
use super::support::{Stored, run};
use ckpt_api::{
    Attribute, Axis, Checkpoint, Codec, Contents, DType, Encoding, Extent, FileId, Graph, Input, Node, Op,
    Options, Placement, Result, Shape, Tensor, TensorId, Value, Values,
};
use ckpt_forward::Array;
use ckpt_keras::Keras;
use ckpt_keras::config::{Generation, Model};

const UNITS: u64 = 3;
const FEATURES: u64 = 2;

/// A layer with the name `layer`, whose batch comes second.
struct Layer {
    op: Op,
    directions: u64,
    /// Numbers of each unit of a gate.
    biases: u64,
    attributes: Vec<(&'static str, Attribute)>,
    /// The graph's inputs beside `x`.
    states: Vec<&'static str>,
    /// Numbers of the results' axes.
    results: Vec<(&'static str, usize)>,
    /// What follows.
    nodes: Vec<Node>,
}

impl Layer {
    fn new(op: Op, directions: u64) -> Self {
        let layer = Layer {
            op,
            directions,
            biases: 2,
            attributes: Vec::new(),
            states: Vec::new(),
            results: vec![("all", 4)],
            nodes: Vec::new(),
        };
        match directions {
            1 => layer,
            _ => layer.with("direction", Attribute::Text("bidirectional".to_owned())),
        }
    }

    fn with(mut self, name: &'static str, value: Attribute) -> Self {
        self.attributes.push((name, value));
        self
    }

    fn gates(&self) -> u64 {
        match self.op {
            Op::LSTM => 4,
            Op::GRU => 3,
            _ => 1,
        }
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<u64>)> {
        let rows = self.gates() * UNITS;
        let mut tensors = vec![
            ("weight", vec![self.directions, rows, FEATURES]),
            ("recurrent_weight", vec![self.directions, rows, UNITS]),
        ];
        if self.biases > 0 {
            tensors.push(("bias", vec![self.directions, self.biases * rows]));
        }
        tensors
    }

    fn graph(&self) -> Graph {
        let turned = Node::new("turned", Op::Transpose).attribute("perm", Attribute::Ints(vec![1, 0, 2]));
        let turned = Node { inputs: vec!["x".to_owned()], outputs: vec!["turned".to_owned()], ..turned };
        let mut layer = Node::new("layer", self.op.clone());
        layer.inputs = ["turned"].iter().chain(&self.states).map(|name| (*name).to_owned()).collect();
        layer.outputs = ["all", "hidden", "cell"].map(str::to_owned).to_vec();
        layer.outputs.truncate(if self.op == Op::LSTM { 3 } else { 2 });
        layer
            .attributes
            .extend(self.attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        for (role, _) in self.tensors() {
            layer = layer.parameter(role, role);
        }
        let x = Value {
            axes: ["batch", "steps", ""].map(str::to_owned).into(),
            ..Value::new("x", [None, None, Some(FEATURES)])
        };
        let state = |name: &&str| Value {
            axes: ["", "batch", ""].map(str::to_owned).into(),
            ..Value::new(*name, [Some(1), None, Some(UNITS)])
        };
        Graph {
            name: "m".to_owned(),
            inputs: [x].into_iter().chain(self.states.iter().map(state)).collect(),
            outputs: self.results.iter().map(|(name, rank)| Value::new(*name, vec![None; *rank])).collect(),
            nodes: [turned, layer].into_iter().chain(self.nodes.clone()).collect(),
        }
    }

    /// The contents of a file with numbers that all differ.
    fn contents(&self) -> (Contents, Vec<u8>) {
        let (mut contents, mut bytes) = (Contents::default(), Vec::new());
        contents.files.push("m".to_owned());
        contents.checkpoint = Checkpoint { graph: Some(self.graph()), ..Checkpoint::default() };
        for (at, (name, shape)) in self.tensors().into_iter().enumerate() {
            let mut tensor = Tensor::new(name, DType::F32, Shape::new(&shape).unwrap());
            tensor.axes = (shape.len() == 3).then(|| [Axis::Direction, Axis::Out, Axis::In].into());
            let extent = Extent::new(FileId(0), bytes.len() as u64, tensor.shape.elements() * 4);
            let numbers = (0..tensor.shape.elements()).map(|k| (k * 37 % 101) as f32 / 64.0 - 0.75);
            numbers.for_each(|number| bytes.extend(number.to_le_bytes()));
            let encoding = Encoding::row_major(&tensor);
            contents.placements.push(Placement::new(TensorId(at), name, vec![extent], encoding));
            contents.checkpoint.tensors.push(tensor);
        }
        (contents, bytes)
    }

    fn prepared(&self) -> Option<Contents> {
        let (contents, _) = self.contents();
        let values = Unasked(Input::memory("m", [].into()));
        Keras.prepare(&values, &contents, &Options::default()).unwrap()
    }
}

/// A source whose numbers nobody asks for.
struct Unasked(Input);

impl Values for Unasked {
    fn input(&self) -> &Input {
        &self.0
    }

    fn numbers(&self, _: TensorId, _: &mut dyn FnMut(&[f32])) -> Result<()> {
        panic!("the layers have no constants")
    }
}

/// The numbers of the tensor behind those of a layer.
struct Stated(Input, Vec<f32>);

impl Values for Stated {
    fn input(&self) -> &Input {
        &self.0
    }

    fn numbers(&self, _: TensorId, each: &mut dyn FnMut(&[f32])) -> Result<()> {
        // In pieces, as a source hands them out.
        self.1.chunks(2).for_each(each);
        Ok(())
    }
}

/// What is prepared of a layer whose first state is a stored constant that is repeated.
fn with_stored_state(numbers: &[f32]) -> Graph {
    let mut layer = Layer::new(Op::GRU, 2);
    layer.states.push("first");
    let (mut contents, bytes) = layer.contents();
    let graph = contents.checkpoint.graph.as_mut().unwrap();
    graph.inputs.truncate(1);
    let constant = Node::new("zero", Op::Constant).parameter("value", "state");
    let expand = Node::new("first", Op::Expand).attribute("shape", Attribute::Ints(vec![2, 1, 3]));
    let made = [
        Node { outputs: vec!["zero".to_owned()], ..constant },
        Node { inputs: vec!["zero".to_owned()], outputs: vec!["first".to_owned()], ..expand },
    ];
    graph.nodes.splice(0..0, made);
    let tensor = Tensor::new("state", DType::F32, Shape::new([2, 1, 3]).unwrap());
    let extent = Extent::new(FileId(0), bytes.len() as u64, 24);
    let id = TensorId(contents.placements.len());
    contents.placements.push(Placement::new(id, "state", vec![extent], Encoding::row_major(&tensor)));
    contents.checkpoint.tensors.push(tensor);
    let values = Stated(Input::memory("m", [].into()), numbers.to_vec());
    let prepared = Keras.prepare(&values, &contents, &Options::default()).unwrap();
    prepared.unwrap_or(contents).checkpoint.graph.unwrap()
}

#[test]
fn a_first_state_that_is_stored_as_zeros_is_none() {
    let plain = Layer::new(Op::GRU, 2).prepared().unwrap().checkpoint.graph.unwrap();
    assert_eq!(with_stored_state(&[0.0; 6]).nodes, plain.nodes);
    let other = with_stored_state(&[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let takes = |node: &Node| node.inputs.get(1).is_some_and(|name| name == "first");
    assert!(other.nodes.iter().any(takes), "{:?}", other.nodes);
}

/// The tensors of contents, as the bytes have them.
fn stored(contents: &Contents, bytes: &[u8]) -> Stored {
    let mut stored = Stored::default();
    for (tensor, placement) in contents.checkpoint.tensors.iter().zip(&contents.placements) {
        let place = |extent: &Extent| {
            let at = usize::try_from(extent.offset).unwrap();
            bytes[at..at + usize::try_from(extent.len).unwrap()].to_vec()
        };
        let all: Vec<u8> = placement.extents.iter().flat_map(place).collect();
        let numbers =
            all.as_chunks::<4>().0.iter().map(|four| f64::from(f32::from_le_bytes(*four))).collect();
        stored.0.insert(tensor.name.to_string(), (tensor.clone(), Array::F64(numbers)));
    }
    stored
}

/// Fails unless Keras's layers compute what the layer computes. Returns the names of the prepared tensors.
fn assert_same(layer: &Layer) -> Vec<String> {
    let (contents, bytes) = layer.contents();
    let expected = run(&layer.graph(), &stored(&contents, &bytes));
    let prepared = layer.prepared().unwrap();
    prepared.check(&ckpt_api::Limits::default()).unwrap();
    let (again, tensors) =
        described(&prepared.checkpoint, &stored(&prepared, &bytes), Generation::Keras3).unwrap();
    let found = run(&again, &tensors);
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected.shape, found.shape);
        for (a, b) in expected.array.to_f64().iter().zip(found.array.to_f64()) {
            assert!((a - b).abs() <= 1e-12, "{a} {b}");
        }
    }
    prepared.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string()).collect()
}

#[test]
fn the_gates_of_one_direction_get_keras_order_and_both_biases_are_added() {
    for op in [Op::LSTM, Op::GRU, Op::RNN] {
        let names = assert_same(&Layer::new(op, 1));
        assert_eq!(names, ["weight", "recurrent_weight", "bias", "bias/recurrent"]);
    }
}

#[test]
fn a_gru_that_resets_after_its_product_has_two_rows_of_biases() {
    let layer = Layer::new(Op::GRU, 1).with("linear_before_reset", Attribute::Int(1));
    assert_eq!(assert_same(&layer), ["weight", "recurrent_weight", "bias"]);
    assert_eq!(layer.prepared().unwrap().checkpoint.tensors[2].shape.to_vec(), [2, 9]);
}

#[test]
fn a_layer_may_have_one_bias_or_none() {
    for biases in [0, 1] {
        let names = assert_same(&Layer { biases, ..Layer::new(Op::LSTM, 1) });
        assert_eq!(names.len() as u64, 2 + biases);
    }
}

#[test]
fn a_layer_of_two_directions_becomes_two_layers() {
    for op in [Op::LSTM, Op::GRU, Op::RNN] {
        let names = assert_same(&Layer::new(op.clone(), 2));
        assert_eq!(names.len(), 8, "{op}");
        // The last states, too.
        assert_same(&Layer { results: vec![("hidden", 3), ("all", 4)], ..Layer::new(op, 2) });
    }
}

#[test]
fn each_direction_has_activations_of_its_own() {
    let names = ["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Relu", "Relu"].map(str::to_owned);
    assert_same(&Layer::new(Op::LSTM, 2).with("activations", Attribute::Texts(names.to_vec())));
}

#[test]
fn the_directions_are_joined_to_features() {
    let turned = Node::new("features", Op::Transpose).attribute("perm", Attribute::Ints(vec![0, 2, 1, 3]));
    let turned = Node { inputs: vec!["all".to_owned()], outputs: vec!["features".to_owned()], ..turned };
    let joined = Node::new("joined", Op::Reshape).attribute("shape", Attribute::Ints(vec![0, 0, -1]));
    let joined = Node { inputs: vec!["features".to_owned()], outputs: vec!["joined".to_owned()], ..joined };
    let nodes = vec![turned, joined];
    assert_same(&Layer { nodes, results: vec![("joined", 3)], ..Layer::new(Op::LSTM, 2) });
}

#[test]
fn first_states_are_inputs_whose_batch_comes_second() {
    let results = vec![("all", 4), ("hidden", 3), ("cell", 3)];
    assert_same(&Layer { states: vec!["h", "c"], results, ..Layer::new(Op::LSTM, 1) });
    assert_same(&Layer { states: vec!["h"], results: vec![("hidden", 3)], ..Layer::new(Op::GRU, 1) });
}

#[test]
fn a_layer_that_runs_backwards_returns_its_steps_in_order() {
    let reverse = Attribute::Text("reverse".to_owned());
    assert_same(&Layer::new(Op::LSTM, 1).with("direction", reverse));
}

#[test]
fn what_keras_has_otherwise_is_refused() {
    let refused = |layer: Layer| {
        let prepared = layer.prepared().unwrap_or_else(|| layer.contents().0);
        Model::describe(&prepared.checkpoint, Generation::Keras3).unwrap_err().to_string()
    };
    let clipped = Layer::new(Op::LSTM, 1).with("clip", Attribute::Float(1.0));
    assert!(refused(clipped).contains("does not clip"));
    // Numbers of the activations of each direction.
    let own =
        Attribute::Texts(["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Tanh"].map(str::to_owned).to_vec());
    assert!(refused(Layer::new(Op::LSTM, 2).with("activation_alpha", own)).contains("one direction"));
}
