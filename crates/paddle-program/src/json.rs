//! The operations of `inference.json`.
//!
//! ```text
//! {"#": "1.conv2d", "A": [{"N": "strides", "AT": {"#": "0.a_array", "D": […]}}], "I": [{"%": 9}], "O": [{"%": 10, "TT": …}]}
//! {"#": "p", "A": [0, 1, 1, "conv2d_0.w_0"], "O": {"%": 1, "TT": {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [6, 3], …]}}, "OA": [persistable, …]}
//! ```

use crate::parameter::{Parameter, Read};
use ckpt_api::{Limit, Limits};
use serde_json::Value;

/// The operation that is a parameter.
const PARAMETER: &str = "p";

/// A program.
#[derive(Debug)]
pub(crate) struct Json(Vec<Value>);

/// An operation.
pub(crate) struct Operation<'a> {
    pub(crate) number: usize,
    /// Its name without the dialect's number.
    pub(crate) name: &'a str,
    value: &'a Value,
    /// Numbers of values; `None` for one that is left out.
    pub(crate) inputs: Vec<Option<u64>>,
    pub(crate) outputs: Vec<Output>,
}

/// A result of an operation.
pub(crate) struct Output {
    pub(crate) number: u64,
    /// Lengths of its axes, −1 for those that are free; `None` for what is no tensor.
    pub(crate) shape: Option<Vec<i64>>,
    /// The type of its elements, as `f32`.
    pub(crate) dtype: String,
}

impl Json {
    pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Read<Self> {
        let mut value: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        if value.pointer("/base_code/magic").and_then(Value::as_str) != Some("pir") {
            return Err("it is no program of PaddlePaddle: base_code has no magic 'pir'".to_owned());
        }
        let blocks = value.pointer_mut("/program/regions/0/blocks");
        let blocks = blocks.and_then(Value::as_array_mut).ok_or("it has no block of operations")?;
        let [block] = &mut blocks[..] else { return Err("it has several blocks".to_owned()) };
        let operations = block.get_mut("ops").map(Value::take);
        let Some(Value::Array(operations)) = operations else {
            return Err("it has no operations".to_owned());
        };
        limits.check(Limit::GraphNodes, operations.len() as u64).map_err(|error| error.to_string())?;
        Ok(Json(operations))
    }

    /// The parameters that have records.
    pub(crate) fn parameters(&self) -> Read<Vec<Parameter>> {
        let is_parameter = |value: &&Value| {
            value.get("#").and_then(Value::as_str) == Some(PARAMETER) && is_persistable(value)
        };
        let parameter = |value: &Value| {
            let name = parameter_name(value).ok_or("a parameter has no name")?;
            let shape = value.get("O").and_then(|output| Output::parse(output)?.shape);
            let shape = shape.and_then(|shape| {
                shape.iter().map(|len| u64::try_from(*len).ok()).collect::<Option<Vec<u64>>>()
            });
            Ok(Parameter { name: name.to_owned(), shape })
        };
        self.0.iter().filter(is_parameter).map(parameter).collect()
    }

    pub(crate) fn operations(&self) -> Read<Vec<Operation<'_>>> {
        self.0.iter().enumerate().map(|(number, value)| Operation::parse(number, value)).collect()
    }
}

fn parameter_name(value: &Value) -> Option<&str> {
    value.get("A")?.as_array()?.iter().find_map(Value::as_str)
}

/// Whether a parameter has a record: the state of dropout in recurrent layers has none.
fn is_persistable(value: &Value) -> bool {
    let persistable = value.get("OA").and_then(|own| own.get(0)).and_then(Value::as_u64);
    persistable != Some(0)
}

impl<'a> Operation<'a> {
    fn parse(number: usize, value: &'a Value) -> Read<Self> {
        let name = value.get("#").and_then(Value::as_str).ok_or("an operation has no name")?;
        let name = name.split_once('.').map_or(name, |(_, name)| name);
        // 0 stands for an input that is left out.
        let id = |input: &Value| input.get("%")?.as_u64().filter(|id| *id > 0);
        let inputs = value.get("I").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let outputs: &[Value] = match value.get("O") {
            Some(Value::Array(outputs)) => outputs,
            Some(output) => std::slice::from_ref(output),
            None => &[],
        };
        let outputs = outputs.iter().map(|output| {
            Output::parse(output).ok_or_else(|| format!("operation {number} has a result without a number"))
        });
        let (inputs, outputs) = (inputs.iter().map(id).collect(), outputs.collect::<Read<_>>()?);
        Ok(Operation { number, name, value, inputs, outputs })
    }

