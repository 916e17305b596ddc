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

mod base64;
mod bundle;
mod cursor;
mod describe;
mod finish;
mod format;
mod locate;
mod names;
mod ordered_code;
mod proto;
mod read;
mod slices;
mod state;
mod strings;
mod table;
mod varint;
mod write;

use ckpt_api::{
    Checkpoint, Codec, Contents, DType, FormatInfo, Input, Limits, Match, OptionKind, OptionSpec, Options,
    Placed, Result, Side,
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
        name: "names",
        kind: OptionKind::Choice(&["full", "key"]),
        side: Side::Read,
        help: "tensor names: full (the variables' own names where the object graph has unique ones; the default) or key (the stored keys)",
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
];

static INFO: FormatInfo = FormatInfo {
    id: "tf2",
    title: "TensorFlow v2 checkpoint",
    extensions: &["index"],
    reads: true,
    writes: false,
    dtypes: &[] as &[DType],
    ops: &[],
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

    fn place(&self, _: &Checkpoint, _: &str, _: &Options) -> Result<Placed> {
        write::place()
    }
}
