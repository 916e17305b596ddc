//! Whether an unchanged checkpoint that is written in its own format has the bytes that it was read with.

use super::Conversion;
use crate::plan::Plan;
use crate::source::Source;
use ckpt_api::{Contents, Extent, OutputLayout, Placement};

/// Returns a note if one file is written as one of the same format, with nothing changed, and does not have its bytes.
///
/// What a codec writes only when the tensors are written, such as checksums, is not compared.
pub(super) fn note(conversion: &Conversion, source: &Source, plan: &Plan) -> Option<String> {
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
    let bytes = source.input.file(name).ok()?.len();
    let why = match file.len {
        Some(len) if len != bytes => format!("it has {bytes} bytes, and the output {len}"),
        _ => format!("'{}' is elsewhere in the output", moved(&plan.contents, &plan.placed)?),
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
