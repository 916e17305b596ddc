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
mod key_text;
mod locate;
mod naming;
mod object_graph;
mod ordered_code;
mod proto;
mod read;
mod round_trip;
mod slices;
mod state_file;
mod string_slices;
mod strings;
mod table;
mod table_writer;
mod wire;
mod write;

use ckpt_api::{
    Aspect, Block, Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Match, Network, Op, OptionKind,
    OptionSpec, Options, Placed, Result, Side, Written,
};

/// The codec for TensorFlow v2 checkpoints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tf2;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "keys",
        kind: OptionKind::Flag,
        side: Side::Read,
        help: "name tensors by their stored keys, even if the object graph has the variables' names (default false)",
    },
    OptionSpec {
        name: "lenient",
        kind: OptionKind::Flag,
        side: Side::Read,
        help: "read an index with wrong restart points or separators in sequence, and report the repair (default false)",
    },
    OptionSpec {
        name: "activations",
        kind: OptionKind::List,
        side: Side::Read,
        help: "activations that the checkpoint does not record, from the first layer to the last, such as relu,softmax (linear for none)",
    },
    OptionSpec {
        name: "names",
        kind: OptionKind::Choice(&["stored", "plain", "keras3", "keras2", "tf1"]),
        side: Side::Write,
        help: "keys: stored (the original keys and the object graph; renamed tensors use their names; the default), plain (the names, without an object graph), or the keys from which keras3, keras2 (tf_keras) or tf1 (tf.compat.v1.train.Saver) restores the layers",
    },
    OptionSpec {
        name: "activation_layers",
        kind: OptionKind::Flag,
        side: Side::Write,
        help: "with names=keras3, keras2 or tf1: the model that restores has activations as layers, not as arguments of dense and convolutional layers (default false)",
    },
    OptionSpec {
        name: "slices",
        kind: OptionKind::Choice(&["keep", "merge"]),
        side: Side::Write,
        help: "partitioned tensors: keep (write the slices that were read; the default) or merge (write each tensor whole)",
    },
    OptionSpec {
        name: "shards",
        kind: OptionKind::Size,
        side: Side::Write,
        help: "number of data files, which are as equal in size as whole tensors allow (default: as read, or 1)",
    },
    OptionSpec {
        name: "shard_size",
        kind: OptionKind::Size,
        side: Side::Write,
        help: "maximum size of a data file, exceeded only by a single larger tensor (default: unlimited)",
    },
    OptionSpec {
        name: "alignment",
        kind: OptionKind::Size,
        side: Side::Write,
        help: "the offset of each tensor is a multiple of this (default: as read, or 1)",
    },
    OptionSpec {
        name: "compression",
        kind: OptionKind::Choice(&["none", "snappy"]),
        side: Side::Write,
        help: "compression of the index: none (the default) or snappy",
    },
    OptionSpec {
        name: "endian",
        kind: OptionKind::Choice(&["little", "big"]),
        side: Side::Write,
        help: "byte order of the data files (default: as read, or little)",
    },
    OptionSpec {
        name: "state",
        kind: OptionKind::Flag,
        side: Side::Write,
        help: "also write the state file 'checkpoint', which names the output as the latest checkpoint (default false)",
    },
];

static INFO: FormatInfo = FormatInfo {
    id: "tf2",
    title: "TensorFlow v2 checkpoint",
    extensions: &["index"],
    reads: Network::ALL,
    writes: Network::ALL,
    dtypes: format::STORED_DTYPES,
    ops: &[Op::Gemm],
    free_names: true,
    keeps: &[Aspect::Graph, Aspect::Axes, Aspect::Roles, Aspect::Slots],
    options: OPTIONS,
};

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

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<Placed> {
        write::place(checkpoint, name, options)
    }

    fn finish(&self, placed: &Placed, written: &[Written]) -> Result<Vec<Block>> {
        write::finish(placed, written)
    }
}
