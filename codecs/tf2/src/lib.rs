//! TensorFlow v2 checkpoints ("tensor bundles") for `ckpt`: what `tf.train.Checkpoint`, Keras, `tf.train.Saver` and
//! SavedModel write.
//!
//! The input can be the prefix, the index, a data file, the state file `checkpoint`, a directory, or a SavedModel.
//!
//! ```
//! use ckpt_api::{Codec, Input, Match};
//! use std::collections::BTreeMap;
//!
//! let files = BTreeMap::from([("model.index".to_owned(), b"not a table".to_vec())]);
//! let input = Input::memory("model.index", files);
//! assert_eq!(ckpt_tf2::Tf2.probe(&input)?, Match::No);
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod describe;
mod errors;
mod format;
mod index;
mod key;
mod key_text;
mod locate;
mod naming;
mod object_graph;
mod ordered_code;
mod read;
mod round_trip;
mod slices;
mod state_file;
mod string_slices;
mod strings;
mod table;
mod table_writer;
mod tf1;
mod write;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Literal, Match, Network, Op, OptionKind,
    OptionSpec, Options, OutputLayout, Result, Side, Written,
};
use ckpt_tf_graph::proto;

pub use tf1::Tf1;

/// The codec for TensorFlow v2 checkpoints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tf2;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "keys",
        OptionKind::Flag,
        Side::Read,
        "name tensors by their stored keys, even if the object graph has the variables' names (default false)",
    ),
    OptionSpec::lenient(
        "read an index with wrong restart points or separators in sequence, and report the repair (default false)",
    ),
    OptionSpec::new(
        "activations",
        OptionKind::List,
        Side::Read,
        "activations that the checkpoint does not record, from the first layer to the last, such as relu,softmax (linear for none)",
    ),
    OptionSpec::new(
        tf1::options::OUTPUTS,
        OptionKind::List,
        Side::Read,
        "operations of the graph in PREFIX.meta whose results the model returns (default: those of its signature, or its only end)",
    ),
    OptionSpec::new(
        "names",
        OptionKind::Choice(&["stored", "plain", "keras3", "keras2", "tf1"]),
        Side::Write,
        "keys: stored (the original keys and the object graph; renamed tensors use their names; the default), plain (the names, without an object graph), or the keys from which keras3, keras2 (tf_keras) or tf1 (tf.compat.v1.train.Saver) restores the layers",
    ),
    OptionSpec::new(
        "activation_layers",
        OptionKind::Flag,
        Side::Write,
        "with names=keras3, keras2 or tf1: the model that restores has activations as layers, not as arguments of dense and convolutional layers (default false)",
    ),
    OptionSpec::new(
        "slices",
        OptionKind::Choice(&["keep", "merge"]),
        Side::Write,
        "partitioned tensors: keep (write the slices that were read; the default) or merge (write each tensor whole)",
    ),
    OptionSpec::new(
        "shards",
        OptionKind::Count,
        Side::Write,
        "number of data files, which are as equal in size as whole tensors allow (default: as read, or 1)",
    ),
    OptionSpec::new(
        "shard_size",
        OptionKind::Size,
        Side::Write,
        "maximum size of a data file, exceeded only by a single larger tensor (default: unlimited)",
    ),
    OptionSpec::new(
        "alignment",
        OptionKind::Size,
        Side::Write,
        "the offset of each tensor is a multiple of this (default: as read, or 1)",
    ),
    OptionSpec::new(
        "compression",
        OptionKind::Choice(&["none", "snappy"]),
        Side::Write,
        "compression of the index: none (the default) or snappy",
    ),
    OptionSpec::new(
        "endian",
        OptionKind::Choice(&["little", "big"]),
        Side::Write,
        "byte order of the data files (default: as read, or little)",
    ),
    OptionSpec::new(
        "state",
        OptionKind::Flag,
        Side::Write,
        "also write the state file 'checkpoint', which names the output as the latest checkpoint (default false)",
    ),
];

const OPS: &[Op] = &[Op::Gemm];

static INFO: FormatInfo = FormatInfo::new("tf2", "TensorFlow v2 checkpoint")
    .with_extensions(&["index"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_keeps(&[Aspect::Graph, Aspect::Axes, Aspect::Roles, Aspect::Slots])
    .with_dtypes(format::STORED_DTYPES)
    .with_ops(OPS)
    .with_free_names()
    .with_fixed_names(&[format::STATE_FILE])
    .with_graph_file("saved_model.pb")
    .with_options(OPTIONS);

impl Codec for Tf2 {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        locate::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }

    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        write::finish(placed, written)
    }
}
