//! Reads and writes CNN2 weight files (`.bin`), versions 1 and 2.
//!
//! A CNN2 file stores the f16 weights of a small chain of convolutions that a shader runs over every pixel: a header, a
//! table of layers, and the weights, `[out, in, kernel_y, kernel_x]`. It stores no names, biases, activations or
//! borders. The package's README lists every decision.
//!
//! **Tensors** are `layer{n}.weight`, with `n` from 1.
//!
//! **Graph**: the numbers of channels imply what each layer takes. The inputs are `static_features`, `[N, 8, H, W]` (R,
//! G, B, D, UV_X, UV_Y, sin(10·UV_X), 1.0), and `features`, up to 7 more for the first layer. Each layer is a Conv that
//! keeps the image's size. A Concat precedes it if it takes the static features together with others, and a Pad whose
//! `mode` is the border; an activation follows it.
//!
//! **Metadata** in the namespace `cnn2`: `version`; `mip`, the mip level of the features; `pad`, which is `zero` or
//! `none` for an odd number of weights. Writing uses them, so that `.bin` → `.bin` is byte-identical.
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
    Aspect, Checkpoint, Codec, Contents, DType, FormatInfo, Input, Limits, Match, Network, Op, OpSpec,
    OptionKind, OptionSpec, Options, OutputLayout, Result, Side,
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

const OPS: &[Op] = &[Op::Conv, Op::Concat];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::lenient(
        "accept gaps, trailing bytes, even kernels and unknown wiring, and report every repair (default false)",
    ),
    OptionSpec::new(
        "activation",
        OptionKind::List,
        Side::Read,
        "activation, one for all layers or one for each: none, clamp, relu, sigmoid or tanh (default: unstated)",
    ),
    OptionSpec::new(
        "border",
        OptionKind::Choice(&format::Border::NAMES),
        Side::Read,
        "how the border of the image is padded: zero, or clamp (the nearest pixel) (default: unstated)",
    ),
    OptionSpec::new(
        "version",
        OptionKind::Choice(&["1", "2"]),
        Side::Write,
        "version of the format (default: 2 if the mip level is above 0, else the source's, else 1)",
    ),
    OptionSpec::new(
        "mip",
        OptionKind::Choice(&["0", "1", "2", "3"]),
        Side::Write,
        "mip level of the parametric features (default: the source's, else 0)",
    ),
    OptionSpec::new(
        "pad",
        OptionKind::Choice(&format::Pad::NAMES),
        Side::Write,
        "padding after an odd number of weights (default: the source's, else zero)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "CNN2 weights")
    .with_extensions(&["bin"])
    .with_reads(&[Network::CONVOLUTIONAL])
    .with_writes(&[Network::CONVOLUTIONAL])
    .with_keeps(&[Aspect::Graph, Aspect::Axes])
    .with_dtypes(&[DType::F16])
    .with_ops(OPS)
    .with_options(OPTIONS);

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

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }

    fn ops(&self) -> &'static [OpSpec] {
        &ops::SPECS
    }
}
