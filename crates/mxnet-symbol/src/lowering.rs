//! What is known while a symbol is read.

use crate::stated::{Read, StatedShapes};
use crate::symbol::{Step, Symbol};
use ckpt_api::{Axis, Node, Tensor, Value};
use ckpt_graph::shape::{MAX_RANK, of_sizes};
use ckpt_graph::{Builder, Dims};
use std::collections::HashMap;

/// Prefixes of the names that a `Module` saves.
const PREFIXES: [&str; 3] = ["arg:", "aux:", ""];

/// A value of the graph.
pub(crate) type Val = ckpt_graph::Val<()>;

/// What is known of the values of a symbol while it is read.
pub(crate) struct Lowering<'a> {
    pub(crate) symbol: &'a Symbol,
    /// The tensors of the checkpoint, whose axes get names.
    pub(crate) tensors: &'a mut [Tensor],
    /// Tensors by name.
    ids: HashMap<String, usize>,
    pub(crate) shapes: &'a StatedShapes,
    pub(crate) builder: Builder<()>,
    /// Values by the number of their node and of the result.
    pub(crate) known: HashMap<(usize, usize), Val>,
    /// Inputs of the graph by the number of their node.
    pub(crate) inputs: Vec<(usize, Value)>,
    /// Free axes so far.
    pub(crate) free: usize,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(symbol: &'a Symbol, tensors: &'a mut [Tensor], shapes: &'a StatedShapes) -> Self {
        let named = tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.to_string(), id));
        let ids = named.collect();
        Lowering {
            symbol,
            tensors,
            ids,
            shapes,
            builder: Builder::naming_lengths(),
            known: HashMap::new(),
            inputs: Vec::new(),
            free: 0,
        }
    }

    /// Lowers one operator; returns its results.
    pub(crate) fn step(&mut self, step: &Step) -> Read<Vec<Val>> {
        if let Some(made) = self.parts(step)? {
            return Ok(made);
        }
        let made = match self.layer(step)? {
            Some(made) => Some(made),
            None => self.normalized(step)?,
        };
        let made = match made {
            Some(made) => Some(made),
            None => self.activated(step)?,
        };
        let made = match made {
            Some(made) => Some(made),
            None => self.elementwise(step)?,
        };
        let made = match made {
            Some(made) => Some(made),
            None => self.moved(step)?,
        };
        made.map(|made| vec![made]).ok_or_else(|| "is not supported".to_owned())
    }

    /// The tensor that a variable is.
    fn parameter(&self, name: &str) -> Option<usize> {
        PREFIXES.iter().find_map(|prefix| self.ids.get(&format!("{prefix}{name}")).copied())
    }

    /// The tensor that input `index` of an operator is, with its number.
    pub(crate) fn parameter_of(&self, step: &Step, index: usize) -> Option<(usize, &Tensor)> {
        let symbol = self.symbol;
        let (number, _) = *step.inputs.get(index)?;
        let variable = symbol.steps.get(number).filter(|step| step.is_variable())?;
        let id = self.parameter(&variable.name)?;
        Some((id, self.tensors.get(id)?))
    }

    /// The number of a tensor by its name without a prefix.
    pub(crate) fn parameter_named(&self, name: &str) -> Option<usize> {
        self.parameter(name)
    }

    /// Names the axes of the tensor that input `index` is; returns its name and shape.
    pub(crate) fn claim(&mut self, step: &Step, index: usize, axes: &[Axis]) -> Read<(String, Vec<u64>)> {
        let id = self.parameter_of(step, index).map(|(id, _)| id);
        let id = id.ok_or_else(|| format!("has no parameter as input {index}"))?;
        self.claim_tensor(id, axes)
    }

    /// Names the axes of a tensor, which another operator may not take in another way.
    pub(crate) fn claim_tensor(&mut self, id: usize, axes: &[Axis]) -> Read<(String, Vec<u64>)> {
        let tensor = self.tensors.get_mut(id).ok_or("has no parameter")?;
        if tensor.shape.rank() != axes.len() {
            return Err(format!("has a parameter of shape {}", tensor.shape));
        }
        match tensor.axes.as_deref() {
            Some(own) if own != axes => {
                return Err(format!(
                    "takes '{}' otherwise than another operator",
                    tensor.name.escape_debug()
                ));
            }
            Some(_) => {}
            None => tensor.axes = Some(axes.into()),
        }
        Ok((tensor.name.to_string(), tensor.shape.to_vec()))
    }

    /// A node with the parameter that input `index` is, one number for each output, if the operator has it.
    pub(crate) fn with_vector(&mut self, node: Node, role: &str, step: &Step, index: usize) -> Read<Node> {
        match step.inputs.len() > index {
            true => Ok(node.parameter(role, self.claim(step, index, &[Axis::Out])?.0)),
            false => Ok(node),
        }
    }

    /// Input `index` of an operator.
    pub(crate) fn take(&mut self, step: &Step, index: usize) -> Read<Val> {
        let input = *step.inputs.get(index).ok_or_else(|| format!("lacks input {index}"))?;
        self.value(input)
    }

    /// All inputs of an operator.
    pub(crate) fn take_all(&mut self, step: &Step) -> Read<Vec<Val>> {
        (0..step.inputs.len()).map(|index| self.take(step, index)).collect()
    }

    /// A value of the symbol: what a node made, a tensor, or an input.
    pub(crate) fn value(&mut self, at: (usize, usize)) -> Read<Val> {
        if let Some(val) = self.known.get(&at) {
            return Ok(val.clone());
        }
        let symbol = self.symbol;
        let variable = symbol.steps.get(at.0).filter(|step| step.is_variable() && at.1 == 0);
        let variable = variable.ok_or("takes a result that its operator does not make here")?;
        let val = match self.parameter(&variable.name).and_then(|id| self.tensors.get(id)) {
            Some(tensor) if !tensor.dtype.is_float() => {
                return Err(format!("takes '{}' of {} as numbers", tensor.name.escape_debug(), tensor.dtype));
            }
            Some(tensor) => {
                let (name, dims) = (tensor.name.to_string(), of_sizes(&tensor.shape));
                self.builder.stored(&name, dims)?
            }
            None => {
                let shape = self.input_shape(at.0)?;
                if shape.len() > MAX_RANK {
                    return Err(format!("takes an input of more than {MAX_RANK} axes"));
                }
                let dims: Dims = self.lengths(&shape);
                let val = self.builder.input(&variable.name, dims);
                self.inputs.push((at.0, Value::new(val.name.clone(), shape)));
                val
            }
        };
        self.known.insert(at, val.clone());
        Ok(val)
    }
}
