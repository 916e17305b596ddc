//! Where the bytes of tensors are, and how they encode elements.

mod agreement;
mod axis_order;
mod compression;
mod computed;
mod cover;
mod decoder;
mod encoding;
mod extent;
mod fit;
mod ids;
mod integers;
mod kept;
mod mostly_one;
mod packed;
mod placement;
mod plain_decoders;
mod product;
mod tiles;

pub use axis_order::{AxisOrder, AxisPart, Tile};
pub use compression::Compression;
pub(crate) use compression::FLETCHER_BYTES;
pub use cover::check_cover;
pub(crate) use decoder::DecoderKind;
pub use decoder::{
    CheckParameters, DecodeInPlace, DecodeStream, DecodeWhole, Decoder, DecoderUnit, HostedDecoder,
    LongestOutput, Parameters, StartStream, StoredBytes,
};
pub use encoding::{Encoding, Packing, Rounding, Scaling};
pub use extent::{
    AffineIntegers, Agreement, BlockIndex, BlockNumbers, BlockReduction, Computed, Extent, MatrixFactor,
    MatrixProduct, Operand, Operation, Reduction, Region, RowMagnitudes, RunNumbers, Term, Words,
};
pub(crate) use fit::check_fit;
pub use ids::{FileId, TensorId};
pub use kept::Kept;
pub use mostly_one::{Extents, MostlyOne};
pub use packed::{Along, FieldOrder, PackedIntegers};
pub use placement::{Added, AddedAxis, Placement, Window};
pub use plain_decoders::Signs;
