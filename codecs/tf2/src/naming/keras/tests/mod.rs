//! Rules of namings by layer, on checkpoints that the tests build.

mod graph;
mod optimizers;
mod recorded;
mod rules;

use super::*;
use crate::describe::{self, Description, OPTIMIZER_NUMBER, Sources};
use crate::format::{OBJECT_GRAPH, VARIABLE_VALUE};
use crate::naming::Assignment;
use crate::proto::TrackableObjectGraph;
use ckpt_api::{Attribute, Axis, DType, Graph, Limits, LossKind, Node, Op, Role, Shape, Slot, Tensor};
use prost::Message;

/// A float tensor.
fn tensor(name: &str, dims: &[u64]) -> Tensor {
    Tensor::new(name, DType::F32, Shape::new(dims).unwrap())
}

/// A chain of nodes.
fn checkpoint(model: &str, nodes: Vec<Node>, tensors: Vec<Tensor>) -> Checkpoint {
    let graph = Graph::sequential(model, vec![None, None], vec![None, None], nodes);
    Checkpoint { graph: Some(graph), tensors, ..Checkpoint::default() }
}

fn dense(name: &str) -> Node {
    let tensor = |variable: &str| format!("m/{name}/{variable}");
    Node::new(name, Op::Gemm).parameter("weight", tensor("kernel")).parameter("bias", tensor("bias"))
}

fn dense_tensors(name: &str) -> [Tensor; 2] {
    let kernel = tensor(&format!("m/{name}/kernel"), &[3, 3]).with_axes([Axis::In, Axis::Out]);
    [kernel, tensor(&format!("m/{name}/bias"), &[3]).with_axes([Axis::Out])]
}

/// A model `m` of `Dense(relu)` and `Dense(softmax)`.
fn mlp() -> Checkpoint {
    let nodes = vec![
        dense("dense"),
        Node::new("dense/activation", Op::Relu),
        dense("dense_1"),
        Node::new("dense_1/activation", Op::Softmax),
    ];
    checkpoint("m", nodes, ["dense", "dense_1"].map(dense_tensors).concat())
}

fn named(checkpoint: &Checkpoint, style: Style) -> Naming {
    naming(checkpoint, style, Activations::Arguments).unwrap()
}

/// The key of each tensor without the suffix of object-based checkpoints; `-` for a tensor that is lost.
fn keys(naming: &Naming) -> Vec<String> {
    let key = |assignment: &Option<Assignment>| {
        assignment.as_ref().map_or("-".to_owned(), |assignment| text(&assignment.key))
    };
    naming.tensors.iter().map(key).collect()
}

fn text(key: &[u8]) -> String {
    let key = std::str::from_utf8(key).unwrap();
    key.strip_suffix(VARIABLE_VALUE).unwrap_or(key).to_owned()
}

fn losses(naming: &Naming) -> Vec<(LossKind, &str)> {
    naming.losses.iter().map(|loss| (loss.kind, loss.subject.as_str())).collect()
}

/// Describes a checkpoint as it is written with `naming`, which must lose nothing.
fn read_back(checkpoint: &Checkpoint, naming: &Naming) -> Description {
    let objects = naming.extra.iter().find(|extra| extra.dtype == DType::String).unwrap();
    let keys =
        naming.tensors.iter().map(|named| String::from_utf8(named.as_ref().unwrap().key.to_vec()).unwrap());
    let stored: Vec<(String, &Tensor)> = keys.zip(&checkpoint.tensors).collect();
    let entries: Vec<describe::TensorInfo> = stored
        .iter()
        .map(|(key, tensor)| describe::TensorInfo { key, dtype: tensor.dtype, shape: &tensor.shape })
        .collect();
    let (object_graph, saved_model, keras_metadata) = (Some(objects.value.as_slice()), None, None);
    let sources = Sources {
        object_graph,
        saved_model,
        keras_metadata,
        meta_graph: None,
        assume_chain: false,
        file: "m.index",
    };
    describe::describe(&entries, &sources, &Limits::default()).unwrap()
}

/// The object graph of a naming.
struct Objects(TrackableObjectGraph);

impl Objects {
    fn of(naming: &Naming) -> Self {
        let extra = naming.extra.iter().find(|extra| extra.key == *OBJECT_GRAPH).unwrap();
        assert_eq!((extra.dtype, extra.shape.rank()), (DType::String, 0));
        Objects(TrackableObjectGraph::decode(extra.value.as_slice()).unwrap())
    }

    fn find(&self, path: &str) -> Option<usize> {
        path.split('/').try_fold(0, |id, name| {
            let child = self.0.nodes[id].children.iter().find(|child| child.local_name == name)?;
            usize::try_from(child.node_id).ok()
        })
    }

    /// Key and full name of the variable at `path`.
    fn variable(&self, path: &str) -> (&str, &str) {
        let id = self.find(path).unwrap_or_else(|| panic!("no object at {path}"));
        self.value(id)
    }

    fn value(&self, id: usize) -> (&str, &str) {
        let value = &self.0.nodes[id].attributes[0];
        assert_eq!(value.name, "VARIABLE_VALUE");
        (value.checkpoint_key.strip_suffix(VARIABLE_VALUE).unwrap(), &value.full_name)
    }
}
