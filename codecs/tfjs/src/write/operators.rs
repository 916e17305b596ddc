//! Operators as nodes of a GraphDef, in the form that JSON has of it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ckpt_api::{DType, Error, Result};
use ckpt_tf_operators::{Activation, Binary, ModelTensor, Operator, Reduction, Step, Unary, Window};
use serde_json::{Map, Value, json};

/// The nodes of one step. The last one has its results.
pub(super) struct Nodes<'m> {
    pub(super) tensors: &'m [ModelTensor],
    /// What refers to each tensor: a node, or a node and the number of its result.
    pub(super) references: &'m [String],
    /// A number, as a constant of the graph: its name is returned.
    pub(super) constant: &'m mut dyn FnMut(i32) -> String,
    /// A name for a node before the last one.
    pub(super) name: &'m mut dyn FnMut(&str) -> String,
    pub(super) made: Vec<Value>,
}

impl Nodes<'_> {
    /// Adds the nodes of a step, of which the last has this name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for what TensorFlow.js does not have.
    pub(super) fn add(&mut self, step: &Step, name: &str) -> Result<()> {
        let mut inputs = Vec::with_capacity(step.inputs.len());
        for input in step.inputs.iter().flatten() {
            inputs.push(self.references.get(*input).cloned().ok_or_else(no_tensor)?);
        }
        let first = step.inputs.first().copied().flatten();
        match &step.operator {
            Operator::Dense => self.dense(step, name, inputs)?,
            Operator::Conv(window) if window.strides.len() == 2 => {
                let own = Layer { plain: "Conv2D", fused: Some("_FusedConv2D"), attributes: sides(window) };
                self.layer(step, name, inputs, own)?;
            }
            Operator::Conv(window) => {
                let own = Layer { plain: "Conv3D", fused: None, attributes: sides(window) };
                self.layer(step, name, inputs, own)?;
            }
            Operator::DepthwiseConv { window, .. } => {
                let fused = Some("FusedDepthwiseConv2dNative");
                let own = Layer { plain: "DepthwiseConv2dNative", fused, attributes: sides(window) };
                self.layer(step, name, inputs, own)?;
            }
            Operator::ConvTranspose(window) => {
                // The images come before the bias.
                let own = Layer { plain: "Conv2DBackpropInput", fused: None, attributes: sides(window) };
                self.layer(step, name, inputs, own)?;
            }
            own => {
                let dtype =
                    first.and_then(|input| self.tensors.get(input)).map_or(DType::F32, |own| own.dtype);
                let to = step.outputs.first().and_then(|output| self.tensors.get(*output));
                let (op, attributes) = self.plain(own, dtype, to, &mut inputs)?;
                self.active(op, name, inputs, attributes, step.activation)?;
            }
        }
        Ok(())
    }

    /// Adds a node, and one for its activation.
    fn active(
        &mut self,
        op: &str,
        name: &str,
        inputs: Vec<String>,
        attributes: Map<String, Value>,
        activation: Activation,
    ) -> Result<()> {
        match activated(activation)? {
            None => self.made.push(node(op, name, &inputs, attributes)),
            Some(follower) => {
                let inner = (self.name)(&format!("{name}/{op}"));
                self.made.push(node(op, &inner, &inputs, attributes));
                self.made.push(node(follower, name, &[inner], typed(DType::F32)));
            }
        }
        Ok(())
    }

    /// Rows times a matrix; values of more axes are matrices of a batch.
    fn dense(&mut self, step: &Step, name: &str, inputs: Vec<String>) -> Result<()> {
        let rank = step.inputs.first().copied().flatten().and_then(|input| self.tensors.get(input));
        let own = match rank.is_some_and(|tensor| tensor.shape.len() > 2) {
            true => Layer {
                plain: "BatchMatMulV2",
                fused: None,
                attributes: with(typed(DType::F32), [("adj_x", flag(false)), ("adj_y", flag(false))]),
            },
            false => Layer {
                plain: "MatMul",
                fused: Some("_FusedMatMul"),
                attributes: with(
                    typed(DType::F32),
                    [("transpose_a", flag(false)), ("transpose_b", flag(false))],
                ),
            },
        };
        self.layer(step, name, inputs, own)
    }

    /// A layer with a bias and an activation: one node if TensorFlow.js has it, or one for each.
    fn layer(&mut self, step: &Step, name: &str, mut inputs: Vec<String>, own: Layer) -> Result<()> {
        let count = if matches!(step.operator, Operator::ConvTranspose(_)) { 3 } else { 2 };
        let bias = inputs.split_off(count.min(inputs.len()));
        let Some(bias) = bias.into_iter().next() else {
            return self.active(own.plain, name, inputs, own.attributes, step.activation);
        };
        let activation = activated(step.activation)?;
        match own.fused {
            Some(fused) => {
                let names: Vec<Value> = std::iter::once("BiasAdd")
                    .chain(activation)
                    .map(|name| STANDARD.encode(name).into())
                    .collect();
                let fusing = [
                    ("fused_ops", json!({ "list": { "s": names } })),
                    ("num_args", int(1)),
                    ("epsilon", json!({ "f": 0.0 })),
                ];
                inputs.push(bias);
                self.made.push(node(fused, name, &inputs, with(own.attributes, fusing)));
            }
            None => {
                let inner = (self.name)(&format!("{name}/{}", own.plain));
                self.made.push(node(own.plain, &inner, &inputs, own.attributes));
                self.active("AddV2", name, vec![inner, bias], typed(DType::F32), step.activation)?;
            }
        }
        Ok(())
    }

    /// The operation and the attributes of an operator that is one node. What TensorFlow takes as an input is added.
    fn plain(
        &mut self,
        operator: &Operator,
        dtype: DType,
        to: Option<&ModelTensor>,
        inputs: &mut Vec<String>,
    ) -> Result<(&'static str, Map<String, Value>)> {
        let own = || typed(dtype);
        Ok(match operator {
            Operator::Unary(function) => (unary(*function)?, own()),
            Operator::Binary(function) => (binary(*function)?, own()),
            Operator::LeakyRelu { alpha } => ("LeakyRelu", with(own(), [("alpha", json!({ "f": alpha }))])),
            Operator::Select => ("SelectV2", typed(to.map_or(DType::F32, |to| to.dtype))),
            Operator::Cast => {
                let to = to.map_or(DType::F32, |to| to.dtype);
                ("Cast", with(Map::new(), [("SrcT", kind(dtype)), ("DstT", kind(to))]))
            }
            Operator::Reduce { by, keeps } => (reduction(*by), with(own(), [("keep_dims", flag(*keeps))])),
            Operator::Place { is_greatest } => {
                let op = if *is_greatest { "ArgMax" } else { "ArgMin" };
                (op, with(own(), [("output_type", kind(DType::I32))]))
            }
            Operator::Softmax => ("Softmax", own()),
            Operator::LogSoftmax => ("LogSoftmax", own()),
            Operator::BatchMatMul => {
                ("BatchMatMulV2", with(own(), [("adj_x", flag(false)), ("adj_y", flag(false))]))
            }
            Operator::Pool { is_mean, kernel, window } => {
                let op = match (is_mean, kernel.len()) {
                    (true, 2) => "AvgPool",
                    (false, 2) => "MaxPool",
                    (true, _) => "AvgPool3D",
                    (false, _) => "MaxPool3D",
                };
                let mut attributes = with(sides(window), [("ksize", around(kernel))]);
                attributes.remove("dilations");
                (op, attributes)
            }
            Operator::Gather { axis } => {
                inputs.push((self.constant)(*axis));
                let attributes = [
                    ("Tparams", kind(dtype)),
                    ("Tindices", kind(DType::I32)),
                    ("Taxis", kind(DType::I32)),
                    ("batch_dims", int(0)),
                ];
                ("GatherV2", with(Map::new(), attributes))
            }
            Operator::Reshape { .. } => ("Reshape", with(own(), [("Tshape", kind(DType::I32))])),
            Operator::Transpose => ("Transpose", with(own(), [("Tperm", kind(DType::I32))])),
            Operator::Concat { axis } => {
                let count = i64::try_from(inputs.len()).unwrap_or(i64::MAX);
                inputs.push((self.constant)(*axis));
                ("ConcatV2", with(own(), [("N", int(count)), ("Tidx", kind(DType::I32))]))
            }
            Operator::StridedSlice { begin_mask, end_mask } => {
                let masks = [
                    ("Index", kind(DType::I32)),
                    ("begin_mask", int((*begin_mask).into())),
                    ("end_mask", int((*end_mask).into())),
                    ("ellipsis_mask", int(0)),
                    ("new_axis_mask", int(0)),
                    ("shrink_axis_mask", int(0)),
                ];
                ("StridedSlice", with(own(), masks))
            }
            Operator::Split => ("SplitV", with(own(), [("Tlen", kind(DType::I32))])),
            Operator::Pad => ("Pad", with(own(), [("Tpaddings", kind(DType::I32))])),
            Operator::PadWith => ("PadV2", with(own(), [("Tpaddings", kind(DType::I32))])),
            Operator::Tile => ("Tile", with(own(), [("Tmultiples", kind(DType::I32))])),
            Operator::BroadcastTo => ("BroadcastTo", with(own(), [("Tidx", kind(DType::I32))])),
            Operator::DepthToSpace { size } => {
                let attributes = [("block_size", int((*size).into())), ("data_format", text("NHWC"))];
                ("DepthToSpace", with(own(), attributes))
            }
            Operator::Resize { is_linear, corners, half } => {
                let op = if *is_linear { "ResizeBilinear" } else { "ResizeNearestNeighbor" };
                let flags = [("align_corners", flag(*corners)), ("half_pixel_centers", flag(*half))];
                (op, with(own(), flags))
            }
            Operator::Shape => ("Shape", with(own(), [("out_type", kind(DType::I32))])),
            other => return Err(lacking(&format!("{other:?}"))),
        })
    }
}

