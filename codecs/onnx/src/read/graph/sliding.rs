//! The lengths that a window leaves of the axes over which it slides.

use super::length::Length;
use crate::format::message::Node;

/// The shape of a value of these lengths after a window of this size slid over all axes but the first two.
pub(super) fn slid(node: &Node, mut shape: Vec<Length>, kernel: &[i64]) -> Vec<Length> {
    let axes = shape.len().saturating_sub(2);
    for (at, len) in shape.iter_mut().skip(2).enumerate() {
        *len = axis(node, at, axes, *len, kernel).unwrap_or(Length::Unknown);
    }
    shape
}

/// An entry of a list of an entry for each axis.
fn entry(node: &Node, name: &str, at: usize, default: i64) -> Option<i64> {
    node.ints(name).map_or(Some(default), |values| values.get(at).copied())
}

fn axis(node: &Node, at: usize, axes: usize, len: Length, kernel: &[i64]) -> Option<Length> {
    let (stride, dilation) = (entry(node, "strides", at, 1)?, entry(node, "dilations", at, 1)?);
    let reach = kernel.get(at)?.checked_sub(1)?.checked_mul(dilation)?;
    if node.op == "ConvTranspose" {
        return transposed(node, at, axes, len, (stride, reach));
    }
    let pads = match node.text("auto_pad") {
        None | Some("NOTSET" | "" | "VALID") => pads(node, at, axes)?,
        // As many positions as strides fit.
        _ => return rounded(len.add(Length::Known(stride.checked_sub(1)?)), stride),
    };
    let free = len.add(Length::Known(pads.checked_sub(reach)?.checked_sub(1)?));
    if node.int("ceil_mode").unwrap_or(0) != 0 {
        // The last window must begin inside the axis or its first padding.
        return (stride == 1).then(|| free.add(Length::Known(1)));
    }
    Some(rounded(free, stride)?.add(Length::Known(1)))
}

fn pads(node: &Node, at: usize, axes: usize) -> Option<i64> {
    entry(node, "pads", at, 0)?.checked_add(entry(node, "pads", at.checked_add(axes)?, 0)?)
}

/// A quotient, rounded down.
fn rounded(len: Length, stride: i64) -> Option<Length> {
    match len {
        _ if stride == 1 => Some(len),
        Length::Known(len) => len.checked_div(stride).filter(|_| len >= 0).map(Length::Known),
        _ => None,
    }
}

fn transposed(
    node: &Node,
    at: usize,
    axes: usize,
    len: Length,
    (stride, reach): (i64, i64),
) -> Option<Length> {
    if node.has("output_shape") || node.text("auto_pad").is_some_and(|mode| !matches!(mode, "NOTSET" | "")) {
        return None;
    }
    let more = entry(node, "output_padding", at, 0)?
        .checked_add(reach)?
        .checked_add(1)?
        .checked_sub(pads(node, at, axes)?)?;
    Some(len.add(Length::Known(-1)).times(stride).add(Length::Known(more)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::message::Attribute;

    fn node(op: &str, lists: &[(&str, &[i64])]) -> Node {
        let attributes =
            lists.iter().map(|(name, values)| ((*name).to_owned(), Attribute::Ints(values.to_vec())));
        Node { op: op.to_owned(), attributes: attributes.collect(), ..Node::default() }
    }

    fn lengths(node: &Node, len: Length, kernel: i64) -> Length {
        slid(node, vec![Length::free(0), Length::Known(3), len], &[kernel])[2]
    }

    #[test]
    fn a_window_leaves_the_positions_at_which_it_fits() {
        let stem = node("Conv", &[("strides", &[2]), ("pads", &[3, 3])]);
        assert_eq!(lengths(&stem, Length::Known(224), 7), Length::Known(112));
        assert_eq!(lengths(&stem, Length::free(1), 7), Length::Unknown);
        let dilated = node("Conv", &[("dilations", &[2])]);
        assert_eq!(lengths(&dilated, Length::Known(10), 3), Length::Known(6));
        let same = node("Conv", &[("pads", &[1, 1])]);
        assert_eq!(lengths(&same, Length::free(1), 3), Length::free(1));
    }

    #[test]
    fn a_transposed_convolution_leaves_the_length_that_the_other_one_takes() {
        let up = node("ConvTranspose", &[("strides", &[2]), ("pads", &[1, 1])]);
        assert_eq!(lengths(&up, Length::Known(16), 4), Length::Known(32));
        assert_eq!(lengths(&up, Length::free(1), 4), Length::free(1).times(2));
    }

    #[test]
    fn a_list_that_is_too_short_leaves_the_length_unknown() {
        assert_eq!(lengths(&node("MaxPool", &[("pads", &[1])]), Length::Known(9), 3), Length::Unknown);
        assert_eq!(lengths(&node("MaxPool", &[("strides", &[0])]), Length::Known(9), 3), Length::Unknown);
    }
}
