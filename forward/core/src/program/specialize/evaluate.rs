//! Computes the values of nodes from values that are known.

use super::Specializer;
use crate::lower::{Load, Lowered};
use crate::program::{Bounds, Program};
use crate::value::Value;
use crate::{Arithmetic, Array, Cpu};
use ckpt_api::{DType, Graph, Node, Op, Value as Stated};
use std::collections::BTreeMap;

/// The most elements of a node's inputs and outputs together that are computed in advance.
const MOST_ELEMENTS: usize = 1 << 12;

/// The most multiply-adds that a node takes in advance.
const MOST_OPERATIONS: u64 = 1 << 16;

impl Specializer<'_> {
    /// Returns what a node makes, if all that it takes is known; `None` for what is large, or cannot be computed.
    pub(super) fn evaluated(&self, node: &Node, lowered: &Lowered) -> Option<Vec<Value>> {
        if let (Op::Shape, [Load::Integers(lens)]) = (&node.op, &lowered.loads[..]) {
            return Some(vec![Value::new([lens.len()], Array::I32(lens.clone())).ok()?]);
        }
        let given: Vec<&String> = node.inputs.iter().filter(|name| !name.is_empty()).collect();
        let known: Vec<&Value> = given.iter().map(|name| self.known(name)).collect::<Option<_>>()?;
        let taken = known.iter().map(|value| value.array.len());
        let made = lowered.outputs.iter().map(|info| info.len());
        (taken.chain(made).fold(0, usize::saturating_add) <= MOST_ELEMENTS).then_some(())?;
        let mut graph = Graph { nodes: vec![node.clone()], ..Graph::default() };
        let (mut shapes, mut inputs) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in given.into_iter().zip(known) {
            if inputs.insert(name.clone(), value.clone()).is_some() {
                continue;
            }
            let shape: Vec<Option<u64>> = value.shape.iter().map(|len| Some(*len as u64)).collect();
            let dtype = if matches!(value.array, Array::I32(_)) { DType::I32 } else { DType::F32 };
            graph.inputs.push(Stated::new(name.clone(), shape).of_type(dtype));
            shapes.insert(name.clone(), value.shape.clone());
        }
        for (name, info) in node.outputs.iter().zip(&lowered.outputs) {
            graph.outputs.push(Stated::new(name.clone(), vec![None; info.shape.len()]));
        }
        let bounds = Bounds { operations: MOST_OPERATIONS, ..Bounds::default() };
        let program = Program::within(&graph, self.parameters, &shapes, bounds).ok()?;
        let mut values = program.run(&mut Cpu::new(Arithmetic::F32), &inputs, &mut ()).ok()?;
        node.outputs.iter().map(|name| values.remove(name)).collect()
    }
}