/// A layer as one node, and as several.
struct Layer {
    plain: &'static str,
    fused: Option<&'static str>,
    attributes: Map<String, Value>,
}

/// A node of a GraphDef.
pub(super) fn node(op: &str, name: &str, inputs: &[String], attributes: Map<String, Value>) -> Value {
    let mut node = json!({ "name": name, "op": op, "attr": attributes });
    if let (Some(node), false) = (node.as_object_mut(), inputs.is_empty()) {
        node.insert("input".to_owned(), json!(inputs));
    }
    node
}

/// A dtype as an attribute.
pub(super) fn kind(dtype: DType) -> Value {
    json!({ "type": dtype_name(dtype) })
}

/// What a GraphDef calls a dtype.
pub(super) fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::I32 => "DT_INT32",
        DType::Bool => "DT_BOOL",
        _ => "DT_FLOAT",
    }
}

fn no_tensor() -> Error {
    Error::defect("a step takes a tensor that does not exist")
}

fn lacking(what: &str) -> Error {
    Error::unsupported("TensorFlow.js lacks an operator").found(what.to_owned())
}

fn typed(dtype: DType) -> Map<String, Value> {
    with(Map::new(), [("T", kind(dtype))])
}

fn with<const N: usize>(mut attributes: Map<String, Value>, more: [(&str, Value); N]) -> Map<String, Value> {
    attributes.extend(more.map(|(name, value)| (name.to_owned(), value)));
    attributes
}

