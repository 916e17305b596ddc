//! Every operator that a codec registers, computed by kernels and by its reference implementation.

use ckpt::Registry;
use ckpt::api::{
    Attribute, Axis, DType, Error, Graph, Node, Op, OpSpec, Result, Shape, Tensor, Value as Input,
};
use ckpt_forward::{Arithmetic, Array, Cpu, Parameters, Program, Random, Value};
use std::collections::BTreeMap;

/// The name that the reference implementation of any operator gets, so that no kernel runs instead.
const REFERENCE: &str = "reference.Op";

const CASES: usize = 400;

/// A node with its inputs and tensors.
struct Case {
    node: Node,
    inputs: Vec<Value>,
    tensors: BTreeMap<String, (Tensor, Array)>,
    /// Whether the node computes integers, from tensors of integers.
    is_integer: bool,
    reference: OpSpec,
}

impl Parameters for Case {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name).map(|(tensor, _)| tensor)
    }

    fn load(&self, name: &str) -> Result<Array> {
        self.tensors.get(name).map(|(_, array)| array.clone()).ok_or_else(|| Error::usage("no such tensor"))
    }

    fn op(&self, name: &str) -> Option<OpSpec> {
        (name == REFERENCE).then_some(self.reference)
    }
}

impl Case {
    fn new(name: &'static str, random: &mut Random) -> Self {
        let mut reference = *Registry::builtin().op(name).unwrap();
        reference.name = REFERENCE;
        let node = Node::new("n", Op::custom(name));
        let is_integer = reference.attributes.contains(&"arithmetic") && random.chance(4);
        Case { node, inputs: vec![], tensors: BTreeMap::new(), is_integer, reference }
    }

    fn numbers(&self, random: &mut Random, len: usize) -> Array {
        match self.is_integer {
            true => Array::I32((0..len).map(|_| random.between(0, 200) as i32 - 100).collect()),
            false => Array::F64((0..len).map(|_| random.real()).collect()),
        }
    }

    /// Adds an input of real numbers.
    fn input(mut self, random: &mut Random, shape: &[usize]) -> Self {
        let len = shape.iter().product();
        let array = Array::F64((0..len).map(|_| random.real()).collect());
        self.inputs.push(Value::new(shape, array).unwrap());
        self
    }

    /// Adds an input of indices below `bound`.
    fn indices(mut self, random: &mut Random, shape: &[usize], bound: usize, is_padded: bool) -> Self {
        let index = |random: &mut Random| match is_padded && random.chance(4) {
            true => -1,
            false => random.between(0, bound - 1) as i32,
        };
        let len: usize = shape.iter().product();
        let array = Array::I32((0..len).map(|_| index(random)).collect());
        self.inputs.push(Value::new(shape, array).unwrap());
        self
    }

    /// Adds a tensor, its axes in a random order.
    fn tensor(mut self, random: &mut Random, role: &str, axes: &[(Axis, usize)]) -> Self {
        let order = random.order(axes.len());
        let shape: Vec<u64> = order.iter().map(|axis| axes[*axis].1 as u64).collect();
        let meaning: Vec<Axis> = order.iter().map(|axis| axes[*axis].0).collect();
        let array = self.numbers(random, axes.iter().map(|(_, len)| len).product());
        let dtype = if self.is_integer { DType::I32 } else { DType::F64 };
        let tensor = Tensor::new(role, dtype, Shape::new(shape).unwrap()).with_axes(meaning);
        self.tensors.insert(role.to_owned(), (tensor, array));
        self.node = self.node.parameter(role, role);
        self
    }

    /// Runs the node as operator `op`.
    fn run(&self, op: Op) -> Value {
        let inputs = &self.inputs;
        let mut node = Node { op, ..self.node.clone() };
        node.inputs = (0..inputs.len()).map(|index| format!("x{index}")).collect();
        node.outputs = vec!["y".to_owned()];
        let free = |(name, value): (&String, &Value)| Input::new(name.clone(), vec![None; value.shape.len()]);
        let graph = Graph {
            inputs: node.inputs.iter().zip(inputs).map(free).collect(),
            nodes: vec![node],
            ..Graph::default()
        };
        let names = graph.inputs.iter().map(|input| input.name.clone());
        let shapes = names.zip(inputs.iter().map(|value| value.shape.clone())).collect();
        let program = Program::new(&graph, self, &shapes).unwrap();
        assert_eq!(program.is_reference(0), graph.nodes[0].op.name() == REFERENCE);
        program.run_node(0, &mut Cpu::new(Arithmetic::F64), inputs).unwrap().remove(0)
    }

