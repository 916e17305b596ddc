//! `saved_model.pb`: functions of TensorFlow's operations.

use super::fields::{VARIABLES, float, message, number, rarely};
use crate::table::varint;
use arbitrary::{Result, Unstructured};

const UNARY: [&str; 14] = [
    "Relu",
    "Relu6",
    "Sigmoid",
    "Tanh",
    "Softmax",
    "LogSoftmax",
    "Elu",
    "Softplus",
    "LeakyRelu",
    "Identity",
    "StopGradient",
    "IdentityN",
    "Neg",
    "Squeeze",
];
const ANY: [&str; 12] = [
    "Mul",
    "AddV2",
    "Sub",
    "RealDiv",
    "Reshape",
    "MatMul",
    "Cast",
    "Const",
    "PartitionedCall",
    "StatefulPartitionedCall",
    "Pack",
    "Gather",
];

/// A model that serves one function, perhaps through another that calls it.
pub(super) fn model(u: &mut Unstructured) -> Result<Vec<u8>> {
    let mut body = Function { u, nodes: Vec::new() };
    let mut last = "x".to_owned();
    for _ in 0..body.u.int_in_range(0..=8)? {
        last = body.layer(last)?;
    }
    let input = body.shape()?;
    let inner = function("inner", &body.nodes, &last, &input);
    let mut outer = Function { u, nodes: Vec::new() };
    let arguments: Vec<String> = arguments().collect();
    let called = *outer.u.choose(&["inner", "inner", "inner", "outer"])?;
    let kind = *outer.u.choose(&["PartitionedCall", "StatefulPartitionedCall"])?;
    let call = outer.push(kind, arguments, &[("f", message(10, &message(1, called.as_bytes())))])?;
    let outer = function("outer", &outer.nodes, &call, &input);
    let library = [message(1, &inner), message(1, &outer)].concat();
    let graph = message(2, &message(2, &library));
    let objects = message(7, &objects(u)?);
    Ok(message(2, &[graph, objects].concat()))
}

/// The value at hand, and the variables behind it.
fn arguments() -> impl Iterator<Item = String> {
    let variables = VARIABLES.iter().map(|(name, _)| format!("r_{name}"));
    std::iter::once("x".to_owned()).chain(variables)
}

fn function(name: &str, nodes: &[Vec<u8>], result: &str, input: &[u8]) -> Vec<u8> {
    let named = |name: &str| message(1, name.as_bytes());
    let taken: Vec<u8> = arguments().flat_map(|argument| message(2, &named(&argument))).collect();
    let signature = [named(name), taken, message(3, &named("out"))].concat();
    let nodes: Vec<u8> = nodes.iter().flat_map(|node| message(3, node)).collect();
    let returned = message(4, &[named("out"), message(2, result.as_bytes())].concat());
    let attribute = message(1, &[named("_output_shapes"), message(2, input)].concat());
    let input = message(7, &[number(1, 0), message(2, &attribute)].concat());
    [message(1, &signature), nodes, returned, input].concat()
}

/// The objects: variables, signatures, and what serves.
fn objects(u: &mut Unstructured) -> Result<Vec<u8>> {
    let child =
        |id: usize, name: &str| message(1, &[number(1, id as u64), message(2, name.as_bytes())].concat());
    let (signatures, serving) = (VARIABLES.len() + 1, VARIABLES.len() + 2);
    let name = *u.choose(&["inner", "outer", "none"])?;
    let bare = u.arbitrary()?;
    let mut root: Vec<u8> = (1..).zip(VARIABLES).flat_map(|(id, (name, _))| child(id, name)).collect();
    root.extend(child(signatures, "signatures"));
    root.extend(child(serving, u.choose(&["serve", "__call__", "other"])?));
    let mut nodes = vec![root];
    nodes.resize(signatures, message(7, &[]));
    nodes.push(child(serving, u.choose(&["serving_default", "serving_default", "train"])?));
    nodes.push(match bare {
        true => message(8, &message(1, name.as_bytes())),
        false => message(6, &message(1, name.as_bytes())),
    });
    let bound: Vec<u8> = (1..=VARIABLES.len()).flat_map(varint).collect();
    let concrete =
        |name: &str| message(2, &[message(1, name.as_bytes()), message(2, &message(2, &bound))].concat());
    let nodes: Vec<u8> = nodes.iter().flat_map(|node| message(1, node)).collect();
    Ok([nodes, concrete("inner"), concrete("outer")].concat())
}

struct Function<'a, 'u> {
    u: &'a mut Unstructured<'u>,
    nodes: Vec<Vec<u8>>,
}

