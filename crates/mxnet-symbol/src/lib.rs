//! MXNet's symbols, as graphs of ONNX operators.
//!
//! MXNet has the channels of images first, as ONNX's operators take them, so that values stay in their order. A symbol
//! states no shapes: those of the inputs follow from the first layers that take them.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod activations;
mod attributes;
mod elementwise;
mod inputs;
mod layers;
mod lowering;
mod moves;
mod normalization;
mod pooling;
mod stated;
mod symbol;

pub use stated::{StatedShapes, stated_shapes};

use ckpt_api::{Graph, Limits, Tensor, Value};
use ckpt_graph::{GraphResult, results};
use lowering::Lowering;
use stated::Read;
use symbol::Symbol;

/// Reads a symbol, and names the axes of the tensors that it takes, which have the symbol's names, alone or after `arg:` or
/// `aux:`.
///
/// ```
/// use ckpt_api::{DType, Limits, Shape, Tensor};
/// let json = br#"{"nodes": [
///     {"op": "null", "name": "data", "inputs": []},
///     {"op": "null", "name": "w", "inputs": []},
///     {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "3", "no_bias": "True"},
///      "inputs": [[0, 0, 0], [1, 0, 0]]}
/// ], "heads": [[2, 0, 0]]}"#;
/// let mut tensors = [Tensor::new("arg:w", DType::F32, Shape::new([3u64, 5])?)];
/// let graph = ckpt_mxnet_symbol::read(json, &mut tensors, &Default::default(), &Limits::default()).unwrap();
/// assert_eq!((graph.inputs[0].shape.as_slice(), graph.outputs[0].name.as_str()), (&[None, Some(5)][..], "fc_output"));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
///
/// # Errors
/// Why it cannot be read, as a clause that names the operator.
pub fn read(
    json: &[u8],
    tensors: &mut [Tensor],
    shapes: &StatedShapes,
    limits: &Limits,
) -> Result<Graph, String> {
    let symbol = Symbol::parse(json, limits)?;
    let mut lowering = Lowering::new(&symbol, tensors, shapes);
    if let Err(why) = lowering.steps() {
        return Err(format!("{why}{}", lowering.open_shapes()));
    }
    // The second result of a leaky activation is for training.
    let is_result = |head: &&(usize, usize)| {
        head.1 == 0 || symbol.steps.get(head.0).is_some_and(|step| step.op != "LeakyReLU")
    };
    let outputs =
        symbol.heads.iter().filter(is_result).map(|head| lowering.output(*head)).collect::<Read<Vec<_>>>()?;
    let Lowering { builder, mut inputs, .. } = lowering;
    inputs.sort_by_key(|(number, _)| *number);
    let inputs: Vec<Value> = inputs.into_iter().map(|(_, value)| value).collect();
    let mut graph = Graph { name: String::new(), inputs, outputs: Vec::new(), nodes: builder.nodes };
    results::finish_named(&mut graph, outputs);
    Ok(graph)
}

impl Lowering<'_> {
    /// Lowers all operators, which are in an order in which they can run.
    fn steps(&mut self) -> Read<()> {
        let symbol = self.symbol;
        for (number, step) in symbol.steps.iter().enumerate() {
            if step.is_variable() {
                continue;
            }
            self.builder.place.clone_from(&step.name);
            let shown = || format!("{} ('{}')", step.op, step.name.escape_debug());
            let made = self.step(step).map_err(|why| format!("{} {why}", shown()))?;
            for (index, val) in made.into_iter().enumerate() {
                self.known.insert((number, index), val);
            }
        }
        Ok(())
    }

    /// What to say of inputs whose sizes are not known, if something could not be read.
    fn open_shapes(&self) -> String {
        let is_open = |shape: &[Option<u64>]| shape.iter().filter(|len| len.is_none()).count() > 1;
        let open = self.inputs.iter().find(|(_, value)| is_open(&value.shape));
        open.map_or_else(String::new, |(_, value)| {
            let lens = value.shape.iter().map(|len| len.map_or("?".to_owned(), |len| len.to_string()));
            let lens: Vec<String> = lens.collect();
            format!(" (the sizes of its inputs can be stated with shape={}:{})", value.name, lens.join(","))
        })
    }

    /// A result of the symbol, with the name that MXNet gives it.
    fn output(&mut self, head: (usize, usize)) -> Read<GraphResult> {
        let symbol = self.symbol;
        let step = symbol.steps.get(head.0).ok_or("a result is of a node that does not exist")?;
        let name = match step.several() {
            _ if step.is_variable() => step.name.clone(),
            true => format!("{}_output{}", step.name, head.1),
            false if step.op == "make_loss" => format!("{}_loss", step.name),
            false => format!("{}_output", step.name),
        };
        self.builder.place.clone_from(&name);
        let val = self.value(head)?;
        self.builder.result(val, &name)
    }
}

#[cfg(test)]
mod tests;