fn flag(value: bool) -> Value {
    json!({ "b": value })
}

/// Integers of 64 bits are texts in JSON.
fn int(value: i64) -> Value {
    json!({ "i": value.to_string() })
}

fn text(value: &str) -> Value {
    json!({ "s": STANDARD.encode(value) })
}

/// Numbers of the sides of a window, with 1 for the batch and for the channels.
fn around(all: &[i32]) -> Value {
    let all = std::iter::once(&1).chain(all).chain(&[1]);
    json!({ "list": { "i": all.map(ToString::to_string).collect::<Vec<String>>() } })
}

fn sides(window: &Window) -> Map<String, Value> {
    let is_volume = window.strides.len() > 2;
    let attributes = [
        ("strides", around(&window.strides)),
        ("dilations", around(&window.dilations)),
        ("padding", text(if window.is_padded { "SAME" } else { "VALID" })),
        ("data_format", text(if is_volume { "NDHWC" } else { "NHWC" })),
    ];
    with(typed(DType::F32), attributes)
}

fn activated(activation: Activation) -> Result<Option<&'static str>> {
    Ok(match activation {
        Activation::None => None,
        Activation::Relu => Some("Relu"),
        Activation::Relu6 => Some("Relu6"),
        Activation::ReluN1To1 => return Err(lacking("ReluN1To1")),
    })
}

fn unary(own: Unary) -> Result<&'static str> {
    Ok(match own {
        Unary::Abs => "Abs",
        Unary::Ceil => "Ceil",
        Unary::Cos => "Cos",
        Unary::Elu => "Elu",
        Unary::Erf => "Erf",
        Unary::Exp => "Exp",
        Unary::Floor => "Floor",
        Unary::Log => "Log",
        Unary::Neg => "Neg",
        Unary::Not => "LogicalNot",
        Unary::Relu => "Relu",
        Unary::Relu6 => "Relu6",
        Unary::Round => "Round",
        Unary::Sigmoid => "Sigmoid",
        Unary::Sign => "Sign",
        Unary::Sin => "Sin",
        Unary::Softplus => "Softplus",
        Unary::Sqrt => "Sqrt",
        Unary::Tanh => "Tanh",
        Unary::GeluByErf | Unary::GeluByTanh | Unary::HardSwish | Unary::ReluN1To1 => {
            return Err(lacking(&format!("{own:?}")));
        }
    })
}

fn binary(own: Binary) -> Result<&'static str> {
    Ok(match own {
        Binary::Add => "AddV2",
        Binary::Sub => "Sub",
        Binary::Mul => "Mul",
        Binary::Div => "RealDiv",
        Binary::Maximum => "Maximum",
        Binary::Minimum => "Minimum",
        Binary::Pow => "Pow",
        Binary::Equal => "Equal",
        Binary::Less => "Less",
        Binary::LessEqual => "LessEqual",
        Binary::Greater => "Greater",
        Binary::GreaterEqual => "GreaterEqual",
        Binary::And => "LogicalAnd",
        Binary::Or => "LogicalOr",
        Binary::PRelu => return Err(lacking("PRelu")),
    })
}

fn reduction(by: Reduction) -> &'static str {
    match by {
        Reduction::Mean => "Mean",
        Reduction::Sum => "Sum",
        Reduction::Prod => "Prod",
        Reduction::Max => "Max",
        Reduction::Min => "Min",
    }
}
