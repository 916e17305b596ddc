//! Whole graphs.

use super::support::*;
use ckpt_api::{Attribute, Axis, Graph, Node, Op, Result, Value as Open};
use ckpt_forward::{
    Arithmetic, Array, Backend, BufferId, Cpu, DeviceInfo, Element, Kernel, Numbers, Observer, Program,
    Random, Value, default_shapes, op,
};
use std::collections::{BTreeMap, BTreeSet};

/// Two layers with ReLU between them; the result of the first is added at the end.
fn residual() -> (Graph, Tensors) {
    let mut random = Random::new(7);
    let tensors = Tensors::default()
        .with("a", &[Axis::In, Axis::Out], &reals(&mut random, &[5, 4]))
        .with("b", &[Axis::In, Axis::Out], &reals(&mut random, &[4, 4]))
        .with("bias", &[Axis::Out], &reals(&mut random, &[4]));
    let nodes = vec![
        Node::new("first", Op::Gemm).parameter("weight", "a").parameter("bias", "bias"),
        Node::new("relu", Op::Relu),
        Node::new("second", Op::Gemm).parameter("weight", "b"),
        Node::new("sum", Op::Add),
    ];
    let mut graph = Graph::sequential("", vec![None, Some(5)], vec![None, Some(4)], nodes);
    graph.nodes[3].inputs.push("first".into());
    (graph, tensors)
}

/// A CPU that counts calls and buffers.
struct Counting {
    cpu: Cpu,
    held: BTreeSet<BufferId>,
    most: usize,
    downloads: usize,
}

impl Counting {
    fn new() -> Self {
        Counting { cpu: Cpu::new(Arithmetic::F32), held: BTreeSet::new(), most: 0, downloads: 0 }
    }

    fn hold(&mut self, buffer: Result<BufferId>) -> Result<BufferId> {
        let buffer = buffer?;
        assert!(self.held.insert(buffer));
        self.most = self.most.max(self.held.len());
        Ok(buffer)
    }
}

impl Backend for Counting {
    fn info(&self) -> &DeviceInfo {
        self.cpu.info()
    }
    fn arithmetic(&self) -> Arithmetic {
        self.cpu.arithmetic()
    }
    fn upload(&mut self, values: &Array) -> Result<BufferId> {
        assert_ne!(values.element(), Element::F64);
        let buffer = self.cpu.upload(values);
        self.hold(buffer)
    }
    fn zeros(&mut self, element: Element, len: usize) -> Result<BufferId> {
        let buffer = self.cpu.zeros(element, len);
        self.hold(buffer)
    }
    fn run(&mut self, kernel: &Kernel, operands: &[BufferId], output: BufferId) -> Result<()> {
        assert!(operands.iter().chain([&output]).all(|buffer| self.held.contains(buffer)));
        self.cpu.run(kernel, operands, output)
    }
    fn download(&mut self, buffer: BufferId) -> Result<Array> {
        self.downloads += 1;
        self.cpu.download(buffer)
    }
    fn free(&mut self, buffer: BufferId) {
        assert!(self.held.remove(&buffer));
        self.cpu.free(buffer);
    }
}

#[test]
fn values_and_tensors_are_freed_after_their_last_use_and_only_outputs_are_copied_back() {
    let (graph, tensors) = residual();
    let program = Program::new(&graph, &tensors, &default_shapes(&graph, &tensors, 3)).unwrap();
    let mut backend = Counting::new();
    program.run(&mut backend, &program.random_inputs(1), &mut ()).unwrap();
    // The first node: its input, weight, bias and result.
    assert_eq!((backend.held.len(), backend.most, backend.downloads), (0, 4, 1));
}

#[test]
fn a_value_of_another_shape_shares_the_elements_until_their_last_use() {
    let nodes = vec![
        Node::new("flat", Op::Flatten),
        Node::new("again", Op::Reshape).attribute("shape", Attribute::Ints(vec![2, -1])),
        Node::new("first", Op::Slice)
            .attribute("starts", Attribute::Ints(vec![0]))
            .attribute("ends", Attribute::Ints(vec![1])),
        Node::new("sum", Op::Add),
    ];
    let mut graph = Graph::sequential("", vec![Some(2), Some(3)], vec![Some(2), Some(3)], nodes);
    graph.nodes[3].inputs.push("flat".into());
    let tensors = Tensors::default();
    let program = Program::new(&graph, &tensors, &default_shapes(&graph, &tensors, 2)).unwrap();
    let mut backend = Counting::new();
    let inputs = BTreeMap::from([("input".to_owned(), real(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))]);
    let made = program.run(&mut backend, &inputs, &mut ()).unwrap();
    assert_eq!(made["sum"].array, Array::F32(vec![2.0, 4.0, 6.0, 5.0, 7.0, 9.0]));
    // The input, the slice and the sum.
    assert_eq!((backend.held.len(), backend.most), (0, 3));
}

