//! A graph of TensorFlow, of the JSON that `model.json` has.
//!
//! A constant that is a weight becomes a variable: its name is that of a tensor. A small one that decides shapes or places gets its
//! value. The converter's fused operations become those that they were made of.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ckpt_tf_graph::proto::attr_value::{ListValue, Value as Attribute};
use ckpt_tf_graph::proto::tensor_shape_proto::Dim;
use ckpt_tf_graph::proto::{
    AttrValue, DataType, GraphDef, NodeDef, SignatureDef, TensorInfo, TensorProto, TensorShapeProto,
};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Axes of a shape, at most.
const MOST_AXES: usize = 64;

/// Why there is no graph, as a clause.
pub(super) type Reason = String;

/// What a constant of the graph is.
pub(super) enum Constant<'a> {
    /// A tensor that has a name.
    Weight,
    /// Its elements, little-endian.
    Value(&'a [u8]),
}

/// Reads the nodes of a topology; `constant` tells what the constant of a name is.
///
/// # Errors
/// The reason, for a node that is no node.
pub(super) fn graph<'a>(
    topology: &Value,
    constant: impl Fn(&str) -> Option<Constant<'a>>,
) -> Result<GraphDef, Reason> {
    let listed = topology.get("node").and_then(Value::as_array).ok_or("its nodes are no list")?;
    let mut nodes = Vec::with_capacity(listed.len());
    for value in listed {
        let node = node(value).ok_or("a node of the graph is not understood")?;
        match (node.op.as_str(), constant(&node.name)) {
            ("Const", Some(Constant::Weight)) => {
                nodes.push(NodeDef { op: "VariableV2".to_owned(), input: Vec::new(), ..node });
            }
            ("Const", Some(Constant::Value(bytes))) => nodes.push(with_value(node, bytes)),
            ("Const", None) if !has_value(&node) => {
                return Err(format!("the manifest lacks the constant '{}'", shown(&node.name)));
            }
            (op, _) => match fused(op) {
                Some(core) => {
                    let fused = fused_operations(value)?;
                    nodes.extend(expanded(node, core, &fused)?);
                }
                None => nodes.push(node),
            },
        }
    }
    Ok(GraphDef { node: nodes, library: None })
}

/// Reads the inputs and outputs that a model states, or takes them from the graph.
pub(super) fn signature(model: &Value, graph: &GraphDef) -> SignatureDef {
    let stated = |key: &str| -> Option<HashMap<String, TensorInfo>> {
        let map = model.get("signature")?.get(key)?.as_object().filter(|map| !map.is_empty())?;
        map.iter().map(|(name, value)| Some((name.clone(), info(value)?))).collect()
    };
    let (inputs, outputs) = match (stated("inputs"), stated("outputs")) {
        (Some(inputs), Some(outputs)) => (inputs, outputs),
        _ => ends(graph),
    };
    SignatureDef { inputs, outputs }
}

/// The placeholders of a graph, and the nodes that no other takes.
fn ends(graph: &GraphDef) -> (HashMap<String, TensorInfo>, HashMap<String, TensorInfo>) {
    let taken: HashSet<&str> =
        graph.node.iter().flat_map(|node| &node.input).map(|name| base(name)).collect();
    let (mut inputs, mut outputs) = (HashMap::new(), HashMap::new());
    for node in &graph.node {
        let name = format!("{}:0", node.name);
        let attribute = |key: &str| node.attr.get(key).and_then(|attribute| attribute.value.as_ref());
        if node.op.starts_with("Placeholder") {
            let dtype = match attribute("dtype") {
                Some(Attribute::Type(dtype)) => *dtype,
                _ => 0,
            };
            let tensor_shape = match attribute("shape") {
                Some(Attribute::Shape(shape)) => Some(shape.clone()),
                _ => None,
            };
            inputs.insert(node.name.clone(), TensorInfo { name, dtype, tensor_shape });
        } else if !taken.contains(node.name.as_str()) && node.op != "NoOp" {
            outputs.insert(node.name.clone(), TensorInfo { name, ..TensorInfo::default() });
        }
    }
    (inputs, outputs)
}

/// The node that a reference names.
fn base(reference: &str) -> &str {
    let name = reference.strip_prefix('^').unwrap_or(reference);
    name.split(':').next().unwrap_or(name)
}

fn info(value: &Value) -> Option<TensorInfo> {
    Some(TensorInfo {
        name: value.get("name")?.as_str()?.to_owned(),
        dtype: value.get("dtype").map_or(Some(0), dtype)?,
        tensor_shape: value.get("tensorShape").and_then(shape),
    })
}

