//! Reads and writes parameter files of MXNet (`.params`), and reads the graph of the symbol beside them.
//!
//! A file is a list of arrays in one of four layouts, and their names. Sparse arrays are read dense. The symbol
//! (`NAME-symbol.json` beside `NAME-0000.params`) becomes a graph of ONNX's operators.
//!
//! ```
//! use ckpt_api::{Codec, Input, Match};
//! let head = [0x112u64, 0, 0, 0].map(u64::to_le_bytes).concat();
//! let input = Input::memory("m.params", [("m.params".to_owned(), head)].into());
//! assert!(matches!(ckpt_mxnet::Mxnet.probe(&input)?, Match::Certain(_)));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod decode;
mod format;
mod read;
mod write;

use ckpt_api::{
    Checkpoint, Codec, Contents, Decoder, FormatInfo, Input, Limits, Match, Network, OptionKind, OptionSpec,
    Options, OutputLayout, Result, Side,
};

/// The codec of the format `mxnet`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mxnet;

static INFO: FormatInfo = FormatInfo::new(format::NAMESPACE, "MXNet parameters")
    .with_extensions(&["params"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&format::NATIVE)
    .with_free_names()
    .with_options(&[
        OptionSpec::new(
            format::OPTION_SYMBOL,
            OptionKind::Text,
            Side::Read,
            "the file of the graph beside the parameters (default: NAME-symbol.json for NAME-0000.params)",
        ),
        OptionSpec::new(
            format::OPTION_SHAPE,
            OptionKind::Text,
            Side::Read,
            "shapes of the graph's inputs that do not follow from its layers: data:0,3,224,224;mask:0,10 \
             (0: free)",
        ),
    ]);

impl Codec for Mxnet {
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
        &[decode::SPARSE]
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name)
    }
}
