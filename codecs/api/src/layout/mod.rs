//! Where the bytes of tensors are, and how they encode elements.

mod axis_order;
mod compression;
mod computed;
mod cover;
mod encoding;
mod extent;
mod fit;
mod ids;
mod mostly_one;
mod placement;
mod tiles;

pub use axis_order::{AxisOrder, AxisPart, Tile};
pub(crate) use compression::FLETCHER_BYTES;
pub use compression::{Compression, Method, ProtobufNumbers, Signs};
pub use cover::check_cover;
pub use encoding::{Encoding, Packing, Rounding, Scaling};
pub use extent::{BlockScales, Computed, Extent, Operation, Region};
pub(crate) use fit::check_fit;
pub use ids::{FileId, TensorId};
pub use mostly_one::{Extents, MostlyOne};
pub use placement::{Added, AddedAxis, Placement, Window};
