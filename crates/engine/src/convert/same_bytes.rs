//! Whether an unchanged checkpoint that is written in its own format has the bytes that it was read with.

use super::Conversion;
use crate::plan::Plan;
use crate::source::Source;
use ckpt_api::{Codec, Contents, Extent, File, OutputLayout, Placement, Written};
use std::ops::Range;

/// Bytes of a source that are read at once.
const READ: usize = 1 << 20;

/// Returns a note if one file is written as one of the same format, with nothing changed, and does not have its bytes.
///
/// Lengths, the places of tensors and the bytes between them are compared. Not compared is what a codec writes only when
/// the tensors are written, such as checksums.
pub(super) fn note(
    conversion: &Conversion,
    source: &Source,
    plan: &Plan,
    codec: &dyn Codec,
) -> Option<String> {
    let is_changed = conversion.mapping.is_some()
        || conversion.dtype.is_some()
        || !(conversion.transforms.is_empty()
            && conversion.include.is_empty()
            && conversion.exclude.is_empty())
        || !conversion.options.is_empty()
        || !(source.options.options.is_empty() && source.contents.repairs.is_empty());
    // A loss says already what is not as it was.
    if is_changed || plan.from() != plan.to() || !plan.losses.is_empty() {
        return None;
    }
    let ([name], [file]) = (&source.contents.files[..], plan.files()) else { return None };
    let before = source.input.file(name).ok()?;
    let bytes = before.len();
    let why = match (file.len, moved(&plan.contents, &plan.placed)) {
        (Some(len), _) if len != bytes => format!("it has {bytes} bytes, and the output {len}"),
        (_, Some(name)) => format!("'{name}' is elsewhere in the output"),
        (_, None) => {
            let at = first_difference(&before, &plan.placed, &finished_later(codec, &plan.placed)?)?;
            format!("the output has another byte at offset {at}")
        }
    };
    Some(format!("the tensors stay what they are, but the file is not written byte for byte: {why}"))
}

/// Returns the name of the first tensor that does not have its place.
fn moved<'a>(contents: &Contents, placed: &'a OutputLayout) -> Option<&'a str> {
    let has_its_place = |to: &&Placement| {
        let from = contents.placements.get(to.tensor.0).map(|from| &from.extents[..]);
        let same = |(a, b): (&Extent, &Extent)| (a.offset, a.len) == (b.offset, b.len);
        from.is_some_and(|from| from.len() == to.extents.len() && from.iter().zip(&to.extents).all(same))
    };
    placed.placements.iter().find(|to| !has_its_place(to)).map(|to| to.name.as_str())
}

/// Returns the bytes that the codec decides after the tensors are written, sorted: those that it writes for made-up
/// checksums. `None` if it cannot say.
fn finished_later(codec: &dyn Codec, placed: &OutputLayout) -> Option<Vec<Range<u64>>> {
    let sums = |placement: &Placement| Written {
        checksums: placement.extents.iter().map(|extent| extent.checksum.as_ref().map(|_| 0)).collect(),
    };
    let written: Vec<Written> = placed.placements.iter().map(sums).collect();
    let literals = codec.finish(placed, &written).ok()?;
    let range = |offset: u64, len: usize| offset..offset.saturating_add(len as u64);
    let mut later: Vec<_> =
        literals.iter().map(|literal| range(literal.offset, literal.bytes.len())).collect();
    later.sort_unstable_by_key(|range| range.start);
    Some(later)
}

/// Returns the offset of a byte between the tensors that differs from the source's.
///
/// Gives up after as many reads and bytes as cost little: a header is as long as the limits allow, and each read of a file
/// behind a network is a request.
fn first_difference(before: &File, placed: &OutputLayout, later: &[Range<u64>]) -> Option<u64> {
    let (most_reads, mut bytes_left) =
        if before.as_file().is_some() { (65_536, 128 << 20) } else { (4, 2 * READ) };
    let pieces = placed.literals.iter().flat_map(|literal| {
        let start = |number: usize| literal.offset.saturating_add((number * READ) as u64);
        literal.bytes.chunks(READ).enumerate().map(move |(number, bytes)| (start(number), bytes))
    });
    for (start, after) in pieces.take(most_reads) {
        bytes_left = bytes_left.checked_sub(after.len())?;
        let before = before.bytes(start, after.len() as u64).ok()?;
        let differing =
            (start..).zip(before.iter().zip(after)).filter(|(_, (before, after))| before != after);
        let is_compared = |at: &u64| {
            let next = later.partition_point(|range| range.end <= *at);
            later.get(next).is_none_or(|range| !range.contains(at))
        };
        if let Some(at) = differing.map(|(at, _)| at).find(is_compared) {
            return Some(at);
        }
    }
    None
}
