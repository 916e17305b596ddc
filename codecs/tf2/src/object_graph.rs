//! The serialized object graph: removes values without changing any other byte.

use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::Checkpoint;
use ckpt_containers::protobuf::RawField;
use prost::encoding::{WireType, encode_key, encode_varint};

/// Field of `TrackableObjectGraph`: the objects.
const NODES: u32 = 1;
/// Field of `TrackableObject`: the values that the checkpoint stores.
const ATTRIBUTES: u32 = 2;
/// Field of `SerializedTensor`: the key in the index.
const CHECKPOINT_KEY: u32 = 3;

/// The result of [`prune`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pruned {
    /// The object graph, otherwise unchanged.
    pub(crate) bytes: Vec<u8>,
    /// Number of values that were kept.
    pub(crate) kept: usize,
    /// Number of values that were removed.
    pub(crate) dropped: usize,
}

/// Returns the object graph that the checkpoint's metadata records.
pub(crate) fn recorded(checkpoint: &Checkpoint) -> Option<Vec<u8>> {
    let text = checkpoint.metadata.text("tf2", "object_graph")?;
    BASE64_STANDARD.decode(text).ok()
}

/// Removes the values whose keys `is_known` does not know. Returns `None` if `graph` is not a protobuf message.
pub(crate) fn prune(graph: &[u8], mut is_known: impl FnMut(&[u8]) -> bool) -> Option<Pruned> {
    let mut pruned = Pruned { bytes: Vec::with_capacity(graph.len()), kept: 0, dropped: 0 };
    let mut rest = graph;
    while !rest.is_empty() {
        let field = RawField::take(&mut rest)?;
        match field.delimited(NODES) {
            None => pruned.bytes.extend(field.bytes),
            Some(node) => {
                let before = pruned.dropped;
                let node = prune_node(node, &mut is_known, &mut pruned)?;
                if pruned.dropped == before {
                    pruned.bytes.extend(field.bytes);
                } else {
                    encode_key(NODES, WireType::LengthDelimited, &mut pruned.bytes);
                    encode_varint(node.len() as u64, &mut pruned.bytes);
                    pruned.bytes.extend(node);
                }
            }
        }
    }
    Some(pruned)
}

fn prune_node(node: &[u8], mut is_known: impl FnMut(&[u8]) -> bool, pruned: &mut Pruned) -> Option<Vec<u8>> {
    let mut left = Vec::with_capacity(node.len());
    let mut rest = node;
    while !rest.is_empty() {
        let field = RawField::take(&mut rest)?;
        if let Some(attribute) = field.delimited(ATTRIBUTES) {
            if !is_known(key(attribute)?) {
                pruned.dropped += 1;
                continue;
            }
            pruned.kept += 1;
        }
        left.extend(field.bytes);
    }
    Some(left)
}

/// Returns the key of a value: the last one, if the field is repeated.
fn key(attribute: &[u8]) -> Option<&[u8]> {
    let (mut key, mut rest) = (&[][..], attribute);
    while !rest.is_empty() {
        key = RawField::take(&mut rest)?.delimited(CHECKPOINT_KEY).unwrap_or(key);
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::TrackableObjectGraph;
    use crate::proto::trackable_object_graph::TrackableObject;
    use crate::proto::trackable_object_graph::trackable_object::{ObjectReference, SerializedTensor};
    use prost::Message;

    fn graph(keys: &[&[&str]]) -> TrackableObjectGraph {
        let node = |keys: &&[&str]| TrackableObject {
            children: vec![ObjectReference { node_id: 0, local_name: "child".into() }],
            attributes: keys
                .iter()
                .map(|key| SerializedTensor { checkpoint_key: (*key).into(), ..Default::default() })
                .collect(),
            ..TrackableObject::default()
        };
        TrackableObjectGraph { nodes: keys.iter().map(node).collect() }
    }

    #[test]
    fn only_values_of_unknown_keys_are_removed() {
        let mut bytes = graph(&[&["a", "b"], &["b"], &[], &["a"]]).encode_to_vec();
        let unknown_field = [0x78, 0x05];
        bytes.extend(unknown_field);
        let mut left = graph(&[&["a"], &[], &[], &["a"]]).encode_to_vec();
        left.extend(unknown_field);
        let pruned = prune(&bytes, |key| key == b"a").unwrap();
        assert_eq!(pruned, Pruned { bytes: left, kept: 2, dropped: 2 });
    }

    #[test]
    fn a_graph_whose_keys_are_all_known_is_unchanged() {
        let bytes = graph(&[&["a", "b"], &["b"]]).encode_to_vec();
        assert_eq!(prune(&bytes, |_| true), Some(Pruned { bytes: bytes.clone(), kept: 3, dropped: 0 }));
    }

    #[test]
    fn bytes_that_are_not_a_message_are_not_pruned() {
        for bytes in [&[0x0a][..], &[0x0a, 5, 1], &[0x0f], &[0x0a, 2, 0x12, 9]] {
            assert_eq!(prune(bytes, |_| true), None, "{bytes:?}");
        }
    }
}
