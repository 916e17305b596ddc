//! Reads and writes CNN2 weight files (`.bin`) for `ckpt`, versions 1 and 2.
//!
//! A CNN2 file holds the f16 weights of a small chain of convolutions that a shader runs over every pixel: a header, a
//! table of layers, and the weights, `[out, in, kernel_y, kernel_x]`. It has neither names nor biases, and states neither
//! activations nor what lies beyond the border of the image. The package's README lists every decision.
//!
//! **Tensors** are `layer{n}.weight`, `n` from 1. **Graph**: what each layer takes follows from the numbers of channels.
//! Its inputs are `static_features`, `[N, 8, H, W]` (R, G, B, D, UV_X, UV_Y, sin(10·UV_X), 1.0), and `features`, the 0 to
//! 7 more that the first layer takes. Each layer is a Conv of the same size; a Concat before it where it takes the static
//! features beside others; a Pad whose `mode` says what the border is; an activation.
//!
//! **Metadata**, namespace `cnn2`: `version`; `mip`, the mip level of the features; `pad`, where the number of weights is
//! odd, `zero` or `none`. Writing uses them, so that `.bin` → `.bin` is byte-identical.
//!
//! **Writing** takes a graph of that kind, or without one the tensors called `layer{n}.weight`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod graph;
mod model;
mod read;
mod walk;
mod write;

use ckpt_api::{
    Checkpoint, Codec, Contents, DType, FormatInfo, Input, Limits, Match, Network, Op, OptionKind,
    OptionSpec, Options, Placed, Result, Side,
};

/// The codec.
///
/// ```
/// use ckpt_api::{Codec, Input, Match};
/// // One layer, 1×1, from the 8 static features to 1 channel.
/// let numbers: [u32; 9] = [0x324e_4e43, 1, 1, 8, 1, 8, 1, 0, 8];
/// let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
/// bytes.extend([0; 16]);
/// let input = Input::memory("cnn.bin", [("cnn.bin".to_owned(), bytes)].into());
/// assert!(matches!(ckpt_cnn2::Cnn2.probe(&input)?, Match::Certain(_)));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Cnn2;

static INFO: FormatInfo = FormatInfo {
    id: format::ID,
    title: "CNN2 weights",
    extensions: &["bin"],
    reads: &[Network::Convolutional],
    writes: &[Network::Convolutional],
    dtypes: &[DType::F16],
    ops: &[Op::Conv, Op::Concat],
    free_names: false,
    free_metadata: false,
    options: &[
        OptionSpec {
            name: "lenient",
            kind: OptionKind::Flag,
            side: Side::Read,
            help: "accept gaps, trailing bytes, even kernels and unknown wiring, reporting every repair (default false)",
        },
        OptionSpec {
            name: "activation",
            kind: OptionKind::List,
            side: Side::Read,
            help: "none, clamp, relu, sigmoid or tanh: one for all layers or one for each (default: unstated)",
        },
        OptionSpec {
            name: "border",
            kind: OptionKind::Choice(&format::Border::NAMES),
            side: Side::Read,
            help: "what lies beyond the edge of the image: zeros, or its nearest pixel (default: unstated)",
        },
        OptionSpec {
            name: "version",
            kind: OptionKind::Choice(&["1", "2"]),
            side: Side::Write,
            help: "version of the format (default: 2 for a mip level above 0, else the source's own, else 1)",
        },
        OptionSpec {
            name: "mip",
            kind: OptionKind::Choice(&["0", "1", "2", "3"]),
            side: Side::Write,
            help: "mip level of the parametric features (default: the source's own, else 0)",
        },
        OptionSpec {
            name: "pad",
            kind: OptionKind::Choice(&format::Pad::NAMES),
            side: Side::Write,
            help: "what follows an odd number of weights (default: the source's own, else zero)",
        },
    ],
};

impl Codec for Cnn2 {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<Placed> {
        write::place(checkpoint, name, options)
    }
}
