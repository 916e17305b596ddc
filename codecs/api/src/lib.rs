//! The contract of `ckpt`: everything that a codec author needs, and nothing else.
//!
//! A **checkpoint** is a graph, named tensors and metadata ([`Checkpoint`]). A **codec** ([`Codec`]) never
//! loops over tensor data: reading, it returns *where* every tensor's bytes are; writing, it returns *where*
//! they go and the header bytes between them. The same type, [`Placement`], serves both directions, and one
//! executor moves the bytes for every format.
//!
//! ```text
//! read   Input      → Contents { checkpoint, files, placements, repairs, notes }
//! place  Checkpoint → OutputLayout   { files, placements, literals, losses }
//! finish Written    → literals that depend on what was written (checksums)
//! ```
//!
//! The crate `ckpt-conformance` has the checks that every codec's own tests run.
//!
//! # Rooms
//! The source has a folder for each subject. A folder depends only on folders above it in this list:
//!
//! | folder | what it has |
//! |---|---|
//! | `loss` | [`Loss`], [`Aspect`], [`Role`] |
//! | `text` | [`Name`], [`count`], [`first_repeated`], [`nearest`], [`parse_size`] |
//! | `errors` | [`Error`], the [`Setting`] that its help names, [`Limits`] |
//! | `metadata` | [`Metadata`] and its values |
//! | `tensor` | [`Tensor`], [`DType`], [`Shape`], [`Axis`], [`Quantization`], [`Blocks`] |
//! | `checksum` | [`Checksum`] |
//! | `layout` | [`Placement`], [`Extent`], [`Encoding`], and the check that they fit a tensor |
//! | `io` | [`Input`], [`File`], [`ReadStore`]; [`fields`] and [`Writer`] for headers |
//! | `decode` | [`Extent::open`], which lets a [`Decoder`] decode stored bytes |
//! | `graph` | [`Graph`], [`Op`], [`OpSpec`] |
//! | `checkpoint` | [`Checkpoint`], [`Ties`] |
//! | `architecture` | [`ArchitectureFile`], [`Architecture`] |
//! | `codec` | [`Codec`], [`Options`], [`Contents`], [`OutputLayout`] |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod architecture;
mod checkpoint;
mod checksum;
mod codec;
mod decode;
mod errors;
mod graph;
mod io;
mod layout;
mod loss;
mod metadata;
mod tensor;
mod text;

/// The parser combinators, in the version whose traits [`fields`] implements.
pub use nom;

pub use architecture::{
    Architecture, ArchitectureFile, ArchitectureLayer, ConvolutionWindow, Padding, WeightedLayer,
};
pub use checkpoint::{Checkpoint, Ties};
pub use checksum::{Checksum, ChecksumAlgorithm, RunningChecksum, ScatteredChecksum};
pub use codec::{
    Codec, Contents, FinishState, FormatInfo, Literal, Match, MissingGraph, Network, OptionKind, OptionSpec,
    Options, OutputFile, OutputLayout, PartName, PartSet, Phases, Provenance, Reading, Repair, Rules,
    ShapeMismatch, Side, Values, Written, add_parts, add_unlisted, weights_left_elsewhere,
};
pub use errors::{
    Context, Error, ErrorTexts, Kind, LibraryWords, Limit, Limits, Result, Segment, Setting, Text, Vocabulary,
};
pub use graph::{
    Activation, Attribute, Graph, HostedOp, InputKind, InputSpec, InputView, MAX_GRAPH_LEVELS, Node, Op,
    OpCall, OpShapes, OpSpec, OutputView, ParameterSpec, Reference, ResultShape, Value,
};
pub use io::{
    Address, Directory, Fields, File, Input, Number, ReadAt, ReadStore, Writer, directories_of, fields,
    nearby, open_regular, read_exact_at,
};
pub use layout::{
    Added, AddedAxis, AffineIntegers, Agreement, Along, AxisOrder, AxisPart, BlockIndex, BlockNumbers,
    BlockReduction, CheckParameters, Compression, Computed, DecodeInPlace, DecodeStream, DecodeWhole,
    Decoder, DecoderUnit, Encoding, Extent, Extents, FieldOrder, FileId, HostedDecoder, Kept, LongestOutput,
    MatrixFactor, MatrixProduct, MostlyOne, Operand, Operation, PackedIntegers, Packing, Parameters,
    Placement, Reduction, Region, Rounding, RowMagnitudes, RunNumbers, Scaling, Signs, StartStream,
    StoredBytes, TensorId, Term, Tile, Window, Words, check_cover,
};
pub use loss::{Aspect, Loss, LossKind, Role};
pub use metadata::{KEY_WEIGHTS, Metadata, MetadataMap, MetadataValue};
pub use tensor::{
    Affine, Axis, BlockCoder, Blocks, DType, DecodeBlock, EncodeBlocks, Endian, Misfit, Quantization, Scalar,
    Shape, Slot, Tensor, Viewed,
};
pub use text::{Name, base64_text, count, first_few, first_repeated, nearest, parse_size};
