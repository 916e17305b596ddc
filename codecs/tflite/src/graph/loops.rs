//! Loops and branches, whose bodies are other subgraphs.
//!
//! A loop whose end is known before the model runs is unrolled: sequences have a fixed number of steps in this format.

use super::known::Known;
use super::lowering::{Lowering, Read};
use super::step::Operation;
use ckpt_api::MAX_GRAPH_LEVELS;

/// Operators that are lowered at most, in all iterations together.
const MOST_STEPS: usize = 1 << 18;

impl Lowering<'_> {
    /// Lowers a loop or a branch; whether it is one.
    pub(super) fn controlled(&mut self, operation: &Operation<'_>) -> Read<bool> {
        let made = match operation.name.as_str() {
            "WHILE" => self.repeated(operation)?,
            "IF" => self.branch(operation)?,
            _ => return Ok(false),
        };
        for (output, known) in operation.step.outputs.iter().zip(made) {
            if let Ok(number) = usize::try_from(*output) {
                self.known.insert(number, known);
            }
        }
        Ok(true)
    }

    fn repeated(&mut self, operation: &Operation<'_>) -> Read<Vec<Known>> {
        let subgraph = |number: u64| {
            let index = operation.int(number)?;
            usize::try_from(index).map_err(|_| "names a subgraph that does not exist".to_owned())
        };
        let (condition, body) = (subgraph(0)?, subgraph(1)?);
        let mut carried =
            operation.step.inputs.iter().map(|input| self.carried(*input)).collect::<Read<Vec<Known>>>()?;
        loop {
            let holds = self.within(condition, carried.clone())?;
            let holds = match holds.first() {
                Some(Known::Ints(ints)) => ints.only().and_then(ckpt_graph::Length::known),
                _ => None,
            };
            match holds.ok_or("is a loop whose end depends on what the model computes")? {
                0 => return Ok(carried),
                _ => carried = self.within(body, carried)?,
            }
        }
    }

    fn branch(&mut self, operation: &Operation<'_>) -> Read<Vec<Known>> {
        let condition = self.known_ints(operation.required(0)?).and_then(|ints| ints.only()?.known());
        let condition = condition.ok_or("is a branch whose condition depends on what the model computes")?;
        let index = operation.int(if condition == 0 { 1 } else { 0 })?;
        let subgraph = usize::try_from(index).map_err(|_| "names a subgraph that does not exist")?;
        let inputs = operation.step.inputs.iter().skip(1);
        let inputs = inputs.map(|input| self.carried(*input)).collect::<Read<Vec<Known>>>()?;
        self.within(subgraph, inputs)
    }

    /// What is known of a value, for another subgraph.
    fn carried(&self, number: i32) -> Read<Known> {
        let number = usize::try_from(number).map_err(|_| "carries a value that is left out")?;
        match self.known.get(&number) {
            Some(known) => Ok(known.clone()),
            None => match self.constant(number) {
                Some(constant) => Ok(Known::Constant(constant)),
                None => Err("carries a value that no operator before it makes".to_owned()),
            },
        }
    }

    /// Lowers another subgraph, whose inputs are these; returns its results.
    fn within(&mut self, subgraph: usize, inputs: Vec<Known>) -> Read<Vec<Known>> {
        let model = self.model;
        let own = model.subgraphs.get(subgraph).ok_or("names a subgraph that does not exist")?;
        if own.inputs.len() != inputs.len() {
            return Err("gives a subgraph another number of inputs than it has".to_owned());
        }
        self.count(own.operators.len())?;
        if self.level >= MAX_GRAPH_LEVELS {
            return Err(format!("is within more than {MAX_GRAPH_LEVELS} loops and branches"));
        }
        let numbers = own.inputs.iter().map(|number| usize::try_from(*number).unwrap_or(usize::MAX));
        let outer = std::mem::replace(&mut self.known, numbers.zip(inputs).collect());
        let before = std::mem::replace(&mut self.subgraph, subgraph);
        self.level = self.level.saturating_add(1);
        let made =
            self.steps().and_then(|()| own.outputs.iter().map(|output| self.carried(*output)).collect());
        self.level = self.level.saturating_sub(1);
        (self.known, self.subgraph) = (outer, before);
        made
    }

    /// Counts operators that are lowered.
    fn count(&mut self, operators: usize) -> Read<()> {
        self.lowered = self.lowered.saturating_add(operators.max(1));
        match self.lowered <= MOST_STEPS {
            true => Ok(()),
            false => Err(format!("is repeated so often that its graph has more than {MOST_STEPS} operators")),
        }
    }
}
