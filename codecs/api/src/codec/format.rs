//! The trait that a format implements.

use crate::{
    Aspect, Blocks, Checkpoint, Contents, DType, Decoder, Input, Limits, Literal, Op, OpSpec, OptionSpec,
    Options, OutputLayout, Result, TensorId, Written,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The values of tensors that are to be written, for [`Codec::prepare`].
pub trait Values {
    /// The source's files.
    fn input(&self) -> &Input;

    /// Hands out the elements of a tensor as 32-bit floats, in row-major order and in pieces of bounded size.
    ///
    /// # Errors
    /// Those of reading the tensor; [`crate::Kind::Unsupported`] for one whose elements are no numbers.
    fn numbers(&self, tensor: TensorId, each: &mut dyn FnMut(&[f32])) -> Result<()>;
}

/// One format. A codec holds no state: the same arguments give the same result.
///
/// No method may panic on any input. Headers are read in `read`; tensor data never is, but for what a format
/// interleaves with its lengths (strings).
pub trait Codec: Send + Sync {
    /// What the format is and can hold.
    fn info(&self) -> &FormatInfo;

    /// Where the codec comes from, if it is not part of the program, such as a plugin. Plans record it, and are run with the same
    /// codec only.
    fn provenance(&self) -> Option<&Provenance> {
        None
    }

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

    /// Decides where every tensor of `checkpoint` goes and which bytes are between. `name` is the last component
    /// of the output's path; files are named after it ([`OutputLayout::check_names`]), whatever the checkpoint says.
    ///
    /// Called for formats that write by their [`FormatInfo::writes`].
    ///
    /// # Errors
    /// [`crate::Kind::Lossy`], [`crate::Kind::Unsupported`], [`crate::Kind::Usage`]. What can be written at a loss is
    /// no error. The engine declares the losses that it can see: dtypes and scales that differ from the tensor's,
    /// tensors without a place, and what the format does not keep. [`OutputLayout::losses`] has the others.
    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout>;

    /// Replaces tensors that are to be written by what the format stores of them, before [`Codec::place`] decides where they go:
    /// those whose length or header depends on the values, as of compressed integers, or of integers with scales. The graph may
    /// state numbers in place of tensors that nodes take as constants. `None` if nothing changes.
    ///
    /// # For implementers
    /// `contents` are the mapped tensors and where their bytes are in [`Values::input`]; a tensor that is replaced keeps its place
    /// in the list and its name. Values may be read, once and in pieces. The decoders of extents that are added are among
    /// [`Codec::decoders`].
    ///
    /// # Errors
    /// [`crate::Kind::Io`], and those of reading values.
    fn prepare(
        &self,
        values: &dyn Values,
        contents: &Contents,
        options: &Options,
    ) -> Result<Option<Contents>> {
        let _ = (values, contents, options);
        Ok(None)
    }

    /// The block encodings that [`Codec::read`] gives tensors, so that a plan that was written to a file finds their
    /// decoders.
    fn block_encodings(&self) -> &'static [Blocks] {
        &[]
    }

    /// The decoders of the compressed extents that [`Codec::read`] returns, so that a plan that was written to a file finds
    /// them. No two have the same name. [`Decoder::STORED`], [`Decoder::REPEATED`] and [`crate::Signs`] need no codec.
    fn decoders(&self) -> &'static [&'static Decoder] {
        &[]
    }

    /// Returns the literals that depend on what was written. `written` is parallel to `placed.placements`.
    ///
    /// # For implementers
    /// The engine calls this after all tensors are written. `placed` is what [`Codec::place`] returned, perhaps
    /// in another process: then [`OutputLayout::finish`] was written to a plan and read again. The engine may also call it
    /// while it plans, with made-up checksums, to learn which bytes are decided here: these depend on the arguments only,
    /// and their places on `placed` only.
    ///
    /// # Errors
    /// Those of [`crate::FinishState::get`]; none else for a `placed` that this codec made.
    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        let _ = (placed, written);
        Ok(Vec::new())
    }

    /// Returns the definitions of the operators beyond ONNX's that the format's graphs use. With them, the engine runs
    /// and verifies such graphs, of this format and of any that carries the graph along.
    fn ops(&self) -> &'static [OpSpec] {
        &[]
    }
}

/// Where a codec comes from that is not part of the program.
///
/// ```
/// use ckpt_api::Provenance;
/// let provenance = Provenance::new("plugin", "toy.wasm", "0.1.0", "5f".repeat(32));
/// assert_eq!(provenance.to_string(), "plugin toy.wasm, version 0.1.0, SHA-256 5f5f5f5f5f5f");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Provenance {
    /// What it is, in one word, such as `plugin`.
    pub kind: String,
    /// Where it is: a path, or a name.
    pub origin: String,
    /// Its own version.
    pub version: String,
    /// The SHA-256 of its code, in lowercase hexadecimal digits.
    pub sha256: String,
}

