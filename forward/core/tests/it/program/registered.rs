//! Operators that a codec registers.

use super::support::*;
use ckpt_api::{
    Attribute, Axis, Error, InputSpec, Kind, Node, Op, OpCall, OpShapes, OpSpec, OutputView, ParameterSpec,
    Result,
};
use ckpt_forward::{
    Arithmetic, Array, Backend, Bounds, BufferId, Cpu, DeviceInfo, Element, Kernel, Program, default_shapes,
    integer_graph,
};
use std::collections::BTreeMap;

/// `y[n, o] = (Σ x[n, k]·weight[o, k])^power + table[index[n]]`.
const POWER: OpSpec = OpSpec::new("test.Power", shape, compute)
    .inputs(&[InputSpec::real(), InputSpec::index("table", &[Axis::Feature]).padded().optional()])
    .parameters(&[
        ParameterSpec::new("weight", &[Axis::Out, Axis::In]).optional_axes(&[Axis::In]),
        ParameterSpec::new("table", &[Axis::Feature]).optional(),
    ])
    .attributes(&["power"]);

fn shape(shapes: &OpShapes) -> Result<Vec<usize>> {
    let &[rows, inner] = shapes.input(0) else { return Err(shapes.misfit(0, "[N, in]")) };
    let &[outputs, _] = shapes.parameter("weight") else { return Err(Error::corrupt("no weight")) };
    shapes.check_parameter("weight", &[outputs, inner])?;
    shapes.check_input(1, &[rows])?;
    shapes.node().int("power", 1)?;
    Ok(vec![rows, outputs])
}

fn compute(call: &OpCall, y: &mut OutputView) -> Result<()> {
    let power = i32::try_from(call.node().int("power", 1)?).unwrap_or(1);
    let (x, weight, table) = (call.input(0), call.parameter("weight"), call.parameter("table"));
    let (&[rows, inner], &[outputs, _]) = (x.shape(), weight.shape()) else { return Ok(()) };
    for row in 0..rows {
        let entry = call.input(1).index_at([row]).map_or(0.0, |index| table.at([index]));
        for out in 0..outputs {
            let product: f64 = (0..inner).map(|k| x.at([row, k]) * weight.at([out, k])).sum();
            y.set([row, out], product.powi(power) + entry);
        }
    }
    Ok(())
}

fn power() -> Node {
    Node::new("p", Op::custom("test.Power")).parameter("weight", "w")
}

fn weight(tensors: Tensors) -> Tensors {
    // Stored as [in, out].
    tensors.with_op(POWER).with("w", &[Axis::In, Axis::Out], &real(&[2, 3], &[1., 2., 3., 4., 5., 6.]))
}

#[test]
fn a_registered_operator_runs_whatever_the_order_of_a_tensors_axes() {
    let tensors = weight(Tensors::default());
    let node = power().attribute("power", Attribute::Int(2));
    let found = run(node, &[real(&[2, 2], &[1., 0., 1., 1.])], &tensors).unwrap();
    assert_close(&found, &[2, 3], &[1., 4., 9., 25., 49., 81.]);
}

#[test]
fn an_axis_that_a_tensor_may_lack_has_length_1() {
    let tensors = Tensors::default().with_op(POWER).with("w", &[Axis::Out], &real(&[2], &[3., 4.]));
    let found = run(power(), &[real(&[1, 1], &[2.])], &tensors).unwrap();
    assert_close(&found, &[1, 2], &[6., 8.]);
}

#[test]
fn an_input_of_indices_is_found_checked_and_drawn_within_its_bound() {
    let tensors = weight(Tensors::default()).with("t", &[Axis::Feature], &real(&[2], &[10., 20.]));
    let node = power().parameter("table", "t");
    let x = real(&[3, 2], &[0.; 6]);
    let found = run(node.clone(), &[x.clone(), integer(&[3], &[1, -1, 0])], &tensors).unwrap();
    assert_close(&found, &[3, 3], &[20., 20., 20., 0., 0., 0., 10., 10., 10.]);
    let error = run(node.clone(), &[x, integer(&[3], &[0, 2, 0])], &tensors).unwrap_err().to_string();
    assert!(error.contains("less than 2"), "{error}");

    let graph = graph(node, &[&[3, 2], &[3]], 1);
    let shapes = BTreeMap::from([("x0".to_owned(), vec![3, 2]), ("x1".to_owned(), vec![3])]);
    let program = Program::new(&graph, &tensors, &shapes).unwrap();
    let mut cpu = Cpu::new(Arithmetic::F32);
    for seed in 0..50 {
        program.run(&mut cpu, &program.random_inputs(seed), &mut ()).unwrap();
    }
    assert_eq!(default_shapes(&graph, &tensors, 3)["x1"], [3]);
}

