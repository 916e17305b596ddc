//! Graphs of one node, and tensors in memory.

use ckpt_api::{Axis, DType, Error, Graph, Node, OpSpec, Result, Shape, Tensor};
use ckpt_forward::{Arithmetic, Array, Cpu, Parameters, Program, Random, Value};
use std::collections::BTreeMap;

/// Tensors in memory, and registered operators.
#[derive(Default)]
pub struct Tensors(BTreeMap<String, (Tensor, Array)>, Vec<OpSpec>);

impl Tensors {
    /// Adds a tensor: binary64, or 32-bit integers.
    pub fn with(mut self, name: &str, axes: &[Axis], value: &Value) -> Self {
        let dtype = if matches!(value.array, Array::I32(_)) { DType::I32 } else { DType::F64 };
        let shape = Shape::new(value.shape.iter().map(|len| *len as u64).collect::<Vec<_>>()).unwrap();
        let tensor = Tensor::new(name, dtype, shape).with_axes(axes);
        self.0.insert(name.to_owned(), (tensor, value.array.clone()));
        self
    }

    /// Registers an operator.
    pub fn with_op(mut self, spec: OpSpec) -> Self {
        self.1.push(spec);
        self
    }

    /// Changes the description of a tensor.
    pub fn edit(mut self, name: &str, change: impl FnOnce(&mut Tensor)) -> Self {
        change(&mut self.0.get_mut(name).unwrap().0);
        self
    }
}

impl Parameters for Tensors {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name).map(|(tensor, _)| tensor)
    }

    fn load(&self, name: &str) -> Result<Array> {
        self.0.get(name).map(|(_, array)| array.clone()).ok_or_else(|| Error::usage("no such tensor"))
    }

    fn op(&self, name: &str) -> Option<OpSpec> {
        self.1.iter().find(|spec| spec.name == name).copied()
    }
}

/// Random real numbers in −1..1.
pub fn reals(random: &mut Random, shape: &[usize]) -> Value {
    let len = shape.iter().product();
    Value::new(shape, Array::F64((0..len).map(|_| random.real()).collect())).unwrap()
}

/// A value of these real numbers.
pub fn real(shape: &[usize], values: &[f64]) -> Value {
    Value::new(shape, Array::F64(values.to_vec())).unwrap()
}

/// A value of these integers.
pub fn integer(shape: &[usize], values: &[i32]) -> Value {
    Value::new(shape, Array::I32(values.to_vec())).unwrap()
}

/// Random integers below `bound`.
pub fn indices(random: &mut Random, shape: &[usize], bound: usize) -> Value {
    let len: usize = shape.iter().product();
    integer(shape, &(0..len).map(|_| random.between(0, bound - 1) as i32).collect::<Vec<_>>())
}

/// Reorders the axes of a tensor: axis `k` of the result is axis `order[k]`.
pub fn reorder(value: &Value, order: &[usize]) -> Value {
    let from = value.array.to_f64();
    let shape: Vec<usize> = order.iter().map(|axis| value.shape[*axis]).collect();
    let mut values = Vec::new();
    for place in 0..from.len() {
        let mut rest = place;
        let mut at = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            at[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        let mut source = 0;
        for axis in 0..shape.len() {
            let own = order.iter().position(|own| *own == axis).unwrap();
            source = source * value.shape[axis] + at[own];
        }
        values.push(from[source]);
    }
    let array = match value.array {
        Array::I32(_) => Array::I32(values.iter().map(|value| *value as i32).collect()),
        _ => Array::F64(values),
    };
    Value::new(shape, array).unwrap()
}

/// A graph of one node with inputs `x0`, `x1`, … and outputs `y0`, `y1`, ….
pub fn graph(mut node: Node, inputs: &[&[usize]], outputs: usize) -> Graph {
    node.inputs = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    node.outputs = (0..outputs).map(|i| format!("y{i}")).collect();
    let inputs = node
        .inputs
        .iter()
        .zip(inputs)
        .map(|(name, shape)| ckpt_api::Value::new(name.clone(), vec![None; shape.len()]));
    Graph { name: String::new(), inputs: inputs.collect(), outputs: Vec::new(), nodes: vec![node] }
}

/// Runs a node in binary64.
pub fn run_all(node: Node, inputs: &[Value], tensors: &Tensors, outputs: usize) -> Result<Vec<Value>> {
    let shapes: Vec<&[usize]> = inputs.iter().map(|value| &value.shape[..]).collect();
    let mut graph = graph(node, &shapes, outputs);
    for (input, value) in graph.inputs.iter_mut().zip(inputs) {
        let is_integer = matches!(value.array, Array::I32(_));
        input.dtype = Some(if is_integer { DType::I32 } else { DType::F64 });
    }
    let shapes =
        graph.inputs.iter().zip(inputs).map(|(input, value)| (input.name.clone(), value.shape.clone()));
    let program = Program::new(&graph, tensors, &shapes.collect())?;
    program.run_node(0, &mut Cpu::new(Arithmetic::F64), inputs)
}

/// Runs a node with one output in binary64.
pub fn run(node: Node, inputs: &[Value], tensors: &Tensors) -> Result<Value> {
    run_all(node, inputs, tensors, 1).map(|mut made| made.remove(0))
}

/// Fails unless the two are equal within a few roundings of binary64.
#[track_caller]
pub fn assert_close(found: &Value, shape: &[usize], expected: &[f64]) {
    assert_eq!(found.shape, shape);
    let found = found.array.to_f64();
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let both_nan = found.is_nan() && expected.is_nan();
        let near = found == expected || (found - expected).abs() <= 1e-12 * (1.0 + expected.abs());
        assert!(both_nan || near, "element {i}: {found} instead of {expected}");
    }
}
