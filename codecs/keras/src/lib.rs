//! Reads and writes Keras models: `.keras`, `.weights.h5`, `.h5`, and their directories and shards.
//!
//! Keras stores a model as a configuration, which is JSON, and variables, which are HDF5 datasets. A tensor has the path
//! of its dataset: `layers/dense/vars/0`, or `model_weights/dense/dense/kernel:0` in the `.h5` files of Keras 2.
//!
//! [`config`] reads the configuration: it lists the layers and their variables with the paths under which each container
//! stores them, and lowers the layers to a graph. A configuration is data. Code in it (`Lambda`) is reported by the name
//! of its layer, and never decoded.
//!
//! **Metadata**, namespace [`NAMESPACE`]: `config` and `training_config` (JSON), `keras_version`, `backend`, `date_saved`;
//! and `path` of a tensor, the path of its variable in a `.weights.h5` file. The namespace `keras.files` has the bytes
//! around the elements: files that were read are written again byte for byte while their tensors have their names,
//! dtypes and shapes.
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Match};
//! let input = Input::memory("m.h5", [("m.h5".to_owned(), b"\x89HDF\r\n\x1a\n".to_vec())].into());
//! assert!(matches!(ckpt_keras::Keras.probe(&input)?, Match::Certain(_)));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod read;
mod write;

pub use ckpt_keras_config as config;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, Decoder, FormatInfo, Input, Limits, Literal, Match, Network,
    OptionKind, OptionSpec, Options, OutputLayout, Result, Side, Values, Written,
};
use ckpt_containers::decoders::{DEFLATE, LZF, ZLIB};

/// Metadata namespace of a model's configuration.
pub const NAMESPACE: &str = format::ID;

/// The codec of the format `keras`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keras;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::lenient(
        "leave out what cannot be read, such as compound elements, reporting each (default false)",
    ),
    OptionSpec::new(
        "dtype",
        OptionKind::Choice(&["bfloat16", "float8_e4m3fn", "float8_e5m2"]),
        Side::Read,
        "what opaque elements are whose dataset does not state it (default bfloat16, if a layer of the model holds it)",
    ),
    OptionSpec::new(
        "keras",
        OptionKind::Choice(&["2", "3"]),
        Side::Write,
        "generation of Keras that the configuration is for: one for another generation is made anew of the graph \
         (default that of the source, or 3)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "Keras model (.keras) or weights (.weights.h5, .h5)")
    .with_extensions(&["keras", "h5", "hdf5"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&format::WRITTEN)
    .with_keeps(&[Aspect::Graph, Aspect::Axes, Aspect::Roles, Aspect::Slots])
    .with_free_names()
    .with_models_described()
    .with_options(OPTIONS);

impl Codec for Keras {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn decoders(&self) -> &'static [&'static Decoder] {
        &[DEFLATE, LZF, ZLIB]
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }

    fn prepare(&self, values: &dyn Values, contents: &Contents, _: &Options) -> Result<Option<Contents>> {
        write::prepare(values, contents)
    }

    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        write::finish(placed, written)
    }
}
