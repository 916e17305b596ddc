//! Names of files, keys and dtypes.

pub(crate) mod manifest;
mod number;
mod path;

use ckpt_api::DType;

/// The options that state how weights of 16-bit floats, and of integers with scales, are read, and their value for what is stored.
pub(crate) const HALVES: &str = "halves";
pub(crate) const INTEGERS: &str = "integers";
pub(crate) const AS_STORED: &str = "stored";

/// The option that names the dtype in which floats are stored.
pub(crate) const QUANTIZE: &str = "quantize";

/// Id of the format, and its metadata namespace.
pub(crate) const ID: &str = "tfjs";
/// Namespace of what writing the same files again needs.
pub(crate) const FILES: &str = "tfjs.files";
/// Key of [`FILES`]: the text of the model's file.
pub(crate) const KEY_MODEL: &str = "model";
/// Key of [`FILES`]: what the graph was that the topology was read as.
pub(crate) const KEY_GRAPH: &str = "graph";
/// Key of [`FILES`]: bytes of each file that the manifest names, in its order.
pub(crate) const KEY_LENS: &str = "lens";

/// Key of [`ID`]: what a program stored beside the model.
pub(crate) const USER_METADATA: &str = "user_defined_metadata";

/// The file that has the manifest, in the folder of a model.
pub(crate) const MODEL: &str = "model.json";
/// The same of TensorFlow.js 0.x: the manifest alone.
pub(crate) const OLD_MODEL: &str = "weights_manifest.json";
/// The key of the manifest.
pub(crate) const MANIFEST: &str = "weightsManifest";
/// The key of the graph or of the layers.
pub(crate) const TOPOLOGY: &str = "modelTopology";
/// The group of weights that an optimizer keeps.
pub(crate) const OPTIMIZER: &str = "optimizer";

/// Dtypes of weights, by the names that the manifest has.
pub(crate) const DTYPES: [(&str, DType); 5] = [
    ("float32", DType::F32),
    ("int32", DType::I32),
    ("bool", DType::Bool),
    ("complex64", DType::C64),
    ("string", DType::String),
];

/// Dtypes that the Python library reads as they are, and TensorFlow.js only as stored numbers of another dtype.
pub(crate) const STORED: [(&str, DType); 3] =
    [("uint8", DType::U8), ("uint16", DType::U16), ("float16", DType::F16)];

/// The dtype of a name.
pub(crate) fn dtype(name: &str) -> Option<DType> {
    let found = DTYPES.iter().chain(&STORED).find(|(known, _)| *known == name);
    found.map(|(_, dtype)| *dtype)
}

/// Bytes in words.
pub(crate) fn bytes(count: u64) -> String {
    ckpt_api::count(count, "byte")
}
