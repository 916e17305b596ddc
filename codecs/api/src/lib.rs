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

mod activation;
mod address;
mod architecture;
mod aspect;
mod attribute;
mod axis;
mod axis_order;
pub mod base64_text;
mod blocks;
mod chain;
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
mod file;
mod find_ties;
mod finish;
mod fit;
mod fletcher;
mod graph;
mod handed;
mod ids;
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
mod nearest;
mod nested;
mod op;
mod op_spec;
mod options;
mod output_layout;
mod output_name;
mod part;
mod phases;
mod placement;
mod power;
mod protobuf_numbers;
mod quantization;
mod read_at;
mod role;
mod scalar;
mod scattered;
mod section;
mod setting;
mod shape;
mod signs;
mod size;
mod store;
mod tensor;
mod ties;
mod tiles;
mod viewed;
mod words;
mod writer;
pub mod zip;

pub use activation::Activation;
pub use address::Address;
pub use architecture::{
    Architecture, ArchitectureFile, ArchitectureLayer, ConvolutionWindow, Padding, WeightedLayer,
};
pub use aspect::Aspect;
pub use axis::Axis;
pub use axis_order::{AxisOrder, AxisPart, Tile};
pub use blocks::{Blocks, DecodeBlock, EncodeBlocks, Misfit};
pub use checkpoint::Checkpoint;
pub use checksum::{Checksum, ChecksumAlgorithm, RunningChecksum};
pub use codec::{Codec, FormatInfo, Match, Network};
pub use compression::{Compression, Method, ProtobufNumbers, Signs};
pub use contents::{Contents, MissingGraph, Repair, Rules, ShapeMismatch};
pub use copies::{add_parts, add_unlisted};
pub use cover::check_cover;
pub use cursor::Cursor;
pub use dtype::{DType, Endian};
pub use encoding::{Encoding, Packing, Rounding, Scaling};
pub use error::{Context, Error, Kind, Result};
pub use extent::{BlockScales, Computed, Extent, Operation, Region};
pub use file::File;
pub use finish::FinishState;
pub use graph::{Attribute, Graph, Node, Value};
pub use ids::{FileId, TensorId};
pub use input::Input;
pub use limits::{Limit, Limits};
pub use loss::{Loss, LossKind};
pub use metadata::{KEY_WEIGHTS, Metadata, MetadataMap, MetadataValue};
pub use mostly_one::{Extents, MostlyOne};
pub use name::Name;
pub use nearby::nearby;
pub use nearest::nearest;
pub use nested::MAX_GRAPH_LEVELS;
pub use op::Op;
pub use op_spec::{InputKind, InputSpec, InputView, OpCall, OpShapes, OpSpec, OutputView, ParameterSpec};
pub use options::{OptionKind, OptionSpec, Options, Side};
pub use output_layout::{Literal, OutputFile, OutputLayout, Reading, Written};
pub use part::{PartName, PartSet, weights_left_elsewhere};
pub use phases::Phases;
pub use placement::{Added, AddedAxis, Placement, Window};
pub use quantization::{Affine, Quantization};
pub use read_at::{ReadAt, read_exact_at};
pub use role::Role;
pub use scalar::Scalar;
pub use scattered::ScatteredChecksum;
pub use setting::{LibraryWords, Setting, Vocabulary};
pub use shape::Shape;
pub use size::parse_size;
pub use store::{Directory, ReadStore, open_regular};
pub use tensor::{Slot, Tensor};
pub use ties::Ties;
pub use viewed::Viewed;
pub use words::{count, first_few};
pub use writer::{Number, Writer};