impl Provenance {
    /// A codec of this kind, from this origin.
    pub fn new(
        kind: impl Into<String>,
        origin: impl Into<String>,
        version: impl Into<String>,
        sha256: impl Into<String>,
    ) -> Self {
        Provenance {
            kind: kind.into(),
            origin: origin.into(),
            version: version.into(),
            sha256: sha256.into(),
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Provenance { kind, origin, version, sha256 } = self;
        write!(f, "{kind} {origin}, version {version}, SHA-256 {}", sha256.get(..12).unwrap_or(sha256))
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
#[non_exhaustive]
pub struct FormatInfo {
    /// Short name, as `--from` and `--to` take it.
    pub id: &'static str,
    /// Full name.
    pub title: &'static str,
    /// File name endings, without the dot.
    pub extensions: &'static [&'static str],
    /// Networks that can be read from a file of the format; empty if the codec does not read.
    pub reads: &'static [Network],
    /// Networks that can be written: all where tensors of any shape have a place; empty if the codec does not write.
    pub writes: &'static [Network],
    /// Dtypes that can be written as they are.
    pub dtypes: &'static [DType],
    /// Ops that can be written; empty if the format stores no graph.
    #[serde(serialize_with = "op_names")]
    pub ops: &'static [Op],
    /// Whether tensors can have any name.
    pub free_names: bool,
    /// The framework whose files these are, as other files name it, such as `pt`.
    #[serde(skip)]
    pub framework: Option<&'static str>,
    /// What comes back when a file of the format is read. The engine declares the loss of everything else; where the
    /// format keeps something of this only sometimes, its codec declares the losses.
    pub keeps: &'static [Aspect],
    /// The options that the codec knows.
    pub options: &'static [OptionSpec],
    /// Whether the format's own metadata describes the model: a checkpoint that gets its graph from a model of the format
    /// gets that metadata, too, when it is written in the format.
    #[serde(skip)]
    pub describes_models: bool,
    /// Names of files that an output can have beside the one that the user names, whatever that is called, such as the
    /// file `checkpoint` of TensorFlow. All other names follow from the user's.
    #[serde(skip)]
    pub fixed_names: &'static [&'static str],
    /// Whether the codec stores weights quantized by itself if its option `quantize` says so; else the engine makes the tensors
    /// that a scheme of this name has.
    #[serde(skip)]
    pub quantizes_itself: bool,
    /// The file that holds the graph, if a model of the format is a directory, such as `saved_model.pb`: what a plan records
    /// of a model that only gives its graph.
    #[serde(skip)]
    pub graph_file: Option<&'static str>,
    /// What the tensors are called in a directory that other programs open, such as `model.safetensors`.
    #[serde(skip)]
    pub directory_file: Option<&'static str>,
    /// The ending, without the dot, of files that hold one array and not its name, such as `npy`: the array is named after
    /// its file.
    #[serde(skip)]
    pub unnamed_array: Option<&'static str>,
}

impl FormatInfo {
    /// Whether a namespace of metadata is the format's own: its id, alone or followed by a dot and a name.
    pub fn owns(&self, namespace: &str) -> bool {
        namespace.split('.').next() == Some(self.id)
    }

    /// A format that reads and writes nothing yet: the setters add what it can.
    ///
    /// ```
    /// use ckpt_api::{DType, FormatInfo, Network};
    /// static INFO: FormatInfo = FormatInfo::new("toy", "Toy format")
    ///     .with_extensions(&["toy"])
    ///     .with_reads(Network::ALL)
    ///     .with_dtypes(&[DType::F32]);
    /// assert!(INFO.writes.is_empty());
    /// ```
    pub const fn new(id: &'static str, title: &'static str) -> Self {
        FormatInfo {
            id,
            title,
            extensions: &[],
            reads: &[],
            writes: &[],
            dtypes: &[],
            ops: &[],
            free_names: false,
            framework: None,
            describes_models: false,
            quantizes_itself: false,
            fixed_names: &[],
            graph_file: None,
            directory_file: None,
            unnamed_array: None,
            keeps: &[],
            options: &[],
        }
    }

    /// The same under another id.
    #[must_use]
    pub const fn with_id(mut self, id: &'static str) -> Self {
        self.id = id;
        self
    }

    /// File name endings, without the dot. Default: none.
    #[must_use]
    pub const fn with_extensions(mut self, extensions: &'static [&'static str]) -> Self {
        self.extensions = extensions;
        self
    }

