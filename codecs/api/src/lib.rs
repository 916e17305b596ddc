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
//! [`conformance`] has the checks that every codec's own tests run.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod address;
mod architecture;
mod aspect;
mod attribute;
mod axis_order;
pub mod base64_text;
mod blocks;
mod checkpoint;
mod checksum;
mod codec;
mod compression;
mod computed;
pub mod conformance;
mod contents;
mod copies;
mod cover;
mod cursor;
mod decompress;
mod dtype;
mod encoding;
mod error;
mod extent;
mod finish;
mod fit;
mod fletcher;
mod graph;
mod handed;
mod input;
mod latin1;
mod limits;
mod links;
mod loss;
mod lzf;
mod metadata;
mod mostly_one;
mod name;
mod nearby;
mod nested;
mod op;
mod op_spec;
mod options;
mod output_layout;
mod output_name;
mod part;
mod phases;
mod placement;
mod protobuf_numbers;
mod quantization;
mod read_at;
mod scattered;
mod setting;
mod signs;
mod store;
mod tensor;
mod ties;
mod tiles;
mod viewed;
mod words;
mod writer;
pub mod zip;

pub use address::Address;
pub use architecture::{
    Activation, Architecture, ArchitectureFile, ArchitectureLayer, ConvolutionWindow, Padding, WeightedLayer,
};
pub use aspect::Aspect;
pub use attribute::Attribute;
pub use axis_order::AxisOrder;
pub use blocks::{Blocks, DecodeBlock, EncodeBlocks, Misfit};
pub use checkpoint::Checkpoint;
pub use checksum::{Checksum, ChecksumAlgorithm, RunningChecksum};
pub use codec::{Codec, FormatInfo, Match, Network};
pub use compression::{Compression, Method, ProtobufNumbers, Signs};
pub use computed::{BlockScales, Computed, Operation, Scalar};
pub use contents::{Contents, MissingGraph, Repair, Rules, ShapeMismatch};
pub use copies::{add_parts, add_unlisted};
pub use cover::check_cover;
pub use cursor::Cursor;
pub use dtype::{DType, Endian};
pub use encoding::{Encoding, Packing, Rounding, Scaling};
pub use error::{Context, Error, Kind, Result};
pub use extent::{Extent, Region};
pub use finish::FinishState;
pub use graph::{Graph, Node, Value};
pub use input::{File, Input};
pub use limits::{Limit, Limits};
pub use loss::{Loss, LossKind};
pub use metadata::{KEY_WEIGHTS, Metadata, MetadataMap, MetadataValue};
pub use mostly_one::{Extents, MostlyOne};
pub use name::Name;
pub use nearby::nearby;
pub use nested::MAX_GRAPH_LEVELS;
pub use op::Op;
pub use op_spec::{InputKind, InputSpec, InputView, OpCall, OpShapes, OpSpec, OutputView, ParameterSpec};
pub use options::{OptionKind, OptionSpec, Options, Side, nearest, parse_size};
pub use output_layout::{Literal, OutputFile, OutputLayout, Reading, Written};
pub use part::{PartName, PartSet, weights_left_elsewhere};
pub use phases::Phases;
pub use placement::{Added, AddedAxis, FileId, Placement, TensorId, Window};
pub use quantization::{Affine, Quantization};
pub use read_at::{ReadAt, read_exact_at};
pub use scattered::ScatteredChecksum;
pub use setting::{LibraryWords, Setting, Vocabulary};
pub use store::{Directory, ReadStore, open_regular};
pub use tensor::{Axis, Role, Shape, Slot, Tensor};
pub use ties::Ties;
pub use tiles::{AxisPart, Tile};
pub use viewed::Viewed;
pub use words::{count, first_few};
pub use writer::{Number, Writer};
