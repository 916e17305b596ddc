//! TensorFlow v2 checkpoints ("tensor bundles") for `ckpt`: what `tf.train.Checkpoint`, Keras, `tf.train.Saver`
//! and SavedModel write.
//!
//! IN can be the prefix, the index, a data file, the state file `checkpoint`, a directory or a SavedModel.
//!
//! ```
//! use ckpt_api::{Codec, Input, Match};
//! use std::collections::BTreeMap;
//!
//! let files = BTreeMap::from([("model.index".to_owned(), b"no table".to_vec())]);
//! let input = Input::memory("model.index", files);
//! assert_eq!(ckpt_tf2::codec().probe(&input)?, Match::No);
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bundle;
mod cursor;
mod describe;
mod fields;
mod finish;
mod format;
mod kept;
mod keras;
mod locate;
mod names;
mod naming;
mod object_graph;
mod ordered_code;
mod proto;
mod read;
mod slices;
mod state;
mod stored;
mod strings;
mod table;
mod table_writer;
mod wire;
mod write;

use ckpt_api::{
    Block, Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Match, Network, Op, OptionKind,
    OptionSpec, Options, Placed, Result, Side, Written,
};

/// The codec for TensorFlow v2 checkpoints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tf2;

/// The codec, boxed for a registry.
pub fn codec() -> Box<dyn Codec> {
    Box::new(Tf2)
}

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "keys",
        kind: OptionKind::Flag,
        side: Side::Read,
        help: "tensor names are the stored keys, also where the object graph has the variables' own (default false)",
    },
    OptionSpec {
        name: "lenient",
        kind: OptionKind::Flag,
        side: Side::Read,
        help: "read an index whose restart points or separators are wrong in sequence, and report it (default false)",
    },
    OptionSpec {
        name: "activations",
        kind: OptionKind::List,
        side: Side::Read,
        help: "the activations that the checkpoint does not state, first layer to last, such as relu,softmax (linear for none)",
    },
    OptionSpec {
        name: "names",
        kind: OptionKind::Choice(&["stored", "plain", "keras3", "keras2", "tf1"]),
        side: Side::Write,
        help: "keys: stored (those that tensors were read with, and the object graph; names for renamed ones; the default), plain (names, and no object graph), or as the layers are called by keras3, keras2 (tf_keras) or tf1 (tf.compat.v1.train.Saver)",
    },
    OptionSpec {
        name: "activation_layers",
        kind: OptionKind::Flag,
        side: Side::Write,
        help: "with names=keras3, keras2 or tf1: activations are layers of the model that restores, not arguments of its dense and convolutional layers (default false)",
    },
    OptionSpec {
        name: "slices",
        kind: OptionKind::Choice(&["keep", "merge"]),
        side: Side::Write,
        help: "partitioned tensors: keep (in the slices that they were read in; the default) or merge (whole)",
    },
    OptionSpec {
        name: "shards",
        kind: OptionKind::Size,
        side: Side::Write,
        help: "number of data files, with as equal parts as whole tensors allow (default 1, or as before)",
    },
    OptionSpec {
        name: "shard_size",
        kind: OptionKind::Size,
        side: Side::Write,
        help: "most bytes in one data file, unless a single tensor has more (default unlimited)",
    },
    OptionSpec {
        name: "alignment",
        kind: OptionKind::Size,
        side: Side::Write,
        help: "what the offset of every tensor is a multiple of (default 1, or as before)",
    },
    OptionSpec {
        name: "compression",
        kind: OptionKind::Choice(&["none", "snappy"]),
        side: Side::Write,
        help: "of the index: none (the default) or snappy",
    },
    OptionSpec {
        name: "endian",
        kind: OptionKind::Choice(&["little", "big"]),
        side: Side::Write,
        help: "byte order of the data files (default little, or as before)",
    },
    OptionSpec {
        name: "state",
        kind: OptionKind::Flag,
        side: Side::Write,
        help: "also write the state file 'checkpoint', which names the output as the latest (default false)",
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
    free_metadata: false,
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

    fn seal(&self, placed: &Placed, written: &[Written]) -> Result<Vec<Block>> {
        write::seal(placed, written)
    }
}
