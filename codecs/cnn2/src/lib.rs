//! Reads and writes CNN2 weight files (`.bin`), versions 1 and 2.
//!
//! A CNN2 file stores the f16 weights of a small chain of convolutions that a shader runs over every pixel: a header, a
//! table of layers, and the weights, `[out, in, kernel_y, kernel_x]`. It stores no names, biases, activations or borders.
//! The package's README lists every decision.
//!
//! **Tensors** are `layer{n}.weight`, with `n` from 1.
//!
//! **Graph**: the numbers of channels imply what each layer takes. The inputs are `static_features`, `[N, 8, H, W]` (R, G, B,
//! D, UV_X, UV_Y, sin(10·UV_X), 1.0), and `features`, up to 7 more for the first layer. Each layer is a Conv that keeps the
//! image's size. A Concat precedes it if it takes the static features together with others, and a Pad whose `mode` is the
//! border; an activation follows it.
//!
//! **Metadata** in the namespace `cnn2`: `version`; `mip`, the mip level of the features; `pad`, which is `zero` or `none` for
//! an odd number of weights. Writing uses them, so that `.bin` → `.bin` is byte-identical.
//!
//! **Writing** takes a graph of this kind or, without a graph, the tensors `layer{n}.weight`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod layer;
mod ops;
mod read;
mod write;

use ckpt_api::{
    Checkpoint, Codec, Contents, DType, FormatInfo, Input, Limits, Match, Network, Op, OpSpec, OptionKind,
    OptionSpec, Options, Placed, Result, Side,
};

/// The codec for CNN2 files.
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
    reads: &[Network::CONVOLUTIONAL],
    writes: &[Network::CONVOLUTIONAL],
    dtypes: &[DType::F16],
    ops: &[Op::Conv, Op::Concat],
    free_names: false,
    free_metadata: false,
    options: &[
        OptionSpec {
            name: "lenient",
            kind: OptionKind::Flag,
            side: Side::Read,
            help: "accept gaps, trailing bytes, even kernels and unknown wiring, and report every repair (default false)",
        },
        OptionSpec {
            name: "activation",
            kind: OptionKind::List,
            side: Side::Read,
            help: "activation, one for all layers or one for each: none, clamp, relu, sigmoid or tanh (default: unstated)",
        },
        OptionSpec {
            name: "border",
            kind: OptionKind::Choice(&format::Border::NAMES),
            side: Side::Read,
            help: "pixels beyond the edge of the image: zeros, or the nearest pixel (default: unstated)",
        },
        OptionSpec {
            name: "version",
            kind: OptionKind::Choice(&["1", "2"]),
            side: Side::Write,
            help: "version of the format (default: 2 if the mip level is above 0, else the source's, else 1)",
        },
        OptionSpec {
            name: "mip",
            kind: OptionKind::Choice(&["0", "1", "2", "3"]),
            side: Side::Write,
            help: "mip level of the parametric features (default: the source's, else 0)",
        },
        OptionSpec {
            name: "pad",
            kind: OptionKind::Choice(&format::Pad::NAMES),
            side: Side::Write,
            help: "padding after an odd number of weights (default: the source's, else zero)",
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

    fn ops(&self) -> &'static [OpSpec] {
        &ops::SPECS
    }
}
