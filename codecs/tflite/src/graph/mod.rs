//! Reads the first subgraph as a graph of the contract.
//!
//! All values are numbers: integers with scales are taken as what they stand for, and what an operator makes of them is
//! rounded to the steps of its result's scale. Integers that lead to shapes are computed while the model is read.

mod elementwise;
mod known;
mod layers;
mod loops;
mod lowering;
mod moves;
mod places;
mod quantized;
mod recurrent;
mod step;
mod values;

use crate::flat::Flat;
use crate::read::{Model, ParsedConstants};
use ckpt_api::{DType, Graph, Tensor, Value};
use ckpt_graph::{Builder, Dims, GraphResult, Length, results};
use known::{Known, Val};
use lowering::{Lowering, Read};
use std::collections::HashMap;
use step::Operation;

/// The subgraph that is read.
const MAIN: usize = 0;

/// Reads the first subgraph, and names the axes of the weights that it takes; returns what it assumes, too. `Err` says why
/// it cannot be read.
pub(crate) fn read<'a>(
    flat: &'a Flat<'a>,
    model: &'a Model<'a>,
    constants: &'a ParsedConstants,
    tensors: &'a mut [Tensor],
) -> Result<(Graph, Vec<String>), String> {
    let main = model.subgraphs.get(MAIN).ok_or("it has no subgraph")?;
    if main.operators.is_empty() {
        return Err("it has no operators".to_owned());
    }
    let mut lowering = Lowering {
        flat,
        model,
        constants,
        tensors,
        subgraph: MAIN,
        builder: Builder::default(),
        known: HashMap::new(),
        stored: HashMap::new(),
        free: 0,
        level: 0,
        lowered: 0,
        notes: Vec::new(),
    };
    let inputs = main.inputs.iter().map(|input| lowering.input(*input)).collect::<Read<Vec<Value>>>()?;
    lowering.steps()?;
    let outputs = main.outputs.iter().map(|output| lowering.output(*output)).collect::<Read<Vec<_>>>()?;
    let dtypes: Vec<Option<DType>> = main.outputs.iter().map(|output| lowering.interface(*output)).collect();
    let nodes = std::mem::take(&mut lowering.builder.nodes);
    let mut graph = Graph { name: main.name.clone(), inputs, outputs: Vec::new(), nodes };
    results::finish_named(&mut graph, outputs);
    for (output, dtype) in graph.outputs.iter_mut().zip(dtypes) {
        output.dtype = dtype;
    }
    Ok((graph, lowering.notes))
}

impl<'a> Lowering<'a> {
    /// Lowers all operators of the subgraph, which are in an order in which they can run.
    fn steps(&mut self) -> Read<()> {
        let model = self.model;
        let Some(subgraph) = model.subgraphs.get(self.subgraph) else { return Ok(()) };
        for (number, step) in subgraph.operators.iter().enumerate() {
            let operation = Operation::new(step, number);
            self.place(&operation);
            self.step(&operation)
                .map_err(|why| format!("{} {why}", operation.shown(self.output_name(&operation))))?;
        }
        Ok(())
    }

    /// Names the nodes of an operator after its result.
    fn place(&mut self, operation: &Operation<'_>) {
        let name = self.output_name(operation).to_owned();
        // Converters join the names of all operations that they fuse.
        let first = name.split(';').find(|part| !part.is_empty()).unwrap_or_default();
        self.builder.place = first.to_owned();
    }

    fn output_name(&self, operation: &Operation<'_>) -> &'a str {
        let number = operation.step.outputs.first().and_then(|output| usize::try_from(*output).ok());
        let subgraph = self.model.subgraphs.get(self.subgraph);
        let table = subgraph.and_then(|own| own.tensors.get(number?));
        table.map_or("", |table| &table.name)
    }

    /// Lowers one operator.
    fn step(&mut self, operation: &Operation<'_>) -> Read<()> {
        if self.folded(operation)? || self.controlled(operation)? {
            return Ok(());
        }
        if let Some(made) = self.several(operation)? {
            return self.put_all(operation, made);
        }
        let made = match self.layer(operation)? {
            Some(made) => Some(made),
            None => self.elementwise(operation)?,
        };
        let made = match made {
            Some(made) => Some(made),
            None => self.moved(operation)?,
        };
        let made = match made {
            Some(made) => Some(made),
            None => self.placed(operation)?,
        };
        match made {
            Some(made) => self.put_all(operation, vec![made]),
            None => Err("is not supported".to_owned()),
        }
    }

    /// Remembers the results of an operator, rounded to their scales.
    fn put_all(&mut self, operation: &Operation<'_>, made: Vec<Val>) -> Read<()> {
        for (output, val) in operation.step.outputs.iter().zip(made) {
            let Ok(number) = usize::try_from(*output) else { continue };
            let val = self.rounded(operation, number, val)?;
            self.known.insert(number, Known::Val(val));
        }
        Ok(())
    }

    /// An input of the model: the free axes are those that its signature leaves open.
    fn input(&mut self, number: i32) -> Read<Value> {
        let number = usize::try_from(number).map_err(|_| "an input is left out")?;
        let dims = self.stated(number)?;
        let table = self.table(number)?;
        let shown: Vec<Option<u64>> = dims.iter().map(|len| len.size()).collect();
        let dtype = self.dtype(number)?;
        let val = self.builder.input(&table.name, dims);
        let value = Value::new(val.name.clone(), shown);
        self.builder.place.clone_from(&val.name);
        let val = self.dequantized(number, val)?;
        self.known.insert(number, Known::Val(val));
        Ok(if dtype == DType::F32 { value } else { value.of_type(dtype) })
    }

    /// The lengths that the model states of an input.
    fn stated(&mut self, number: usize) -> Read<Dims> {
        let table = self.table(number)?;
        let lens = if table.signature.is_empty() { &table.shape } else { &table.signature };
        let mut dims = Vec::with_capacity(lens.len());
        for len in lens {
            dims.push(match u64::try_from(*len) {
                Ok(len) => Length::from(len),
                Err(_) => {
                    self.free = self.free.saturating_add(1);
                    Length::free(self.free.saturating_sub(1))
                }
            });
        }
        Ok(dims)
    }

    /// A result of the model.
    fn output(&mut self, number: i32) -> Read<GraphResult> {
        let number = usize::try_from(number).map_err(|_| "an output is left out")?;
        let name = self.table(number)?.name.clone();
        self.builder.place.clone_from(&name);
        let val = self.operand(number)?;
        let val = self.quantized(number, val)?;
        let val = self.builder.last(&val)?;
        self.builder.result(val, &name)
    }

    /// The dtype of a result, if it is not that of numbers.
    fn interface(&self, number: i32) -> Option<DType> {
        let dtype = self.dtype(usize::try_from(number).ok()?).ok()?;
        (!dtype.is_float()).then_some(dtype)
    }
}