#[test]
fn an_error_leaves_nothing_on_the_device() {
    let (graph, tensors) = residual();
    let program = Program::new(&graph, &tensors, &default_shapes(&graph, &tensors, 3)).unwrap();
    struct Refusing;
    impl Observer for Refusing {
        fn observe(&mut self, _: usize, name: &str, _: Value) -> Result<()> {
            Err(ckpt_api::Error::usage("enough").found(name))
        }
    }
    let mut backend = Counting::new();
    assert!(program.run(&mut backend, &program.random_inputs(1), &mut Refusing).is_err());
    assert!(backend.held.is_empty());
}

/// Keeps the values that it receives.
#[derive(Default)]
struct Recorder {
    only: Option<usize>,
    seen: Vec<(usize, String, Value)>,
}

impl Observer for Recorder {
    fn wants(&self, node: usize) -> bool {
        self.only.is_none_or(|only| only == node)
    }

    fn observe(&mut self, node: usize, name: &str, value: Value) -> Result<()> {
        self.seen.push((node, name.to_owned(), value));
        Ok(())
    }
}

#[test]
fn an_observer_receives_the_values_that_it_wants_and_single_nodes_compute_the_same() {
    let (graph, tensors) = residual();
    let program = Program::new(&graph, &tensors, &default_shapes(&graph, &tensors, 3)).unwrap();
    let inputs = program.random_inputs(5);
    let mut cpu = Cpu::new(Arithmetic::F32);
    let mut recorder = Recorder::default();
    let outputs = program.run(&mut cpu, &inputs, &mut recorder).unwrap();
    let mut values: BTreeMap<String, Value> = inputs.clone();
    for (index, node) in program.nodes().enumerate() {
        let taken: Vec<Value> = node.inputs.iter().map(|info| values[info.name].clone()).collect();
        let made = program.run_node(index, &mut cpu, &taken).unwrap();
        let (seen, name, value) = &recorder.seen[index];
        assert_eq!((*seen, name.as_str(), value), (index, node.outputs[0].name, &made[0]));
        values.insert(name.clone(), value.clone());
    }
    assert_eq!(recorder.seen.len(), 4);
    assert_eq!(outputs["sum"], recorder.seen[3].2);
    let mut one = Recorder { only: Some(1), ..Recorder::default() };
    program.run(&mut cpu, &inputs, &mut one).unwrap();
    assert_eq!(one.seen, recorder.seen[1..2]);
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let mut random = Random::new(8);
    let (rows, inner) = (257, 300);
    let tensors = Tensors::default().with("w", &[Axis::Out, Axis::In], &reals(&mut random, &[77, inner]));
    let x = reals(&mut random, &[rows, inner]);
    let graph = graph(Node::new("dense", Op::Gemm).parameter("weight", "w"), &[&x.shape], 1);
    let run = |x: &Value| {
        let shapes = BTreeMap::from([("x0".to_owned(), x.shape.clone())]);
        let program = Program::new(&graph, &tensors, &shapes).unwrap();
        let made = program.run_node(0, &mut Cpu::new(Arithmetic::F32), std::slice::from_ref(x)).unwrap();
        made[0].array.to_f64()
    };
    let whole = run(&x);
    let values = x.array.to_f64();
    let one_by_one = values.chunks(inner).flat_map(|row| run(&real(&[1, inner], row)));
    assert!(whole.into_iter().eq(one_by_one));
}

#[test]
fn binary32_sums_in_ascending_order_without_fusing() {
    let mut random = Random::new(9);
    let (x, w) = (reals(&mut random, &[3, 50]), reals(&mut random, &[50, 13]));
    let tensors = Tensors::default().with("w", &[Axis::In, Axis::Out], &w);
    let graph = graph(Node::new("dense", Op::Gemm).parameter("weight", "w"), &[&x.shape], 1);
    let program = Program::new(&graph, &tensors, &BTreeMap::from([("x0".into(), vec![3, 50])])).unwrap();
    let made = program.run_node(0, &mut Cpu::new(Arithmetic::F32), std::slice::from_ref(&x)).unwrap();
    let [x, w] = [&x, &w].map(|value| value.array.to_f64().iter().map(|x| *x as f32).collect::<Vec<f32>>());
    let mut expected = Vec::new();
    for r in 0..3 {
        for o in 0..13 {
            let mut sum = 0f32;
            for k in 0..50 {
                let product = x[r * 50 + k] * w[k * 13 + o];
                sum += product;
            }
            expected.push(sum);
        }
    }
    assert_eq!(made[0].array, Array::F32(expected));
}