type Attributes<'a> = &'a [(&'a str, Vec<u8>)];

impl Function<'_, '_> {
    /// Adds an operation, now and then another than is asked for; what it makes.
    fn push(&mut self, op: &str, mut inputs: Vec<String>, attributes: Attributes) -> Result<String> {
        let count = self.nodes.len();
        let op = match rarely(self.u, 40)? {
            true => *self.u.choose(&ANY)?,
            false => op,
        };
        if rarely(self.u, 40)? {
            let other = self.u.int_in_range(0..=count)?;
            let other = ["x".to_owned(), format!("n{other}:y:0"), format!("n{other}:y:1"), "^x".to_owned()];
            inputs.truncate(self.u.int_in_range(0..=inputs.len())?);
            inputs.push(self.u.choose(&other)?.clone());
        }
        let drop = rarely(self.u, 40)?;
        let mut node = [message(1, format!("n{count}").as_bytes()), message(2, op.as_bytes())].concat();
        node.extend(inputs.iter().flat_map(|input| message(3, input.as_bytes())));
        for (name, value) in attributes.iter().skip(usize::from(drop)) {
            node.extend(message(5, &[message(1, name.as_bytes()), message(2, value)].concat()));
        }
        self.nodes.push(node);
        Ok(format!("n{count}:y:0"))
    }

    fn unary(&mut self, op: &str, input: &str) -> Result<String> {
        self.push(op, vec![input.to_owned()], &[])
    }

    fn binary(&mut self, op: &str, left: &str, right: &str) -> Result<String> {
        self.push(op, vec![left.to_owned(), right.to_owned()], &[])
    }

    /// Either side first.
    fn mixed(&mut self, op: &str, left: &str, right: &str) -> Result<String> {
        if self.u.arbitrary()? { self.binary(op, left, right) } else { self.binary(op, right, left) }
    }

    fn variable(&mut self, name: &str) -> Result<String> {
        let read = self.unary("ReadVariableOp", &format!("r_{name}"))?;
        match self.u.int_in_range(0..=9)? {
            9 => self.cast(&read),
            8 => {
                let shape = self.integers(&[1, 4])?;
                self.binary("Reshape", &read, &shape)
            }
            _ => Ok(read),
        }
    }

    fn cast(&mut self, input: &str) -> Result<String> {
        let to = *self.u.choose(&[1, 2, 14, 19, 3])?;
        self.push("Cast", vec![input.to_owned()], &[("DstT", number(6, to))])
    }

    fn integers(&mut self, values: &[i64]) -> Result<String> {
        let raw: Vec<u8> = values.iter().flat_map(|value| (*value as i32).to_le_bytes()).collect();
        let packed: Vec<u8> = values.iter().flat_map(|value| varint(*value as usize)).collect();
        let shape = message(2, &message(2, &number(1, values.len() as u64)));
        let (dtype, values) = match self.u.int_in_range(0..=3)? {
            0 => (3, message(4, &raw)),
            1 => (9, message(10, &packed)),
            _ => (3, message(7, &packed)),
        };
        self.push("Const", Vec::new(), &[("value", message(8, &[number(1, dtype), shape, values].concat()))])
    }

    fn float(&mut self, value: f32) -> Result<String> {
        let (dtype, values) = match self.u.int_in_range(0..=3)? {
            0 => (1, message(4, &value.to_le_bytes())),
            1 => (2, message(6, &f64::from(value).to_le_bytes())),
            _ => (1, message(5, &value.to_le_bytes())),
        };
        self.push("Const", Vec::new(), &[("value", message(8, &[number(1, dtype), values].concat()))])
    }

    /// The shape that the function says its input has.
    fn shape(&mut self) -> Result<Vec<u8>> {
        let dims: &[i64] = self.u.choose(&[&[-1, 6][..], &[-1, 5, 5, 2], &[-1, -1, -1, 2], &[-1, 4], &[]])?;
        let dims: Vec<u8> = dims.iter().flat_map(|dim| message(2, &number(1, *dim as u64))).collect();
        Ok(match self.u.int_in_range(0..=3)? {
            0 => message(7, &dims),
            1 => message(7, &number(3, 1)),
            _ => message(1, &message(7, &dims)),
        })
    }

    /// A step of a chain after `last`.
    fn layer(&mut self, last: String) -> Result<String> {
        match self.u.int_in_range(0..=11)? {
            0 | 1 => self.linear(&last),
            2 => self.pool(last),
            3 => {
                let axes = self.integers(&[1, 2])?;
                let keep = number(5, self.u.int_in_range(0..=1)?);
                self.push("Mean", vec![last, axes], &[("keep_dims", keep)])
            }
            4 => self.flatten(&last),
            5 => {
                let roles = ["gamma", "beta", "moving_mean", "moving_variance"];
                let mut inputs = vec![last];
                for role in roles {
                    inputs.push(self.variable(role)?);
                }
                let attributes = [("is_training", number(5, 0)), ("epsilon", float(4, 0.001))];
                self.push("FusedBatchNormV3", inputs, &attributes)
            }
            6 => self.normalization(&last),
            7 => self.gelu(&last),
            8 => self.cast(&last),
            _ => {
                let op = *self.u.choose(&UNARY)?;
                self.push(op, vec![last], &[("alpha", float(4, 0.25))])
            }
        }
    }

    fn linear(&mut self, last: &str) -> Result<String> {
        let weight = *self.u.choose(&["dense", "next", "conv", "bias"])?;
        let kernel = self.variable(weight)?;
        let made = match weight {
            "conv" => {
                let window = self.window()?;
                self.push("Conv2D", vec![last.to_owned(), kernel], &window)?
            }
            _ => {
                let flag = *self.u.choose(&["transpose_b", "transpose_b", "transpose_a"])?;
                let transposed = number(5, self.u.ratio(1, 8)?.into());
                self.push("MatMul", vec![last.to_owned(), kernel], &[(flag, transposed)])?
            }
        };
        if self.u.arbitrary()? {
            return Ok(made);
        }
        let bias = self.variable("bias")?;
        match self.u.arbitrary()? {
            true => self.binary("BiasAdd", &made, &bias),
            false => self.mixed("AddV2", &made, &bias),
        }
    }

    fn window(&mut self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let stride = self.u.int_in_range(1..=3)?;
        let list = |values: &[usize]| {
            message(1, &message(3, &values.iter().flat_map(|value| varint(*value)).collect::<Vec<u8>>()))
        };
        let padding = *self.u.choose(&["SAME", "VALID", "EXPLICIT"])?;
        let format = *self.u.choose(&["NHWC", "NHWC", "NHWC", "NCHW"])?;
        Ok(vec![
            ("strides", list(&[1, stride, stride, 1])),
            ("ksize", list(&[1, 2, stride, 1])),
            ("dilations", list(&[1, 1, *self.u.choose(&[1, 1, 2])?, 1])),
            ("padding", message(2, padding.as_bytes())),
            ("data_format", message(2, format.as_bytes())),
        ])
    }

    fn pool(&mut self, last: String) -> Result<String> {
        let window = self.window()?;
        let op = *self.u.choose(&["MaxPool", "AvgPool"])?;
        self.push(op, vec![last], &window)
    }

    fn flatten(&mut self, last: &str) -> Result<String> {
        let features = *self.u.choose(&[-1, 100, 4, 6, 36])?;
        if self.u.arbitrary()? {
            let shape = self.integers(&[-1, features])?;
            return self.binary("Reshape", last, &shape);
        }
        let shape = self.unary("Shape", last)?;
        let (from, to) = (self.integers(&[0])?, self.integers(&[1])?);
        let batch = self.push("StridedSlice", vec![shape, from, to.clone(), to], &[])?;
        let batch = if self.u.ratio(1, 4)? { self.integers(&[-1])? } else { batch };
        let features = self.integers(&[features])?;
        let packed = self.push("Pack", vec![batch, features], &[("N", number(3, 2))])?;
        self.binary("Reshape", last, &packed)
    }

    /// Batch normalization spelled out.
    fn normalization(&mut self, last: &str) -> Result<String> {
        let (epsilon, variance) = (self.float(0.001)?, self.variable("moving_variance")?);
        let sum = self.binary("AddV2", &variance, &epsilon)?;
        let (root, gamma) = (self.unary("Rsqrt", &sum)?, self.variable("gamma")?);
        let scale = self.binary("Mul", &root, &gamma)?;
        let (mean, beta) = (self.variable("moving_mean")?, self.variable("beta")?);
        let scaled = self.binary("Mul", last, &scale)?;
        let moved = self.binary("Mul", &mean, &scale)?;
        let shift = self.binary("Sub", &beta, &moved)?;
        self.binary("AddV2", &scaled, &shift)
    }

    /// Gelu spelled out, in each of its ways.
    fn gelu(&mut self, x: &str) -> Result<String> {
        const ROOT: f32 = std::f32::consts::FRAC_1_SQRT_2;
        let (half, one) = (self.float(0.5)?, self.float(1.0)?);
        let way = self.u.int_in_range(0..=4)?;
        let gate = match way {
            0 => {
                let (negative, root) = (self.unary("Neg", x)?, self.float(ROOT)?);
                let product = self.mixed("Mul", &negative, &root)?;
                self.unary("Erfc", &product)?
            }
            1 | 2 => {
                let root = self.float(if way == 1 { ROOT } else { std::f32::consts::SQRT_2 })?;
                let product = match way {
                    1 => self.mixed("Mul", x, &root)?,
                    _ => self.binary("RealDiv", x, &root)?,
                };
                let erf = self.unary("Erf", &product)?;
                self.mixed("AddV2", &one, &erf)?
            }
            _ => {
                let power = match way {
                    3 => {
                        let three = self.float(3.0)?;
                        self.binary("Pow", x, &three)?
                    }
                    _ => {
                        let square = self.binary("Mul", x, x)?;
                        self.mixed("Mul", &square, x)?
                    }
                };
                let (little, root) = (self.float(0.044_715)?, self.float(0.797_884_6)?);
                let cube = self.mixed("Mul", &power, &little)?;
                let sum = self.mixed("AddV2", x, &cube)?;
                let product = self.mixed("Mul", &sum, &root)?;
                let tanh = self.unary("Tanh", &product)?;
                self.mixed("AddV2", &one, &tanh)?
            }
        };
        let first = self.mixed("Mul", &half, x)?;
        self.mixed("Mul", &first, &gate)
    }
}
