//! The formats of models that are known.

/// The format of GGUF files, and how they begin.
pub(crate) const GGUF: &str = "gguf";
pub(crate) const MAGIC: &[u8; 4] = b"GGUF";
/// The format of the tensors in a directory.
pub(crate) const SAFETENSORS: &str = "safetensors";
