//! Graphs as JSON, with the shapes of their tensors: whatever they say, they are refused or run in bounded memory.

use ckpt_api::{DType, Error, Graph, Result, Tensor};
use ckpt_forward::{
    Arithmetic, Array, Bounds, Cpu, Parameters, Program, default_shapes, integer_graph, specialize,
};
use std::collections::BTreeMap;

/// What a graph may ask for.
const MEMORY: u64 = 64 << 20;
/// Graphs that need more than this are not run: the time goes into shapes.
const RUN: u64 = 64 << 10;

#[derive(serde::Deserialize)]
struct Case {
    graph: Graph,
    tensors: Vec<Tensor>,
}

struct Tensors(BTreeMap<String, Tensor>);

impl Parameters for Tensors {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }

    fn load(&self, name: &str) -> Result<Array> {
        let tensor = self.0.get(name).ok_or_else(|| Error::corrupt("no such tensor"))?;
        assert!(tensor.shape.elements() <= MEMORY / 8, "tensors are loaded within the limit");
        let small = (0..tensor.shape.elements()).map(|index| (index % 7) as i8 - 3);
        Ok(match tensor.dtype {
            DType::I8 | DType::I16 | DType::I32 => Array::I32(small.map(i32::from).collect()),
            DType::F64 => Array::F64(small.map(f64::from).collect()),
            _ => Array::F32(small.map(f32::from).collect()),
        })
    }
}

pub(super) fn fuzz(data: &[u8]) {
    let Ok(case) = serde_json::from_slice::<Case>(data) else { return };
    let named = case.tensors.into_iter().map(|tensor| (tensor.name.to_string(), tensor));
    let tensors = Tensors(named.collect());
    run(&case.graph, &tensors);
    if let Ok(integers) = integer_graph(&case.graph, &tensors, 400) {
        run(&integers, &tensors);
    }
}

fn run(graph: &Graph, tensors: &Tensors) {
    let shapes = default_shapes(graph, tensors, 2);
    let Ok(graph) = specialize(graph, tensors, &shapes, &BTreeMap::new()) else { return };
    let bounds = Bounds { memory: MEMORY, ..Bounds::default() };
    let Ok(program) = Program::within(&graph, tensors, &shapes, bounds) else { return };
    assert!(program.peak_bytes() <= MEMORY, "the limit is kept");
    if program.peak_bytes() > RUN {
        return;
    }
    let inputs = program.random_inputs(1);
    for arithmetic in [Arithmetic::F64, Arithmetic::F32] {
        let Ok(outputs) = program.run(&mut Cpu::new(arithmetic), &inputs, &mut ()) else { continue };
        for value in program.outputs() {
            let output = outputs.get(value.name).expect("every output is given");
            assert_eq!(output.shape, value.shape, "shapes are as inferred");
            assert_eq!(output.array.len(), value.shape.iter().product::<usize>());
        }
    }
}
