//! Reads and writes DataCode `.nn` models for `ckpt`, in both dialects that exist.
//!
//! A `.nn` file is a JSON block (layers, device, training history) followed by named f32 tensors. DataCode 2.1.0
//! and DataCode 2.1.1 and later write it differently under the same version number:
//!
//! | | dialect `a` (2.1.0) | dialect `b` (2.1.1 and later) |
//! |---|---|---|
//! | weight | `[in, out]` | `[out, in]` |
//! | bias | `[1, out]` (or `[out]`) | `[out]` |
//! | N in `layer{N}.weight` | index among all layers | index among the Linear layers |
//! | stages | all, without `lr_history` | the last 10, with `lr_history` |
//!
//! The dialect is found by evidence; where that conflicts or is missing, the error lists it and asks for the
//! option `dialect`.
//!
//! **Tensors** keep the names they have in the file. **Graph**: a chain of Gemm, Relu, Sigmoid, Tanh, Softmax,
//! Flatten. There is none where the file does not say what the model computes (DataCode stores a convolution as a
//! Linear layer with 0 features); such a file still goes from `.nn` to `.nn` unchanged.
//!
//! **Metadata**, namespace `nn`: `json`, the JSON block as it is; `dialect`; `order`, the names of the tensors
//! where the file does not have them layer by layer, weight before bias. Writing uses `json` as it is when it
//! describes the layers and the dialect stays, so that `.nn` → `.nn` is byte-identical.
//!
//! **Writing** takes any chain of the ops above; Identity nodes are skipped, for they compute nothing.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod description;
mod dialect;
mod format;
mod read;
mod training;
mod write;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, DType, FormatInfo, Input, Limits, Match, Network, Op, OptionKind,
    OptionSpec, Options, OutputLayout, Result, Side,
};

/// The codec.
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
