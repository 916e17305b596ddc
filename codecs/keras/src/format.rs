//! Names of files, members and metadata.

use ckpt_api::DType;

/// Id of the format, and its metadata namespace.
pub(crate) const ID: &str = "keras";
/// Namespace of what writing the same files again needs.
pub(crate) const FILES: &str = "keras.files";

/// Keys of the namespace [`ID`].
pub(crate) const KEY_CONFIG: &str = "config";
pub(crate) const KEY_TRAINING: &str = "training_config";
pub(crate) const KEY_VERSION: &str = "keras_version";
pub(crate) const KEY_BACKEND: &str = "backend";
pub(crate) const KEY_SAVED: &str = "date_saved";
/// Key of a tensor: its path in a `.weights.h5` file.
pub(crate) const KEY_PATH: &str = "path";
/// Keys of a tensor that is stored as integers: what a weight is, and the axis along which two integers share a byte.
pub(crate) const KEY_WEIGHT: &str = "weight";
pub(crate) const KEY_PACKED_AXIS: &str = "packed_axis";

/// Keys of the namespace [`FILES`].
pub(crate) const KEY_CONTAINER: &str = "container";
pub(crate) const KEY_PARTS: &str = "parts";

/// Members of a `.keras` file.
pub(crate) const CONFIG: &str = "config.json";
pub(crate) const METADATA: &str = "metadata.json";
pub(crate) const WEIGHTS: &str = "model.weights.h5";
/// Weights that Keras can store instead.
pub(crate) const NUMPY_WEIGHTS: &str = "model.weights.npz";

/// Endings of names.
pub(crate) const ARCHIVE_END: &str = ".keras";
pub(crate) const WEIGHTS_END: &str = ".weights.h5";
pub(crate) const INDEX_END: &str = ".weights.json";
pub(crate) const H5_ENDS: [&str; 2] = [".h5", ".hdf5"];

/// Attributes of `.h5` files.
pub(crate) const MODEL_CONFIG: &str = "model_config";
pub(crate) const TRAINING_CONFIG: &str = "training_config";
pub(crate) const LAYER_NAMES: &str = "layer_names";
pub(crate) const WEIGHT_NAMES: &str = "weight_names";
/// Groups of `.h5` files.
pub(crate) const MODEL_WEIGHTS: &str = "model_weights";
pub(crate) const OPTIMIZER_WEIGHTS: &str = "optimizer_weights";
/// Attribute of a dataset: the dtype that HDF5 does not know.
pub(crate) const DTYPE: &str = "dtype";

/// How the files are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    /// A zip archive with a configuration and weights.
    Archive,
    /// A directory of the same.
    Directory,
    /// Weights by path, or anything else in one HDF5 file.
    File,
    /// Weights in several files, with an index.
    Sharded,
}

impl Container {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Container::Archive => "archive",
            Container::Directory => "directory",
            Container::File => "file",
            Container::Sharded => "sharded",
        }
    }

    /// The form that an output's name asks for.
    pub(crate) fn of_name(name: &str) -> Self {
        match name {
            _ if name.ends_with(ARCHIVE_END) => Container::Archive,
            _ if name.ends_with(INDEX_END) => Container::Sharded,
            _ if H5_ENDS.iter().any(|end| name.ends_with(end)) => Container::File,
            _ => Container::Directory,
        }
    }
}

/// Dtypes that HDF5 stores as they are.
pub(crate) const NATIVE: [DType; 14] = [
    DType::C128,
    DType::C64,
    DType::F64,
    DType::F32,
    DType::F16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool,
];

/// Dtypes that Keras stores as opaque bytes, by the names that it gives them.
pub(crate) const OPAQUE: [(DType, &str); 3] =
    [(DType::Bf16, "bfloat16"), (DType::F8E4m3, "float8_e4m3fn"), (DType::F8E5m2, "float8_e5m2")];

/// Dtypes that are written as they are.
pub(crate) const WRITTEN: [DType; 15] = {
    let mut written = [DType::Bf16; 15];
    let mut k = 0;
    while k < NATIVE.len() {
        written[k] = NATIVE[k];
        k += 1;
    }
    written
};
