//! Builds protobuf messages for tests.

use super::super::{Description, Sources, TensorInfo, describe};
use crate::proto::attr_value::{ListValue, Value};
use crate::proto::function_def::ArgAttrs;
use crate::proto::op_def::ArgDef;
use crate::proto::saved_object::Kind;
use crate::proto::trackable_object_graph::TrackableObject;
use crate::proto::trackable_object_graph::trackable_object::{
    ObjectReference, SerializedTensor, SlotVariableReference,
};
use crate::proto::{
    AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, MetaGraphDef, NameAttrList, NodeDef, OpDef,
    SavedBareConcreteFunction, SavedConcreteFunction, SavedModel, SavedObject, SavedObjectGraph, TensorProto,
    TensorShapeProto, TrackableObjectGraph, tensor_shape_proto,
};
use ckpt_api::{DType, Limits, Shape};
use prost::Message;
use prost::bytes::Bytes;

pub(super) type Owned = Vec<(String, DType, Shape)>;

/// Entries of an index.
pub(super) fn entries(list: &[(&str, DType, &[u64])]) -> Owned {
    list.iter().map(|(key, dtype, dims)| ((*key).to_owned(), *dtype, Shape::new(*dims).unwrap())).collect()
}

pub(super) fn describe_with(
    list: &Owned,
    object_graph: Option<&[u8]>,
    saved_model: Option<&[u8]>,
    keras_metadata: Option<&[u8]>,
) -> Description {
    let entries: Vec<TensorInfo> =
        list.iter().map(|(key, dtype, shape)| TensorInfo { key, dtype: *dtype, shape }).collect();
    let saved_model = saved_model.map(Bytes::copy_from_slice);
    let saved_model = saved_model.as_ref();
    let sources = Sources {
        object_graph,
        saved_model,
        keras_metadata,
        meta_graph: None,
        assume_chain: false,
        file: "ckpt.index",
    };
    describe(&entries, &sources, &Limits::default()).unwrap()
}

/// Describes f32 tensors, or i64 if their key ends in `iter` or `counter`, with an object graph.
pub(super) fn run(shapes: &[(&str, &[u64])], objects: &Objects) -> Description {
    describe_with(&typed(shapes), Some(&objects.bytes()), None, None)
}

pub(super) fn typed(shapes: &[(&str, &[u64])]) -> Owned {
    let dtype =
        |key: &str| if key.ends_with("iter") || key.ends_with("counter") { DType::I64 } else { DType::F32 };
    shapes.iter().map(|(key, dims)| ((*key).to_owned(), dtype(key), Shape::new(*dims).unwrap())).collect()
}

/// An object graph with its root.
#[derive(Clone)]
pub(super) struct Objects(pub TrackableObjectGraph);

impl Default for Objects {
    fn default() -> Self {
        Objects(TrackableObjectGraph { nodes: vec![TrackableObject::default()] })
    }
}

impl Objects {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }

    pub fn add(&mut self) -> usize {
        self.0.nodes.push(TrackableObject::default());
        self.0.nodes.len() - 1
    }

    pub fn link(&mut self, parent: usize, name: &str, child: usize) {
        let node_id = i32::try_from(child).unwrap();
        self.0.nodes[parent].children.push(ObjectReference { node_id, local_name: name.to_owned() });
    }

    pub fn child(&mut self, parent: usize, name: &str) -> usize {
        let child = self.add();
        self.link(parent, name, child);
        child
    }

    pub fn store(&mut self, id: usize, full_name: &str, key: &str) {
        self.0.nodes[id].attributes.push(SerializedTensor {
            name: "VARIABLE_VALUE".to_owned(),
            full_name: full_name.to_owned(),
            checkpoint_key: key.to_owned(),
        });
    }

    pub fn variable(&mut self, parent: usize, name: &str, full_name: &str, key: &str) -> usize {
        let child = self.child(parent, name);
        self.store(child, full_name, key);
        child
    }

    pub fn slot(&mut self, optimizer: usize, original: usize, name: &str, slot: usize) {
        self.0.nodes[optimizer].slot_variables.push(SlotVariableReference {
            original_variable_node_id: i32::try_from(original).unwrap(),
            slot_name: name.to_owned(),
            slot_variable_node_id: i32::try_from(slot).unwrap(),
        });
    }

    pub fn find(&self, path: &[&str]) -> usize {
        path.iter().fold(0, |id, name| {
            let child = self.0.nodes[id].children.iter().find(|child| child.local_name == *name).unwrap();
            usize::try_from(child.node_id).unwrap()
        })
    }
}

fn value(value: Value) -> AttrValue {
    AttrValue { value: Some(value) }
}