#[test]
fn a_node_that_does_not_fit_its_definition_is_refused() {
    let x = || vec![real(&[1, 2], &[1., 1.])];
    let with = |role: &str| weight(Tensors::default()).with(role, &[Axis::Out], &real(&[1], &[1.]));
    let cases = [
        (power().attribute("base", Attribute::Int(1)), x(), with("b"), "unknown attribute"),
        (power().attribute("power", Attribute::Float(0.5)), x(), with("b"), "an integer"),
        (power().parameter("bias", "b"), x(), with("b"), "unknown role"),
        (Node::new("p", Op::custom("test.Power")), x(), with("b"), "lacks a tensor"),
        (power(), vec![], with("b"), "lacks an input"),
        (power(), vec![real(&[1, 3], &[1.; 3])], with("b"), "[3, 3]"),
        (power(), vec![integer(&[1, 2], &[1, 1])], with("b"), "a different kind"),
        (power(), [x(), vec![integer(&[1], &[0])]].concat(), with("b"), "a tensor that it lacks"),
        (power(), [x(), x(), x()].concat(), with("b"), "more inputs"),
        (Node::new("p", Op::custom("test.Other")), x(), with("b"), "test.Other"),
    ];
    let count = cases.len();
    for (index, (node, inputs, tensors, message)) in cases.into_iter().enumerate() {
        let error = run(node, &inputs, &tensors).unwrap_err().to_string();
        assert!(error.contains(message), "{index} of {count}: {error}");
    }
}

#[test]
fn a_result_is_rounded_once_and_within_its_bound() {
    let tensors = Tensors::default().with_op(POWER).with(
        "w",
        &[Axis::Out, Axis::In],
        &real(&[1, 2], &[f64::from(0.1f32), f64::from(0.7f32)]),
    );
    let x = [real(&[1, 2], &[f64::from(0.3f32), f64::from(-0.2f32)])];
    let exact = run(power(), &x, &tensors).unwrap().array.to_f64()[0];
    let graph = graph(power(), &[&[1, 2]], 1);
    let program = Program::new(&graph, &tensors, &[("x0".to_owned(), vec![1, 2])].into()).unwrap();
    assert!(program.is_reference(0));
    let found = program.run_node(0, &mut Cpu::new(Arithmetic::F32), &x).unwrap();
    assert_eq!(found[0].array, Array::F32(vec![exact as f32]));
    let magnitude = program.magnitudes(0, &x).unwrap().remove(0).unwrap();
    assert_eq!(magnitude.sums, [exact.abs()]);
}

#[test]
fn integer_arithmetic_gives_a_registered_operator_real_numbers() {
    let tensors = weight(Tensors::default());
    let graph = graph(power(), &[&[1, 2]], 1);
    assert_eq!(integer_graph(&graph, &tensors, 400).unwrap().nodes, graph.nodes);
}

#[test]
fn a_reference_implementation_counts_as_memory() {
    let tensors = weight(Tensors::default());
    let graph = graph(power(), &[&[1, 2]], 1);
    let shapes = BTreeMap::from([("x0".to_owned(), vec![1, 2])]);
    let least = Program::new(&graph, &tensors, &shapes).unwrap().peak_bytes();
    // Input, weight and result on the device; the weight again, with its axes in order; and all three in binary64.
    assert_eq!(least, 8 * ((2 + 6 + 3) + 6 + (2 + 6 + 3)));
    assert!(
        Program::within(&graph, &tensors, &shapes, Bounds { memory: least - 1, ..Bounds::default() })
            .is_err()
    );
}

/// A device that has kernels only.
struct Device(Cpu);

impl Backend for Device {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }
    fn arithmetic(&self) -> Arithmetic {
        self.0.arithmetic()
    }
    fn upload(&mut self, values: &Array) -> Result<BufferId> {
        self.0.upload(values)
    }
    fn zeros(&mut self, element: Element, len: usize) -> Result<BufferId> {
        self.0.zeros(element, len)
    }
    fn run(&mut self, kernel: &Kernel, operands: &[BufferId], output: BufferId) -> Result<()> {
        self.0.run(kernel, operands, output)
    }
    fn download(&mut self, buffer: BufferId) -> Result<Array> {
        self.0.download(buffer)
    }
    fn free(&mut self, buffer: BufferId) {
        self.0.free(buffer);
    }
}

#[test]
fn a_device_without_a_kernel_for_an_operator_says_so() {
    let tensors = weight(Tensors::default());
    let graph = graph(power(), &[&[1, 2]], 1);
    let program = Program::new(&graph, &tensors, &[("x0".to_owned(), vec![1, 2])].into()).unwrap();
    let mut device = Device(Cpu::new(Arithmetic::F32));
    let error = program.run(&mut device, &program.random_inputs(1), &mut ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("this device") && text.contains("test.Power") && text.contains("CPU"), "{text}");
}
