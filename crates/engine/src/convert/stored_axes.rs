//! What the stored axes of a tensor mean, compared with those that were written.
//!
//! One order of elements has several right descriptions: an axis of length 1 may be anywhere, and neighbors may be one
//! axis. A depthwise kernel of C channels with M outputs each is `[C·M, 1, …]` with the axes `out` and `in`, or
//! `[…, C, M]` with the axes `in` and `multiplier`. So what is compared is a normal form: the axes in the order in which
//! they are stored, without those of length 1, and with neighbors joined that are parts of one axis.

use ckpt_api::{Axis, Encoding, Error, Result, Tensor};

/// A run of elements in the order in which they are stored: a part of an axis, or a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredAxis {
    meaning: Meaning,
    /// Distance of neighbors, counted in elements of the axis that is meant.
    stride: u64,
    len: u64,
}

/// What an axis is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Named(Axis),
    /// Its place among the axes of the tensor that are longer than 1, if a side names none.
    Place(usize),
}

/// Fails unless the elements that were read back are those that were written, as far as both sides say what they are.
/// A format that knows no shapes gives a list.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`] if lengths differ, or an axis that both sides know is another one.
pub(super) fn check(written: (&Tensor, &Encoding), found: (&Tensor, &Encoding)) -> Result<()> {
    if found.0.shape.rank() <= 1 && found.0.shape.elements() == written.0.shape.elements() {
        return Ok(());
    }
    let is_named = written.0.axes.is_some() && found.0.axes.is_some();
    let [own, other] = [written, found].map(|side| stored_axes(side, is_named));
    if !own.iter().map(|axis| axis.len).eq(other.iter().map(|axis| axis.len)) {
        let lens = |axes: &[StoredAxis]| axes.iter().map(|axis| axis.len).collect::<Vec<_>>();
        return Err(Error::defect("the tensor is read back with a different shape")
            .found(format!("{:?} as stored", lens(&other)))
            .expected(format!("{:?}, as it was written", lens(&own))));
    }
    let is_known = |axes: &[StoredAxis], axis: &StoredAxis| axes.iter().any(|of| of.meaning == axis.meaning);
    let differs = |(own_axis, other_axis): (&StoredAxis, &StoredAxis)| {
        (is_known(&other, own_axis) || is_known(&own, other_axis)) && own_axis != other_axis
    };
    if own.iter().zip(&other).any(differs) {
        return Err(Error::defect("the axes are read back in a different order")
            .found(format!("{} as stored", words(&other)))
            .expected(format!("{}, as they were written", words(&own))));
    }
    Ok(())
}

/// The normal form of a tensor's stored axes. One that does not fit its encoding has none.
fn stored_axes((tensor, encoding): (&Tensor, &Encoding), is_named: bool) -> Vec<StoredAxis> {
    let Some(lens) = encoding.expanded(&tensor.shape) else { return Vec::new() };
    let parts = encoding.parts(tensor.shape.rank());
    let names = tensor.axes.as_deref().filter(|_| is_named);
    let mut stored: Vec<StoredAxis> = Vec::new();
    for part in encoding.order.iter() {
        let (Some(len), Some(part)) = (lens.get(*part).copied(), parts.get(*part)) else { continue };
        if len == 1 {
            continue;
        }
        let finer = encoding.tile(part.axis).get(part.part..).unwrap_or_default();
        let stride = finer.iter().fold(1u64, |stride, len| stride.saturating_mul(*len));
        let (meaning, unit) = match names {
            Some(names) => named(tensor, names, part.axis),
            None => (Meaning::Place(tensor.shape.iter().take(part.axis).filter(|len| **len != 1).count()), 1),
        };
        let next = StoredAxis { meaning, stride: stride.saturating_mul(unit), len };
        match stored.last_mut() {
            Some(last) if last.meaning == meaning && last.stride == next.stride.saturating_mul(len) => {
                (last.stride, last.len) = (next.stride, last.len.saturating_mul(len));
            }
            _ => stored.push(next),
        }
    }
    stored
}

/// What an axis means, and the distance of its neighbors: the channels of a depthwise kernel and their outputs are its
/// outputs.
fn named(tensor: &Tensor, names: &[Axis], axis: usize) -> (Meaning, u64) {
    let multiplier = names.iter().position(|name| *name == Axis::Multiplier);
    let len = |axis: usize| tensor.shape.get(axis).copied().unwrap_or(1);
    match (names.get(axis), multiplier) {
        (Some(Axis::Multiplier), _) => (Meaning::Named(Axis::Out), 1),
        (Some(Axis::In), Some(multiplier)) => (Meaning::Named(Axis::Out), len(multiplier)),
        (Some(name), _) => (Meaning::Named(*name), 1),
        (None, _) => (Meaning::Place(axis), 1),
    }
}