#[test]
fn inputs_have_default_shapes_and_random_values_in_the_range_of_the_graph() {
    let tensors = Tensors::default()
        .with("l0w", &[Axis::Bucket, Axis::Feature, Axis::Out], &reals(&mut Random::new(1), &[2, 3, 4]))
        .with("l1w", &[Axis::Bucket, Axis::In, Axis::Out], &reals(&mut Random::new(2), &[5, 4, 1]))
        .with(
            "k",
            &[Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX],
            &reals(&mut Random::new(3), &[1, 3, 3, 3]),
        );
    let mut transformer = Node::new("l0", Op::custom(op::FEATURE_TRANSFORMER)).parameter("weight", "l0w");
    transformer.inputs = vec!["features".into()];
    transformer.outputs = vec!["l0".into()];
    let mut last = Node::new("l1", Op::custom(op::BUCKETED_GEMM)).parameter("weight", "l1w");
    last.inputs = vec!["l0".into(), "bucket".into()];
    last.outputs = vec!["l1".into()];
    let mut conv = Node::new("conv", Op::Conv).parameter("weight", "k");
    conv.inputs = vec!["image".into()];
    conv.outputs = vec!["conv".into()];
    let open = |name: &str, shape: &[Option<u64>]| Open::new(name, shape.to_vec());
    let inputs = vec![
        open("features", &[None, None]),
        open("bucket", &[None]),
        open("image", &[None, Some(3), None, None]),
    ];
    let outputs = vec![open("l1", &[None, Some(1)]), open("conv", &[None, Some(1), None, None])];
    let graph = Graph { name: String::new(), inputs, outputs, nodes: vec![transformer, last, conv] };
    let shapes = default_shapes(&graph, &tensors, 40);
    assert_eq!(shapes["features"], [40, 32]);
    assert_eq!(shapes["bucket"], [40]);
    assert_eq!(shapes["image"], [40, 3, 32, 32]);
    let program = Program::new(&graph, &tensors, &shapes).unwrap();
    assert!(program.inputs().map(|info| info.numbers).eq([
        Numbers::Integer,
        Numbers::Integer,
        Numbers::Real
    ]));
    let inputs = program.random_inputs(3);
    assert_eq!(inputs, program.random_inputs(3));
    assert_ne!(inputs, program.random_inputs(4));
    let all = |name: &str, least: f64, most: f64| {
        let values = inputs[name].array.to_f64();
        let fold = |f: fn(f64, f64) -> f64| values.iter().copied().fold(values[0], f);
        assert_eq!((fold(f64::min), fold(f64::max)), (least, most), "{name}");
    };
    all("features", -1.0, 5.0);
    all("bucket", 0.0, 4.0);
    let Array::F64(pixels) = &inputs["image"].array else { panic!("an image is of real numbers") };
    assert!(pixels.iter().all(|x| x.abs() <= 1.0 && f64::from(*x as f32) == *x));
    program.run(&mut Cpu::new(Arithmetic::F32), &inputs, &mut ()).unwrap();
}

#[test]
fn an_output_may_be_an_input_and_one_value_may_have_several_uses() {
    let mut graph = graph(Node::new("relu", Op::Relu), &[&[2]], 1);
    let open = |name: &str| Open::new(name, vec![Some(2)]);
    graph.outputs = vec![open("y0"), open("x0")];
    let tensors = Tensors::default();
    let program = Program::new(&graph, &tensors, &BTreeMap::from([("x0".into(), vec![2])])).unwrap();
    let x = real(&[2], &[-1.0, 2.0]);
    let inputs = BTreeMap::from([("x0".to_owned(), x.clone())]);
    let outputs = program.run(&mut Cpu::new(Arithmetic::F64), &inputs, &mut ()).unwrap();
    assert_eq!((&outputs["x0"], &outputs["y0"]), (&x, &real(&[2], &[0.0, 2.0])));
    let mut noop = graph.clone();
    noop.nodes[0] = noop.nodes[0].clone().attribute("unknown", Attribute::Int(1));
    assert!(Program::new(&noop, &tensors, &BTreeMap::from([("x0".into(), vec![2])])).is_err());
}

#[test]
fn a_free_axis_has_the_length_of_the_matrix_that_it_is_multiplied_with() {
    let tensors = Tensors::default().with("w", &[Axis::Out, Axis::In], &real(&[2, 7], &[0.0; 14]));
    let graph = graph(Node::new("dense", Op::Gemm).parameter("weight", "w"), &[&[0, 0]], 1);
    assert_eq!(default_shapes(&graph, &tensors, 3)["x0"], [3, 7]);
}
