//! The trait that a format implements.

use crate::{
    Block, Checkpoint, Contents, DType, Input, Limits, Op, OptionSpec, Options, Placed, Result, Written,
};
use serde::Serialize;

/// One format. A codec holds no state: the same arguments give the same result.
///
/// No method may panic on any input. Headers are read in `read`; tensor data never is, but for what a format
/// interleaves with its lengths (strings).
pub trait Codec: Send + Sync {
    /// What the format is and can hold.
    fn info(&self) -> &FormatInfo;

    /// Whether the input is this format. Looks at as little as decides; an input that cannot be read is an error,
    /// one that is anything else is [`Match::No`].
    ///
    /// # Errors
    /// [`crate::Kind::Io`].
    fn probe(&self, input: &Input) -> Result<Match>;

    /// Reads everything but tensor data.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`], [`crate::Kind::Unsupported`], [`crate::Kind::Limit`], [`crate::Kind::Io`].
    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents>;

    /// Says where every tensor of `checkpoint` goes and which bytes lie between. `name` is the last component
    /// of the output's path; files are named after it.
    ///
    /// Called for formats that write by their [`FormatInfo::writes`].
    ///
    /// # Errors
    /// [`crate::Kind::Lossy`], [`crate::Kind::Unsupported`], [`crate::Kind::Usage`]. What could be written at a
    /// loss is no error but a [`crate::Loss`].
    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<Placed>;

    /// Returns the blocks that depend on what was written. `written` is parallel to `placed.placements`.
    ///
    /// # For implementers
    /// The engine calls this once, after all tensors are written. `placed` is what [`Codec::place`] returned, perhaps
    /// in another process: then [`Placed::finish`] was written to a plan and read again.
    ///
    /// # Errors
    /// Those of [`crate::FinishState::get`]; none else for a `placed` that this codec made.
    fn finish(&self, placed: &Placed, written: &[Written]) -> Result<Vec<Block>> {
        let _ = (placed, written);
        Ok(Vec::new())
    }
}

/// How sure a codec is of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "match", content = "why", rename_all = "kebab-case")]
pub enum Match {
    /// It is something else.
    No,
    /// Nothing contradicts it, and nothing proves it: never chosen silently.
    Possible(String),
    /// A magic number or an equally strong sign, named here.
    Certain(String),
}

/// What a format is and can hold: what `ckpt formats`, the planner and the documentation read.
#[derive(Clone, Debug, Serialize)]
pub struct FormatInfo {
    /// Short name, as `--from` and `--to` take it.
    pub id: &'static str,
    /// Full name.
    pub title: &'static str,
    /// File name endings, without the dot.
    pub extensions: &'static [&'static str],
    /// Networks that can be read from a file of the format; empty where the codec does not read.
    pub reads: &'static [Network],
    /// Networks that can be written: all where tensors of any shape have a place; empty where the codec does not write.
    pub writes: &'static [Network],
    /// Dtypes that can be written as they are.
    pub dtypes: &'static [DType],
    /// Ops that can be written; empty where the format stores no graph.
    #[serde(serialize_with = "op_names")]
    pub ops: &'static [Op],
    /// Whether tensors can have any name.
    pub free_names: bool,
    /// Whether any metadata of other formats survives.
    pub free_metadata: bool,
    /// The options that the codec knows.
    pub options: &'static [OptionSpec],
}

impl FormatInfo {
    /// Whether there is a network that can be read from this format and written in `target`.
    ///
    /// One checkpoint may still be refused: by what it holds, or because what it does not say has to be said first.
    pub fn converts_to(&self, target: &FormatInfo) -> bool {
        self.reads.iter().any(|network| target.writes.contains(network))
    }
}

/// Kinds of networks, as far as formats differ in which of them they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Network {
    /// A chain of dense layers.
    Dense,
    /// Convolutions of images.
    Convolutional,
    /// An efficiently updatable network of a chess engine (NNUE).
    Nnue,
}

impl Network {
    /// Every kind: what a format holds that has a place for tensors of any name and shape.
    pub const ALL: &'static [Network] = &[Network::Dense, Network::Convolutional, Network::Nnue];

    /// The name used in JSON and shown to people.
    pub const fn name(self) -> &'static str {
        match self {
            Network::Dense => "dense",
            Network::Convolutional => "convolutional",
            Network::Nnue => "nnue",
        }
    }
}

fn op_names<S: serde::Serializer>(ops: &&'static [Op], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ops.iter().map(Op::name))
}
