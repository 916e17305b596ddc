//! Steps on an axis along which images were flattened.

use super::placed::{PlacedTensor, STORE_WHOLE, check_fixed_size, misfit};
use crate::recipe::{AxisStep, FlattenedImage};
use ckpt_api::{Axis, AxisPart, Error, Placement, Result, Tensor, Tile};

/// Reorders the axis that holds flattened images. The stored bytes stay where they are: the axis is stored in parts, of
/// which the channels move from the last place to the first, or back. `earlier` is the step before this one that did
/// so.
pub(super) fn reorder_image(
    mut placed: PlacedTensor,
    image: &FlattenedImage,
    step: &AxisStep,
    earlier: Option<&AxisStep>,
) -> Result<PlacedTensor> {
    check_fixed_size(&placed, "reordered")?;
    let axis = image_axis(&placed, image, step)?;
    if !is_stored_whole(&placed, axis) {
        return Err(match earlier {
            Some(earlier) => Error::mapping("an axis of flattened images is reordered twice")
                .found(format!("'{earlier}', then '{step}'"))
                .expected("one such step for an axis"),
            None => Error::unsupported("an axis that is stored in parts, or reordered before, cannot be reordered as flattened images")
                .field(step.to_string())
                .help(STORE_WHOLE),
        });
    }
    // Height and width stay next to each other: the image is a matrix of pixels and channels, which is transposed.
    let fast = match step {
        AxisStep::FlattenOrder(_) => image.pixels(),
        _ => image.channels(),
    };
    if image.channels() == 1 || image.pixels() == 1 {
        return Ok(placed);
    }
    let rank = placed.tensor.shape.rank();
    let encoding = &mut placed.placement.encoding;
    let parts = encoding.parts(rank);
    let stored = encoding.order.iter().filter_map(|number| parts.get(*number)).flat_map(|part| {
        let split = vec![AxisPart { axis, part: 1 }, AxisPart { axis, part: 0 }];
        if part.axis == axis { split } else { vec![*part] }
    });
    let stored: Vec<AxisPart> = stored.collect();
    let mut tiles = encoding.tiles().to_vec();
    tiles.push(Tile { axis, lens: vec![fast] });
    *encoding = encoding.clone().with_stored(rank, tiles, &stored);
    Ok(placed)
}

/// The axis of the images: the one that the step names, the tensor's input axis, or the only one of this length.
fn image_axis(placed: &PlacedTensor, image: &FlattenedImage, step: &AxisStep) -> Result<usize> {
    let Tensor { shape, axes, .. } = &placed.tensor;
    let expected = image.elements();
    let fits = |axis: &usize| shape.get(*axis).is_some_and(|len| Some(*len) == expected);
    let input = axes.as_ref().and_then(|axes| axes.iter().position(|axis| *axis == Axis::In));
    let found: Vec<usize> = match image.axis.or(input) {
        Some(axis) => [axis].into_iter().filter(fits).collect(),
        None => (0..shape.rank()).filter(fits).collect(),
    };
    match found[..] {
        [axis] => Ok(axis),
        [] => {
            let lens: Vec<String> = image.lens.iter().map(u64::to_string).collect();
            let (product, len) = (lens.join(" × "), expected.unwrap_or(u64::MAX));
            Err(misfit(step, placed, &format!("an input axis of length {product} = {len}")))
        }
        [first, ..] => Err(misfit(step, placed, "one axis of this length")
            .help(format!("name the axis of the images, such as '{step} on {first}'"))),
    }
}

/// Whether the tensor is stored as one, and the axis in one part: an axis in parts allows no slices.
fn is_stored_whole(placed: &PlacedTensor, axis: usize) -> bool {
    let Placement { encoding, extents, .. } = &placed.placement;
    let has_slices =
        placed.placement.window().is_some() || extents.iter().any(|extent| extent.region().is_some());
    !has_slices && encoding.tile(axis).is_empty()
}
