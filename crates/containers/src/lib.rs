//! What several codecs have inside: zip archives, pickles, protocol buffers, YAML, and decoders of compressed bytes.
//!
//! | module | what it has |
//! |---|---|
//! | [`decoders`] | [`ckpt_api::Decoder`]s, which a codec registers with [`ckpt_api::Codec::decoders`] |
//! | [`pickle`] | pickles as data, which nothing runs, and the arrays of NumPy in them |
//! | [`protobuf`] | the wire format of protocol buffers |
//! | [`structure`] | a model's file without the bytes of its tensors, which metadata keeps |
//! | [`yaml`] | YAML as a tree that knows where its values are |
//! | [`zip`] | members of archives, and writers of archives as Python and PyTorch write them |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod decoders;
pub mod pickle;
pub mod protobuf;
pub mod structure;
pub mod yaml;
pub mod zip;
