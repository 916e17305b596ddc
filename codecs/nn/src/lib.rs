//! Reads and writes DataCode `.nn` models for `ckpt`, in both dialects.
//!
//! A `.nn` file has a JSON block (layers, device, training history), followed by named f32 tensors. DataCode 2.1.0 and
//! DataCode 2.1.1 and later write different dialects with the same version number:
//!
//! | | dialect `a` (2.1.0) | dialect `b` (2.1.1 and later) |
//! |---|---|---|
//! | weight | `[in, out]` | `[out, in]` |
//! | bias | `[1, out]` (or `[out]`) | `[out]` |
//! | N in `layer{N}.weight` | index among all layers | index among the Linear layers |
//! | stages | all, without `lr_history` | the last 10, with `lr_history` |
//!
//! The codec finds the dialect from the evidence in the file. If the evidence conflicts or is missing, the error lists
//! it and asks for the option `dialect`.
//!
//! **Tensors** keep the names that they have in the file. The **graph** is a chain of Gemm, Relu, Sigmoid, Tanh,
//! Softmax and Flatten. There is no graph if the file does not describe the layers completely (DataCode stores a
//! convolution as a Linear layer with 0 features); such a file can still be converted from `.nn` to `.nn` unchanged.
//!
//! The **metadata** namespace `nn` has these keys: `json`, the JSON block; `dialect`; and `order`, the names of the
//! tensors if the file does not store them layer by layer, weight before bias. Writing uses `json` unchanged if it
//! describes the layers and the dialect is the same, so `.nn` → `.nn` is byte-identical.
//!
//! **Writing** accepts any chain of the operators above. It skips Identity nodes, which compute nothing.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod block;
mod description;
mod dialect;
mod format;
mod read;
mod summary;
mod training;
mod write;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, DType, FormatInfo, Input, Limits, Match, Network, Op, OptionKind,
    OptionSpec, Options, OutputLayout, Result, Side,
};

/// The codec of the format `nn`.
///
/// ```
/// use ckpt_api::{Codec, Input, Match};
/// let files = [("model.nn".to_owned(), b"DATACODE\x01\0\0\0".to_vec())].into();
/// let input = Input::memory("model.nn", files);
/// assert!(matches!(ckpt_nn::Nn.probe(&input)?, Match::Certain(_)));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Nn;

const OPS: &[Op] = &[Op::Gemm, Op::Relu, Op::Sigmoid, Op::Tanh, Op::Softmax, Op::Flatten];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "dialect",
        OptionKind::Choice(&["a", "b"]),
        Side::Both,
        "a: DataCode 2.1.0; b: 2.1.1 and later (reading: found by evidence; writing: the source's own, else b)",
    ),
    OptionSpec::lenient("accept what DataCode's loader accepts, reporting every repair (default false)"),
    OptionSpec::new(
        "zero_bias",
        OptionKind::Flag,
        Side::Write,
        "give a layer without bias one of zeros, which .nn needs (default false: an error)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "DataCode neural network")
    .with_extensions(&["nn"])
    .with_reads(&[Network::DENSE])
    .with_writes(&[Network::DENSE])
    .with_keeps(&[Aspect::Graph, Aspect::Axes])
    .with_dtypes(&[DType::F32])
    .with_ops(OPS)
    .with_options(OPTIONS);

impl Codec for Nn {
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
