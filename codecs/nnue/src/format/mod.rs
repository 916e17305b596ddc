//! What reading and writing share: the header, the hashes, and the arrays that a file holds.

mod features;
mod layers;
mod network;

pub(crate) use features::{Array, Inputs};
pub(crate) use layers::Layers;
pub(crate) use network::{Network, Part};

/// The format's id, and its namespace in metadata.
pub(crate) const ID: &str = "nnue";

/// The version that Stockfish writes since 2026, whose quantization is known.
pub(crate) const VERSION: u32 = 0x6A44_8AFA;
/// Every version that is read: since 2026, 2021 to 2026, 2020.
pub(crate) const VERSIONS: [u32; 3] = [VERSION, 0x7AF3_2F20, 0x7AF3_2F16];

/// What an array that is compressed begins with; its bytes are counted in the four bytes that follow.
pub(crate) const MAGIC: &[u8; 17] = b"COMPRESSED_LEB128";
/// Bytes before the integers of a compressed array.
pub(crate) const MAGIC_BYTES: u64 = 21;

/// Bytes of the longest description.
pub(crate) const MAX_DESCRIPTION: u64 = 64 << 10;

/// Option and key: the outputs of the first and of the second dense layer, as `32,32`.
pub(crate) const LAYERS: &str = "layers";
/// Option: features and neurons of inputs that are not known, as `768x128`.
pub(crate) const INPUTS: &str = "inputs";
/// The option that reads arrays as integers, or as the numbers that they stand for.
pub(crate) const WEIGHTS: &str = "weights";
/// The option that reads compressed arrays as their integers or as their bytes, and the key that lists such arrays.
pub(crate) const LEB128: &str = "leb128";
/// The option that compresses arrays or not.
pub(crate) const COMPRESSION: &str = "compression";
/// Keys of metadata.
pub(crate) const KEY_VERSION: &str = "version";
pub(crate) const KEY_DESCRIPTION: &str = "description";
pub(crate) const KEY_FEATURES: &str = "features";
pub(crate) const KEY_FEATURE_HASH: &str = "feature_hash";
pub(crate) const KEY_L1: &str = "l1";
pub(crate) const KEY_ARCHITECTURE: &str = "architecture";