fn node(value: &Value) -> Option<NodeDef> {
    let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
    let input = match value.get("input") {
        None => Vec::new(),
        Some(list) => {
            list.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?
        }
    };
    let none = Map::new();
    let attributes = value.get("attr").map_or(Some(&none), Value::as_object)?;
    // Attributes of kinds that no operation here is read by are left out.
    let attr = attributes
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), AttrValue { value: Some(attribute(value)?) })));
    Some(NodeDef { name: text("name")?, op: text("op")?, input, attr: attr.collect() })
}

fn attribute(value: &Value) -> Option<Attribute> {
    let (kind, value) = value.as_object()?.iter().next()?;
    Some(match kind.as_str() {
        "s" => Attribute::S(STANDARD.decode(value.as_str()?).ok()?.into()),
        "i" => Attribute::I(integer(value)?),
        // Written with as many digits as a 32-bit float has.
        "f" => Attribute::F(value.as_f64()? as f32),
        "b" => Attribute::B(value.as_bool()?),
        "type" => Attribute::Type(dtype(value)?),
        "shape" => Attribute::Shape(shape(value)?),
        "tensor" => Attribute::Tensor(TensorProto {
            dtype: value.get("dtype").map_or(Some(0), dtype)?,
            tensor_shape: value.get("tensorShape").and_then(shape),
            tensor_content: match value.get("tensorContent") {
                Some(text) => STANDARD.decode(text.as_str()?).ok()?.into(),
                None => Default::default(),
            },
            ..TensorProto::default()
        }),
        "list" => {
            let items = |key: &str| value.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            Attribute::List(ListValue {
                i: items("i").iter().map(integer).collect::<Option<_>>()?,
                shape: items("shape").iter().map(shape).collect::<Option<_>>()?,
            })
        }
        _ => return None,
    })
}

/// Integers of 64 bits are texts.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// Types are names, or their numbers.
fn dtype(value: &Value) -> Option<i32> {
    match value.as_str() {
        Some(name) => DataType::from_str_name(name).map(i32::from),
        None => i32::try_from(value.as_i64()?).ok(),
    }
}

fn shape(value: &Value) -> Option<TensorShapeProto> {
    let dims = value.get("dim").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let dim =
        |value: &Value| Some(Dim { size: value.get("size").map_or(Some(0), integer)?, name: String::new() });
    let unknown_rank = value.get("unknownRank").and_then(Value::as_bool).unwrap_or(false);
    let dim = dims.iter().map(dim).collect::<Option<Vec<_>>>().filter(|dims| dims.len() <= MOST_AXES)?;
    Some(TensorShapeProto { dim, unknown_rank })
}

fn has_value(node: &NodeDef) -> bool {
    let value = node.attr.get("value").and_then(|attribute| attribute.value.as_ref());
    match value {
        Some(Attribute::Tensor(tensor)) => {
            let is_empty = tensor.tensor_shape.iter().flat_map(|shape| &shape.dim).any(|dim| dim.size == 0);
            is_empty || !tensor.tensor_content.is_empty()
        }
        _ => true,
    }
}

/// Gives a constant its value. What is stored as an integer of 32 bits may be one of 64 in the graph.
fn with_value(mut node: NodeDef, bytes: &[u8]) -> NodeDef {
    let value = node.attr.get_mut("value").and_then(|attribute| attribute.value.as_mut());
    if let Some(Attribute::Tensor(tensor)) = value {
        tensor.tensor_content = match tensor.dtype == i32::from(DataType::DtInt64) {
            true => {
                let (halves, _) = bytes.as_chunks::<4>();
                let wide = |half: &[u8; 4]| i64::from(i32::from_le_bytes(*half)).to_le_bytes();
                halves.iter().flat_map(wide).collect()
            }
            false => bytes.to_vec().into(),
        };
    }
    node
}

/// The operation that a fused one begins with.
fn fused(op: &str) -> Option<&'static str> {
    match op {
        "_FusedMatMul" => Some("MatMul"),
        "_FusedConv2D" => Some("Conv2D"),
        "FusedDepthwiseConv2dNative" => Some("DepthwiseConv2dNative"),
        _ => None,
    }
}

/// The names of the operations that follow.
fn fused_operations(node: &Value) -> Result<Vec<String>, Reason> {
    let stated = || node.get("attr")?.get("fused_ops")?.get("list")?.get("s")?.as_array();
    let text = |value: &Value| String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok();
    let stated = stated().map_or(&[][..], Vec::as_slice);
    stated.iter().map(text).collect::<Option<_>>().ok_or_else(|| "fused operations have no names".to_owned())
}