    /// Whether it is a parameter without a record.
    pub(crate) fn is_passing(&self) -> bool {
        self.name == PARAMETER && !is_persistable(self.value)
    }

    /// Whether it is a parameter, and which.
    pub(crate) fn parameter(&self) -> Option<&'a str> {
        (self.name == PARAMETER).then(|| parameter_name(self.value)).flatten()
    }

    /// The name of the nodes that it becomes.
    pub(crate) fn place(&self) -> String {
        let name = self.text("struct_name").unwrap_or_default().trim_matches('/').replace('/', ".");
        if name.is_empty() { self.name.to_owned() } else { name }
    }

    fn attribute(&self, name: &str) -> Option<&'a Value> {
        let all = self.value.get("A")?.as_array()?;
        all.iter().find(|own| own.get("N").and_then(Value::as_str) == Some(name))?.get("AT")?.get("D")
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.attribute(name)?.as_str()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.attribute(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn int(&self, name: &str) -> Read<i64> {
        self.attribute(name).and_then(Value::as_i64).ok_or_else(|| lacks(name))
    }

    pub(crate) fn float(&self, name: &str) -> Read<f64> {
        let value = self.attribute(name).ok_or_else(|| lacks(name))?;
        // Scalars are lists of a type and a number; some numbers are texts.
        let number = value.as_array().and_then(|all| all.last()).unwrap_or(value);
        let number = number.as_f64().or_else(|| number.as_str()?.parse().ok());
        number.ok_or_else(|| lacks(name))
    }

    pub(crate) fn ints(&self, name: &str) -> Read<Vec<i64>> {
        let all = self.attribute(name).and_then(Value::as_array).ok_or_else(|| lacks(name))?;
        let int = |value: &Value| value.as_i64().or_else(|| value.get("D")?.as_i64());
        all.iter().map(int).collect::<Option<_>>().ok_or_else(|| lacks(name))
    }

    pub(crate) fn floats(&self, name: &str) -> Read<Vec<f64>> {
        let all = self.attribute(name).and_then(Value::as_array).ok_or_else(|| lacks(name))?;
        let float = |value: &Value| value.as_f64().or_else(|| value.get("D")?.as_f64());
        all.iter().map(float).collect::<Option<_>>().ok_or_else(|| lacks(name))
    }

    /// Whether the attribute is stated.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// Whether a flag is stated, and not set.
    pub(crate) fn attribute_is_false(&self, name: &str) -> bool {
        self.attribute(name).and_then(Value::as_bool) == Some(false)
    }

    /// Checks that it takes images with their channels first, if it takes images.
    pub(crate) fn has_channels_first(&self) -> Read<()> {
        match self.text("data_format") {
            Some(format) if !format.starts_with("NC") && format != "AnyLayout" => {
                Err("takes images with their channels last, which is not supported".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Sizes of the sides of a window.
    pub(crate) fn sizes(&self, name: &str) -> Read<Vec<u64>> {
        let sizes = self.ints(name)?.into_iter().map(|size| u64::try_from(size).ok());
        sizes.collect::<Option<_>>().ok_or_else(|| lacks(name))
    }

    /// The number of input `index`.
    pub(crate) fn input(&self, index: usize) -> Option<u64> {
        self.inputs.get(index).copied().flatten()
    }

    /// The first result.
    pub(crate) fn output(&self) -> Read<&Output> {
        self.outputs.first().ok_or_else(|| "makes nothing".to_owned())
    }
}

impl Output {
    fn parse(value: &Value) -> Option<Self> {
        let number = u64::try_from(value.get("%")?.as_i64()?).ok()?;
        let described = value.get("TT").and_then(|kind| kind.get("D")).and_then(Value::as_array);
        let dtype = described.and_then(|own| own.first()?.get("#")?.as_str());
        let dtype = dtype.and_then(|name| name.split_once("t_")).map_or("", |(_, name)| name).to_owned();
        let shape = described.and_then(|own| own.get(1)?.as_array()?.iter().map(Value::as_i64).collect());
        Some(Output { number, shape, dtype })
    }
}

fn lacks(name: &str) -> String {
    format!("has no attribute '{name}' of the type that it needs")
}