    fn check(mut self) {
        if self.is_integer {
            self.node = self.node.attribute("arithmetic", Attribute::Text("integer".to_owned()));
        }
        let found = self.run(self.node.op.clone());
        let expected = self.run(Op::custom(REFERENCE));
        assert_eq!(found.shape, expected.shape);
        for (found, expected) in found.array.to_f64().iter().zip(expected.array.to_f64()) {
            let error = (found - expected).abs();
            assert!(
                error <= 1e-13 * expected.abs().max(1.0),
                "{found} instead of {expected}: {:?}",
                self.node
            );
        }
    }
}

/// A registered operator, and a function that makes a random node of it.
type Generator = (&'static str, fn(&mut Random) -> Case);

const GENERATORS: [Generator; 3] = [
    ("ckpt.FeatureTransformer", feature_transformer),
    ("ckpt.BucketedGemm", bucketed_gemm),
    ("ckpt.StaticFeatures", static_features),
];

fn feature_transformer(random: &mut Random) -> Case {
    let (rows, slots, outputs) = (random.between(0, 4), random.between(0, 6), random.between(1, 5));
    let (sets, features, buckets) = (random.between(1, 3), random.between(1, 9), random.between(1, 3));
    let (feature, out) = ((Axis::Feature, features), (Axis::Out, outputs));
    let mut case =
        Case::new("ckpt.FeatureTransformer", random).indices(random, &[rows, slots], sets * features, true);
    case = match sets {
        1 => case.tensor(random, "weight", &[feature, out]),
        _ => case.tensor(random, "weight", &[(Axis::Bucket, sets), feature, out]),
    };
    if random.chance(2) {
        case = case.tensor(random, "factoriser", &[feature, out]);
    }
    match random.between(0, 2) {
        0 => case,
        1 => case.tensor(random, "bias", &[out]),
        _ => case.tensor(random, "bias", &[(Axis::Bucket, buckets), out]).indices(
            random,
            &[rows],
            buckets,
            false,
        ),
    }
}

fn bucketed_gemm(random: &mut Random) -> Case {
    let (rows, inner, outputs) = (random.between(0, 9), random.between(1, 9), random.between(1, 9));
    let buckets = random.between(1, 4);
    let (bucket, out) = ((Axis::Bucket, buckets), (Axis::Out, outputs));
    let case = Case::new("ckpt.BucketedGemm", random)
        .input(random, &[rows, inner])
        .indices(random, &[rows], buckets, false)
        .tensor(random, "weight", &[bucket, (Axis::In, inner), out]);
    if random.chance(2) { case.tensor(random, "bias", &[bucket, out]) } else { case }
}

fn static_features(random: &mut Random) -> Case {
    let (batch, height, width) = (random.between(0, 2), random.between(1, 7), random.between(1, 7));
    Case::new("ckpt.StaticFeatures", random).input(random, &[batch, 4, height, width])
}

#[test]
fn kernels_compute_what_the_reference_implementation_of_a_registered_operator_computes() {
    let registry = Registry::builtin();
    let registered: Vec<&str> =
        registry.codecs().flat_map(|codec| codec.ops()).map(|spec| spec.name).collect();
    assert_eq!(registered, GENERATORS.map(|(name, _)| name), "every registered operator is compared");
    for (_, generate) in GENERATORS {
        let mut random = Random::new(7);
        for _ in 0..CASES {
            generate(&mut random).check();
        }
    }
}

#[test]
fn the_codecs_of_this_build_define_no_operator_twice() {
    let registry = Registry::builtin();
    let mut names: Vec<&str> =
        registry.codecs().flat_map(|codec| codec.ops()).map(|spec| spec.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    let is_custom = |name: &&str| matches!(Op::from((*name).to_owned()), Op::Custom(_));
    assert!(names.iter().all(is_custom), "{names:?}");
}