/// An operation.
pub(super) fn op(name: &str, op: &str, inputs: &[&str]) -> NodeDef {
    let input = inputs.iter().map(|input| (*input).to_owned()).collect();
    NodeDef { name: name.to_owned(), op: op.to_owned(), input, ..NodeDef::default() }
}

pub(super) fn with(mut node: NodeDef, name: &str, attribute: Value) -> NodeDef {
    node.attr.insert(name.to_owned(), value(attribute));
    node
}

pub(super) fn ints(values: &[i64]) -> Value {
    Value::List(ListValue { i: values.to_vec(), ..ListValue::default() })
}

pub(super) fn call(name: &str, function: &str, inputs: &[&str]) -> NodeDef {
    let function = NameAttrList { name: function.to_owned() };
    with(op(name, "StatefulPartitionedCall", inputs), "f", Value::Func(function))
}

/// A constant of int32 values.
pub(super) fn constant(name: &str, values: &[i32]) -> NodeDef {
    let tensor = TensorProto {
        dtype: 3,
        tensor_shape: Some(shape(&[i64::try_from(values.len()).unwrap()])),
        int_val: values.to_vec(),
        ..TensorProto::default()
    };
    with(op(name, "Const", &[]), "value", Value::Tensor(tensor))
}

/// A scalar constant of type float.
pub(super) fn float(name: &str, number: f32) -> NodeDef {
    let tensor = TensorProto {
        dtype: 1,
        tensor_shape: Some(shape(&[])),
        float_val: vec![number],
        ..TensorProto::default()
    };
    with(op(name, "Const", &[]), "value", Value::Tensor(tensor))
}

/// A constant of float32 values, stored as bytes.
pub(super) fn floats(name: &str, dims: &[i64], values: &[f32]) -> NodeDef {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let tensor = TensorProto {
        dtype: 1,
        tensor_shape: Some(shape(dims)),
        tensor_content: bytes.into(),
        ..TensorProto::default()
    };
    with(op(name, "Const", &[]), "value", Value::Tensor(tensor))
}

fn shape(dims: &[i64]) -> TensorShapeProto {
    let dim = dims.iter().map(|size| tensor_shape_proto::Dim { size: *size, ..Default::default() }).collect();
    TensorShapeProto { dim, ..TensorShapeProto::default() }
}

/// A function whose only result is `result`.
pub(super) fn function(name: &str, arguments: &[&str], result: &str, nodes: Vec<NodeDef>) -> FunctionDef {
    let argument = |name: &str| ArgDef { name: name.to_owned(), ..ArgDef::default() };
    FunctionDef {
        signature: Some(OpDef {
            name: name.to_owned(),
            input_arg: arguments.iter().map(|name| argument(name)).collect(),
            output_arg: vec![argument("out")],
        }),
        node_def: nodes,
        ret: [("out".to_owned(), result.to_owned())].into(),
        ..FunctionDef::default()
    }
}

/// Adds a stated shape of the first argument to a function.
pub(super) fn taking(mut function: FunctionDef, dims: &[i64]) -> FunctionDef {
    let list = ListValue { shape: vec![shape(dims)], ..ListValue::default() };
    let attr = [("_output_shapes".to_owned(), value(Value::List(list)))].into();
    function.arg_attr.insert(0, ArgAttrs { attr });
    function
}

/// A SavedModel whose serving function is the first of `functions`, bound to the root's children `bound`.
pub(super) fn saved_model(functions: Vec<FunctionDef>, bound: &[&str]) -> Vec<u8> {
    let serving = functions[0].signature.as_ref().unwrap().name.clone();
    let reference = |node_id: usize, name: &str| ObjectReference {
        node_id: i32::try_from(node_id).unwrap(),
        local_name: name.to_owned(),
    };
    let mut nodes = vec![SavedObject::default(); bound.len() + 3];
    let (signatures, bare) = (bound.len() + 1, bound.len() + 2);
    nodes[0].children = bound.iter().enumerate().map(|(at, name)| reference(at + 1, name)).collect();
    nodes[0].children.push(reference(signatures, "signatures"));
    nodes[signatures].children = vec![reference(bare, "serving_default")];
    nodes[bare].kind = Some(Kind::BareConcreteFunction(SavedBareConcreteFunction {
        concrete_function_name: serving.clone(),
    }));
    let bound_inputs = (1..=i32::try_from(bound.len()).unwrap()).collect();
    let objects = SavedObjectGraph {
        nodes,
        concrete_functions: [(serving, SavedConcreteFunction { bound_inputs })].into(),
    };
    let graph = GraphDef { library: Some(FunctionDefLibrary { function: functions }), ..GraphDef::default() };
    let meta =
        MetaGraphDef { graph_def: Some(graph), object_graph_def: Some(objects), ..MetaGraphDef::default() };
    SavedModel { meta_graphs: vec![meta] }.encode_to_vec()
}
