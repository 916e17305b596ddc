//! Names and numbers of the format.

mod element;
mod kinds;
mod names;

pub(crate) use element::{Element, NATIVE, blob_element, element};
pub(crate) use kinds::{Kind, kind};
pub(crate) use names::{constant_name, identifier};

use ckpt_containers::protobuf::WireFormat;

/// Id of the format, and its metadata namespace.
pub(crate) const NAMESPACE: &str = "coreml";
/// The file that makes a folder a package.
pub(crate) const MANIFEST: &str = "Manifest.json";
/// The member of the manifest that lists the items, and the one that names the model among them.
pub(crate) const ITEMS: &str = "itemInfoEntries";
pub(crate) const ROOT: &str = "rootModelIdentifier";
/// The folder of a package that has its items.
pub(crate) const DATA: &str = "Data";
/// What names of blob files begin with: the folder of the model.
pub(crate) const MODEL_PATH: &str = "@model_path/";

/// The blob file of a new package, relative to the model's folder.
pub(crate) const WEIGHTS_FILE: &str = "weights/weight.bin";

/// The version of blob files.
pub(crate) const BLOB_VERSION: u32 = 2;
/// Bytes of a blob file's header, and of a blob's metadata.
pub(crate) const BLOB_HEAD: u64 = 64;
/// The first four bytes of a blob's metadata.
pub(crate) const SENTINEL: u32 = 0xdead_beef;

/// The fields of a model's metadata, and their keys; further ones are a map.
pub(crate) const DESCRIBED: [(u64, &str); 4] =
    [(1, "description"), (2, "version"), (3, "author"), (4, "license")];
pub(crate) const USER_DEFINED: u64 = 100;
pub(crate) const KEY_USER_DEFINED: &str = "user_defined";

/// What errors say of the messages of a model.
pub(crate) const WIRE: WireFormat = WireFormat {
    cut_short: "the model is cut short",
    other_type: "a field has another type than Core ML's",
    unknown_type: "the file is damaged, or no Core ML model: copy it again",
};
