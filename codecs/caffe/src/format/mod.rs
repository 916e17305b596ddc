//! What reading and writing share: names of options and metadata, kinds of layers, what errors say.

mod kinds;

pub(crate) use kinds::{axes, named, numbered};

use ckpt_containers::protobuf::WireFormat;

/// The format's id, and its namespace in metadata.
pub(crate) const ID: &str = "caffe";
/// The option that names the `.prototxt`, and the key of its text.
pub(crate) const NET: &str = "net";
/// The option that names a model whose values are replaced.
pub(crate) const LIKE: &str = "like";

/// The most axes of a blob, as Caffe has it.
pub(crate) const MOST_AXES: usize = 32;

/// What errors say of the message.
pub(crate) static WIRE: WireFormat = WireFormat {
    cut_short: "the model is cut short",
    other_type: "a field of the model has another type than Caffe's",
    unknown_type: "the file is damaged, or no model of Caffe",
};
