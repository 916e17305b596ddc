//! PaddlePaddle's programs: the names of their parameters, and their graphs.
//!
//! Values have the channels of images first, as ONNX's operators take them, so that they stay in their order.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod elementwise;
mod json;
mod layers;
mod lowering;
mod moves;
mod parameter;
mod protobuf;

use ckpt_api::{Graph, Limits, Tensor};
use ckpt_graph::results;
use json::Json;
use lowering::Lowering;
use parameter::Read;

pub use parameter::Parameter;

/// A program beside the parameters of an inference model.
#[derive(Debug)]
pub struct Program {
    parameters: Vec<Parameter>,
    /// The operations; `None` for a program whose graph is not read.
    json: Option<Json>,
}

impl Program {
    /// Parses `inference.json`, or `inference.pdmodel`, which is a message of protobuf.
    ///
    /// ```
    /// use ckpt_paddle_program::Program;
    /// let json = br##"{"base_code": {"magic": "pir", "version": 4}, "program": {"regions": [{"blocks": [{"ops": [
    ///     {"#": "p", "A": [0, 1, 1, "linear_0.w_0"],
    ///      "O": {"%": 1, "TT": {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [4, 3], "NCHW", [], 0]}}}
    /// ]}]}]}}"##;
    /// let program = Program::parse(json, &ckpt_api::Limits::default()).unwrap();
    /// assert_eq!(program.parameters()[0].name, "linear_0.w_0");
    /// assert_eq!(program.parameters()[0].shape.as_deref(), Some(&[4, 3][..]));
    /// ```
    ///
    /// # Errors
    /// Why it cannot be read, as a clause.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, String> {
        let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let (mut parameters, json) = match is_json {
            true => {
                let json = Json::parse(bytes, limits)?;
                (json.parameters()?, Some(json))
            }
            false => (protobuf::parameters(bytes, limits)?, None),
        };
        parameters.sort_by(|a, b| a.name.cmp(&b.name));
        match parameters
            .windows(2)
            .find(|pair| pair.first().map(|own| &own.name) == pair.last().map(|own| &own.name))
        {
            Some(pair) => {
                let name = pair.first().map_or("", |own| own.name.as_str());
                Err(format!("two parameters are called '{}'", name.escape_debug()))
            }
            None => Ok(Program { parameters, json }),
        }
    }

    /// The parameters, sorted by name: the order in which their records are stored.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Reads the graph, and names the axes of the tensors that it takes, which have the names of parameters.
    ///
    /// # Errors
    /// Why it cannot be read, as a clause that names the operation.
    pub fn graph(&self, tensors: &mut [Tensor]) -> Result<Graph, String> {
        let json = self.json.as_ref().ok_or("graphs of programs in protobuf are not read")?;
        let operations = json.operations()?;
        let mut lowering = Lowering::new(&operations, tensors);
        for operation in &operations {
            lowering.builder.place = operation.place();
            let shown = || format!("{} (operation {})", operation.name, operation.number);
            lowering.operation(operation).map_err(|why| format!("{} {why}", shown()))?;
        }
        lowering.finish()
    }
}

impl Lowering<'_> {
    /// The graph of what was lowered.
    fn finish(self) -> Read<Graph> {
        let Lowering { builder, inputs, outputs, .. } = self;
        if outputs.is_empty() {
            return Err("it returns nothing".to_owned());
        }
        let mut graph = Graph { name: String::new(), inputs, outputs: Vec::new(), nodes: builder.nodes };
        results::finish_named(&mut graph, outputs);
        Ok(graph)
    }
}

#[cfg(test)]
mod tests;
