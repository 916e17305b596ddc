//! Whether an output can share blocks with its source, and where its tensors should begin for that.

use crate::plan::{CloneSettings, Cloning};
use crate::source::Source;
use crate::store::Destination;
use ckpt_api::{AxisOrder, Contents, Endian, Error, Phases, Placement, Result, Tensor};
use std::num::NonZeroU64;

/// Fewer bytes are copied faster than anybody finds out whether they can be shared. Tests share small ones, too.
const WORTH_IT: u64 = if cfg!(test) { 1 } else { 1 << 20 };

/// How a plan clones; `None` if all bytes are copied.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] if everything must be cloned, and the file system cannot.
pub(super) fn settings(
    cloning: Cloning,
    source: &Source,
    output: &Destination,
) -> Result<Option<CloneSettings>> {
    let always = match cloning {
        Cloning::Never => return Ok(None),
        Cloning::Auto if stored_bytes(source) < WORTH_IT => return Ok(None),
        Cloning::Auto => false,
        Cloning::Always => true,
    };
    let first = source.contents.files.first().and_then(|name| source.input.file(name).ok());
    let file = first.as_ref().and_then(|file| file.as_file());
    let block = file.and_then(|file| output.store.clone_block(file));
    match block {
        Some(block) => Ok(Some(CloneSettings { block, always })),
        None if always => Err(Error::usage("the output cannot share blocks with the source")
            .file(output.store.display(output.name()))
            .found("a file system that does not share blocks, or another one than the source's")
            .help("write beside the source on XFS, btrfs or bcachefs, or let it be copied")),
        None => Ok(None),
    }
}

fn stored_bytes(source: &Source) -> u64 {
    let extents = source.contents.placements.iter().flat_map(|placement| &placement.extents);
    extents.fold(0, |sum, extent| sum.saturating_add(extent.len))
}

/// Where the source stores each tensor within a block; nothing for those whose bytes are sure to change.
pub(super) fn phases(block: NonZeroU64, contents: &Contents) -> Phases {
    let pairs = contents.checkpoint.tensors.iter().zip(&contents.placements);
    Phases::new(block, pairs.map(|(tensor, placement)| offset(tensor, placement)).collect())
}

/// Where a tensor's bytes begin that formats store as they are: one run, row-major and little-endian, in the tensor's dtype.
fn offset(tensor: &Tensor, placement: &Placement) -> Option<u64> {
    let Placement { extents, encoding, .. } = placement;
    let [only] = &extents[..] else { return None };
    let is_stored = placement.window().is_none() && !only.is_compressed() && !only.is_computed();
    let is_kept = encoding.dtype == tensor.dtype
        && encoding.order == AxisOrder::row_major(tensor.shape.rank())
        && (encoding.endian == Endian::Little || tensor.dtype.component_bytes() == 1)
        && encoding.tiles().is_empty()
        && encoding.scaling().is_none();
    (is_stored && is_kept).then_some(only.offset)
}