    /// Networks that the codec reads. Default: none.
    #[must_use]
    pub const fn with_reads(mut self, reads: &'static [Network]) -> Self {
        self.reads = reads;
        self
    }

    /// Networks that the codec writes. Default: none.
    #[must_use]
    pub const fn with_writes(mut self, writes: &'static [Network]) -> Self {
        self.writes = writes;
        self
    }

    /// Dtypes that can be written as they are. Default: none.
    #[must_use]
    pub const fn with_dtypes(mut self, dtypes: &'static [DType]) -> Self {
        self.dtypes = dtypes;
        self
    }

    /// Ops that can be written. Default: none, the format stores no graph.
    #[must_use]
    pub const fn with_ops(mut self, ops: &'static [Op]) -> Self {
        self.ops = ops;
        self
    }

    /// Tensors can have any name. Default: the format names them.
    #[must_use]
    pub const fn with_free_names(mut self) -> Self {
        self.free_names = true;
        self
    }

    /// The format's files are those of one framework, which other files name so. Default: of none.
    #[must_use]
    pub const fn with_framework(mut self, framework: &'static str) -> Self {
        self.framework = Some(framework);
        self
    }

    /// The format's own metadata describes the model, and not only the file that it was read from. Default: it does not.
    #[must_use]
    pub const fn with_models_described(mut self) -> Self {
        self.describes_models = true;
        self
    }

    /// The codec itself stores weights as its option `quantize` says. Default: the engine does.
    #[must_use]
    pub const fn with_own_quantization(mut self) -> Self {
        self.quantizes_itself = true;
        self
    }

    /// Names of files beside an output that do not follow from its name. Default: none.
    #[must_use]
    pub const fn with_fixed_names(mut self, names: &'static [&'static str]) -> Self {
        self.fixed_names = names;
        self
    }

    /// The file of a model's directory that holds the graph. Default: none, a model is a file.
    #[must_use]
    pub const fn with_graph_file(mut self, name: &'static str) -> Self {
        self.graph_file = Some(name);
        self
    }

    /// The name of the tensors' file in a directory that other programs open. Default: none, a model is no directory.
    #[must_use]
    pub const fn with_directory_file(mut self, name: &'static str) -> Self {
        self.directory_file = Some(name);
        self
    }

    /// The ending of files that hold one array and not its name. Default: none.
    #[must_use]
    pub const fn with_unnamed_array(mut self, extension: &'static str) -> Self {
        self.unnamed_array = Some(extension);
        self
    }

    /// What comes back when a file of the format is read. Default: nothing.
    #[must_use]
    pub const fn with_keeps(mut self, keeps: &'static [Aspect]) -> Self {
        self.keeps = keeps;
        self
    }

    /// Options that the codec knows. Default: none.
    #[must_use]
    pub const fn with_options(mut self, options: &'static [OptionSpec]) -> Self {
        self.options = options;
        self
    }

    /// Whether a network can be read from this format and written in `target`.
    ///
    /// A single checkpoint may still be refused: for what it holds, or because it does not record all that the target
    /// needs.
    pub fn converts_to(&self, target: &FormatInfo) -> bool {
        if target.writes.contains(&Network::OWN) {
            return self.id == target.id || self.keeps.contains(&Aspect::Metadata);
        }
        let fits = |network: &Network| target.writes.iter().any(|other| network.overlaps(*other));
        self.reads.iter().any(fits)
    }
}

/// A kind of network, by name. Formats that hold the same kind convert to each other.
///
/// A format whose networks are unlike all others names its own kind: `Network::new("nnue")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Network(&'static str);

impl Network {
    /// A chain of dense layers.
    pub const DENSE: Network = Network::new("dense");

    /// Convolutions of images.
    pub const CONVOLUTIONAL: Network = Network::new("convolutional");

    /// Every kind: a format that holds tensors of any name and shape.
    pub const ALL: &'static [Network] = &[Network::EVERY];

    /// What was read from the format itself, whose metadata describes the file: formats that keep the metadata of others
    /// bring it back.
    pub const OWN: Network = Network::new("own");

    const EVERY: Network = Network::new("all");

    /// Returns the kind of this name: lowercase, one word.
    pub const fn new(name: &'static str) -> Self {
        Network(name)
    }

    /// Returns the name used in JSON and shown to people; `all` for every kind.
    pub const fn name(self) -> &'static str {
        self.0
    }

    fn overlaps(self, other: Network) -> bool {
        self == other || self == Network::EVERY || other == Network::EVERY
    }
}

fn op_names<S: serde::Serializer>(ops: &&'static [Op], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ops.iter().map(Op::name))
}
