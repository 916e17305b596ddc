//! Reads and writes weights of Darknet: `.weights` with the `.cfg` that says what they are.
//!
//! The file of weights has a header and 32-bit floats, and states neither names nor shapes: these follow from the layers of
//! the `.cfg`, which is beside it under the same stem, or which the option `cfg` names. Tensors are called
//! `NNN.SECTION.PART`, where `NNN` counts the sections after `[net]`.
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Options};
//! let cfg = "[net]\nchannels=1\nheight=2\nwidth=2\n[connected]\noutput=1\nactivation=linear\n";
//! let mut weights = [0_i32, 2, 0].map(i32::to_le_bytes).concat();
//! weights.extend([0; 8 + 5 * 4]);
//! let files = [("m.cfg".to_owned(), cfg.into()), ("m.weights".to_owned(), weights)];
//! let input = Input::memory("m.weights", files.into());
//! let contents = ckpt_darknet::Darknet.read(&input, &Options::default(), &Limits::default())?;
//! assert_eq!(contents.checkpoint.tensors[1].name, "000.connected.weight");
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod graph;
mod read;
mod write;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, DType, FormatInfo, Input, Limits, Match, Network, OptionKind,
    OptionSpec, Options, OutputLayout, Result, Side,
};

/// The codec of the format `darknet`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Darknet;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        format::CFG,
        OptionKind::Text,
        Side::Both,
        "the .cfg with the layers: a name beside the weights, or a path (default: the name of the weights, or what was read)",
    ),
    OptionSpec::new(
        format::LAYERS,
        OptionKind::Count,
        Side::Read,
        "layers of the .cfg whose weights the file has, from the first on (default: all, or N of NAME.conv.N)",
    ),
    OptionSpec::new(
        format::DETECTIONS,
        OptionKind::Choice(&["boxes", "maps"]),
        Side::Read,
        "what detection layers return: boxes, as OpenCV computes them, or the maps that they take (default boxes)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "Darknet weights (.weights with .cfg)")
    .with_extensions(&["weights"])
    .with_reads(Network::ALL)
    .with_writes(&[Network::OWN])
    .with_dtypes(&[DType::F32])
    .with_keeps(&[Aspect::Graph, Aspect::Axes])
    .with_options(OPTIONS);

impl Codec for Darknet {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }
}
