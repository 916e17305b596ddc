//! Reads the function of an ML program as a graph of the contract.
//!
//! MIL's operations are close to ONNX's: channels come first, and the program states the shape of every result. All values are
//! taken as 32-bit floats: a program of 16-bit floats is computed more precisely than Core ML does.

mod elementwise;
mod layers;
mod moves;
mod operands;
mod recurrent;
mod windows;

use crate::read::{Files, Function, Named, Operation, Program};
use ckpt_api::{DType, Graph, Tensor, Value};
use ckpt_graph::{Builder, Dims, GraphResult, Length, results};
use std::cell::RefCell;
use std::collections::HashMap;

/// A value of the graph.
type Val = ckpt_graph::Val<()>;
/// What a program could not be read for: a clause that follows the operation's name.
type Read<T> = Result<T, String>;

/// What is known while a function is read.
struct Lowering<'a, 'f> {
    files: RefCell<&'a mut Files<'f>>,
    /// The tensors of the checkpoint, whose axes get names.
    tensors: &'a mut [Tensor],
    /// The tensor of each constant.
    ids: &'a HashMap<String, usize>,
    /// Operations by the names of their results.
    operations: HashMap<&'a str, &'a Operation>,
    builder: Builder<()>,
    /// What a value of the program is in the graph.
    known: HashMap<String, Val>,
    /// The types of the function's inputs.
    inputs: HashMap<String, DType>,
    /// Whether values are 16-bit floats.
    is_half: bool,
    free: usize,
}

/// Reads a function, and names the axes of the weights that it takes; returns what it assumes, too. `Err` says why it cannot be
/// read.
pub(crate) fn read(
    program: &Program,
    function: &Function,
    files: &mut Files<'_>,
    ids: &HashMap<String, usize>,
    tensors: &mut [Tensor],
) -> Result<(Graph, Vec<String>), String> {
    let block =
        function.block.and_then(|block| program.blocks.get(block)).ok_or("its function has no block")?;
    // A program of tensors alone returns its input.
    let is_nothing =
        |own: &Operation| matches!(own.op.as_str(), "const" | "identity") || own.op.starts_with("constexpr_");
    if block.operations.iter().all(is_nothing) {
        return Err("it has no operations".to_owned());
    }
    let operations = block
        .operations
        .iter()
        .flat_map(|operation| operation.outputs.iter().map(move |output| (output.name.as_str(), operation)));
    let mut lowering = Lowering {
        files: RefCell::new(files),
        tensors,
        ids,
        operations: operations.collect(),
        builder: Builder::naming_lengths(),
        known: HashMap::new(),
        inputs: HashMap::new(),
        is_half: false,
        free: 0,
    };
    let inputs: Vec<Value> =
        function.inputs.iter().map(|input| lowering.input(input)).collect::<Read<_>>()?;
    for operation in &block.operations {
        if operation.op == "const" || operation.op.starts_with("constexpr_") {
            continue;
        }
        lowering.builder.place = operation.name().to_owned();
        lowering
            .step(operation)
            .map_err(|why| format!("{} ('{}') {why}", operation.op, operation.name().escape_debug()))?;
    }
    let outputs = block.outputs.iter().map(|name| lowering.output(name)).collect::<Read<Vec<_>>>()?;
    let nodes = std::mem::take(&mut lowering.builder.nodes);
    let mut graph = Graph { name: function.name.clone(), inputs, outputs: Vec::new(), nodes };
    results::finish_named(&mut graph, outputs);
    let note = "the model computes with 16-bit floats, and the graph with those of 32 bits";
    Ok((graph, lowering.is_half.then(|| note.to_owned()).into_iter().collect()))
}

impl Lowering<'_, '_> {
    /// An input of the function.
    fn input(&mut self, input: &Named) -> Read<Value> {
        let dims = self.dims(input);
        let dtype = input.ty.element().and_then(|element| element.dtype);
        let dtype = dtype.ok_or_else(|| format!("its input '{}' is no tensor of numbers", input.name))?;
        self.inputs.insert(input.name.clone(), dtype);
        let shown: Vec<Option<u64>> = dims.iter().map(|len| len.size()).collect();
        let val = self.builder.input(&input.name, dims);
        let value = Value::new(val.name.clone(), shown);
        self.known.insert(input.name.clone(), val);
        let is_number = dtype.is_float();
        Ok(if is_number { value } else { value.of_type(dtype) })
    }

    /// The lengths that the program states of a value.
    fn dims(&mut self, value: &Named) -> Dims {
        let mut dims = Vec::with_capacity(value.ty.lens.len());
        for len in &value.ty.lens {
            dims.push(match len {
                Some(len) => Length::from(*len),
                None => {
                    self.free = self.free.saturating_add(1);
                    Length::free(self.free.saturating_sub(1))
                }
            });
        }
        dims
    }

    /// The lengths of a result; those that are not stated are unknown.
    fn made(&self, operation: &Operation) -> Dims {
        let lens = operation.outputs.first().map(|output| output.ty.lens.as_slice()).unwrap_or_default();
        lens.iter().map(|len| Length::from(*len)).collect()
    }

    fn output(&mut self, name: &str) -> Read<GraphResult> {
        self.builder.place = name.to_owned();
        let val = self.named(name)?;
        self.builder.result(val, name)
    }

    /// Lowers one operation, and remembers its results.
    fn step(&mut self, operation: &Operation) -> Read<()> {
        let halves = |output: &Named| output.ty.element().is_some_and(|own| own.dtype == Some(DType::F16));
        self.is_half |= operation.outputs.iter().any(halves);
        let made = match self.several(operation)? {
            Some(made) => made,
            None => {
                let made = match self.layer(operation)? {
                    Some(made) => Some(made),
                    None => self.elementwise(operation)?,
                };
                let made = match made {
                    Some(made) => Some(made),
                    None => self.moved(operation)?,
                };
                vec![made.ok_or("is not supported")?]
            }
        };
        for (output, val) in operation.outputs.iter().zip(made) {
            self.known.insert(output.name.clone(), val);
        }
        Ok(())
    }

    /// Operations with several results.
    fn several(&mut self, operation: &Operation) -> Read<Option<Vec<Val>>> {
        match operation.op.as_str() {
            "lstm" => self.lstm(operation).map(Some),
            "split" => self.split(operation).map(Some),
            _ => Ok(None),
        }
    }
}