/// Makes the operations of a fused one. The last has its name.
fn expanded(node: NodeDef, core: &str, fused: &[String]) -> Result<Vec<NodeDef>, Reason> {
    let NodeDef { name, op, input, attr } = node;
    let mut operands = input.iter().skip(2);
    let first = input.iter().take(2).cloned().collect();
    let named =
        |step: usize| if step == fused.len() { name.clone() } else { format!("{name}/{core}_{step}") };
    let mut made = vec![NodeDef { name: named(0), op: core.to_owned(), input: first, attr: attr.clone() }];
    for (step, follower) in (1..).zip(fused) {
        let before = made.last().map(|node| node.name.clone()).unwrap_or_default();
        let mut operand =
            || operands.next().cloned().ok_or_else(|| format!("'{}' lacks an operand", shown(&name)));
        let plain = |op: &str, input: Vec<String>, name: String| {
            let kept = attr.iter().filter(|(key, _)| matches!(key.as_str(), "T" | "data_format"));
            let attr = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
            NodeDef { name, op: op.to_owned(), input, attr }
        };
        match follower.as_str() {
            "BiasAdd" => made.push(plain("BiasAdd", vec![before, operand()?], named(step))),
            "Relu" | "Relu6" | "Elu" | "Sigmoid" | "Tanh" => {
                made.push(plain(follower, vec![before], named(step)));
            }
            "LeakyRelu" => {
                let mut node = plain("LeakyRelu", vec![before], named(step));
                if let Some(alpha) = attr.get("leakyrelu_alpha") {
                    node.attr.insert("alpha".to_owned(), alpha.clone());
                }
                made.push(node);
            }
            "Prelu" => {
                // relu(x) − alpha · relu(−x).
                let of = |part: &str| format!("{name}/{core}_{step}/{part}");
                made.push(plain("Neg", vec![before.clone()], of("neg")));
                made.push(plain("Relu", vec![of("neg")], of("below")));
                made.push(plain("Mul", vec![operand()?, of("below")], of("scaled")));
                made.push(plain("Relu", vec![before], of("above")));
                made.push(plain("Sub", vec![of("above"), of("scaled")], named(step)));
            }
            other => {
                return Err(format!("the operation {op} ('{}') contains {}", shown(&name), shown(other)));
            }
        }
    }
    Ok(made)
}

/// A name from the file, shortened for a message.
fn shown(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn base64(text: &str) -> String {
        STANDARD.encode(text)
    }

    #[test]
    fn a_fused_operation_becomes_those_that_it_was_made_of() {
        let topology = json!({ "node": [
            { "name": "x", "op": "Placeholder", "attr": { "dtype": { "type": "DT_FLOAT" } } },
            { "name": "w", "op": "Const", "attr": {} },
            { "name": "b", "op": "Const", "attr": {} },
            { "name": "y", "op": "_FusedMatMul", "input": ["x", "w", "b"],
              "attr": { "fused_ops": { "list": { "s": [base64("BiasAdd"), base64("Relu")] } }, "transpose_b": { "b": false } } },
        ] });
        let graph = graph(&topology, |name| (name != "x").then_some(Constant::Weight)).unwrap();
        let found: Vec<(&str, &str)> =
            graph.node.iter().map(|node| (node.name.as_str(), node.op.as_str())).collect();
        let expected = [
            ("x", "Placeholder"),
            ("w", "VariableV2"),
            ("b", "VariableV2"),
            ("y/MatMul_0", "MatMul"),
            ("y/MatMul_1", "BiasAdd"),
            ("y", "Relu"),
        ];
        assert_eq!(found, expected);
        assert_eq!(graph.node[4].input, ["y/MatMul_0", "b"]);
        let ends = ends(&graph);
        assert!(ends.0.contains_key("x") && ends.1.contains_key("y") && ends.1.len() == 1);
    }

    #[test]
    fn attributes_have_the_forms_of_json() {
        let read = |value: Value| attribute(&value).unwrap();
        assert_eq!(read(json!({ "s": base64("NHWC") })), Attribute::S("NHWC".into()));
        assert_eq!(read(json!({ "i": "-3" })), Attribute::I(-3));
        assert_eq!(read(json!({ "type": "DT_INT32" })), Attribute::Type(3));
        assert_eq!(
            read(json!({ "list": { "i": ["1", 2] } })),
            Attribute::List(ListValue { i: vec![1, 2], shape: vec![] })
        );
        let Attribute::Shape(shape) = read(json!({ "shape": { "dim": [{ "size": "-1" }, {}] } })) else {
            panic!()
        };
        assert_eq!(shape.dim.iter().map(|dim| dim.size).collect::<Vec<_>>(), [-1, 0]);
        assert!(attribute(&json!({ "s": "no base64!" })).is_none() && attribute(&json!({})).is_none());
    }

    #[test]
    fn a_constant_without_a_value_is_a_reason() {
        let topology = json!({ "node": [{ "name": "w", "op": "Const", "attr": { "value": { "tensor":
            { "dtype": "DT_FLOAT", "tensorShape": { "dim": [{ "size": "2" }] } } } } }] });
        assert!(graph(&topology, |_| None).unwrap_err().contains("'w'"));
        let made = graph(&topology, |_| Some(Constant::Value(&[0; 8]))).unwrap();
        assert!(has_value(&made.node[0]));
    }
}