fn words(axes: &[StoredAxis]) -> String {
    let word = |axis: &StoredAxis| match axis.meaning {
        Meaning::Named(name) => name.name().to_owned(),
        Meaning::Place(place) => place.to_string(),
    };
    axes.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{AxisOrder, DType, Shape, Tile};

    const DEPTHWISE: [Axis; 4] = [Axis::KernelY, Axis::KernelX, Axis::In, Axis::Multiplier];
    const CONVOLUTION: [Axis; 4] = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];

    /// A tensor that is stored in this order of its axes.
    fn stored(shape: &[u64], axes: Option<&[Axis]>, order: &[usize]) -> (Tensor, Encoding) {
        let mut tensor = Tensor::new("w", DType::F32, Shape::new(shape).unwrap());
        tensor.axes = axes.map(Into::into);
        (tensor, Encoding::new(DType::F32, AxisOrder::from(order.to_vec())))
    }

    fn agree(written: &(Tensor, Encoding), found: &(Tensor, Encoding)) -> bool {
        let side = |(tensor, encoding): &(Tensor, Encoding)| (tensor.clone(), encoding.clone());
        let (written, found) = (side(written), side(found));
        check((&written.0, &written.1), (&found.0, &found.1)).is_ok()
    }

    #[test]
    fn a_depthwise_kernel_is_the_same_with_its_outputs_as_one_axis_or_as_two() {
        let convolution = stored(&[6, 1, 3, 3], Some(&CONVOLUTION), &[0, 1, 2, 3]);
        let keras = stored(&[3, 3, 3, 2], Some(&DEPTHWISE), &[2, 3, 0, 1]);
        assert!(agree(&convolution, &keras) && agree(&keras, &convolution));
        // The outputs of all channels first, each of which has two: other elements at the same place.
        let other = stored(&[3, 3, 3, 2], Some(&DEPTHWISE), &[3, 2, 0, 1]);
        assert!(!agree(&convolution, &other) && !agree(&other, &convolution));
        // One output for each channel.
        let one = stored(&[3, 3, 6, 1], Some(&DEPTHWISE), &[2, 0, 3, 1]);
        assert!(agree(&convolution, &one));
        // The window, transposed.
        assert!(!agree(&convolution, &stored(&[3, 3, 6, 1], Some(&DEPTHWISE), &[2, 1, 0, 3])));
    }

    #[test]
    fn axes_of_length_1_may_be_anywhere() {
        let one_channel = stored(&[4, 1, 3, 3], Some(&CONVOLUTION), &[2, 3, 1, 0]);
        assert!(agree(&one_channel, &stored(&[4, 1, 3, 3], Some(&CONVOLUTION), &[1, 2, 3, 0])));
        // Without names, the place among the other axes is what counts.
        let unnamed = |order: &[usize]| stored(&[4, 1, 3, 5], None, order);
        assert!(agree(&unnamed(&[0, 1, 2, 3]), &stored(&[1, 4, 3, 5], None, &[1, 0, 2, 3])));
        assert!(!agree(&unnamed(&[0, 1, 2, 3]), &unnamed(&[0, 1, 3, 2])));
    }

    #[test]
    fn a_transposed_square_matrix_is_another_one() {
        let axes = [Axis::Out, Axis::In];
        let matrix = |order: &[usize], axes: Option<&[Axis]>| stored(&[4, 4], axes, order);
        assert!(!agree(&matrix(&[0, 1], Some(&axes)), &matrix(&[1, 0], Some(&axes))));
        assert!(!agree(&matrix(&[0, 1], None), &matrix(&[1, 0], None)));
        // A name that only one side knows decides nothing, but the other still does.
        let table = [Axis::Feature, Axis::In];
        assert!(agree(&matrix(&[0, 1], Some(&axes)), &matrix(&[0, 1], Some(&table))));
        assert!(!agree(&matrix(&[0, 1], Some(&axes)), &matrix(&[1, 0], Some(&table))));
    }

    #[test]
    fn an_axis_in_tiles_is_the_same_as_its_parts_stored_one_after_the_other() {
        let (tensor, _) = stored(&[8, 3], Some(&[Axis::Out, Axis::In]), &[0, 1]);
        let tiled = Encoding::new(DType::F32, AxisOrder::from(vec![0, 1, 2]))
            .with_tiles(vec![Tile { axis: 0, lens: vec![2] }]);
        let whole = stored(&[8, 3], Some(&[Axis::Out, Axis::In]), &[0, 1]);
        assert!(agree(&(tensor.clone(), tiled), &whole));
        let packed = Encoding::new(DType::F32, AxisOrder::from(vec![0, 2, 1]))
            .with_tiles(vec![Tile { axis: 0, lens: vec![2] }]);
        assert!(!agree(&(tensor, packed), &whole));
    }
}
