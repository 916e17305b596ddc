//! The windows of operations on images.

use super::attributes::is_channels_last;
use crate::node::{lengths, text};
use crate::proto::NodeDef;
use ckpt_graph::{Padding, Window};

/// Reads the window of an operation on images of `rank` axes.
pub(in crate::dag) fn window(op: &NodeDef, rank: usize) -> Option<Window> {
    let is_last = is_channels_last(op);
    let inner = |name: &str| match lengths(op, name) {
        None => Some(vec![1; rank.checked_sub(2)?]),
        Some(list) => sides(&list, is_last, 1).filter(|inner| inner.len() + 2 == rank),
    };
    let padding = match text(op, "padding") {
        Some("SAME") => Padding::Same,
        Some("VALID") => Padding::Valid,
        Some("EXPLICIT") => {
            let list = lengths(op, "explicit_paddings")?;
            let pairs: Vec<[u64; 2]> = list.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
            Padding::Explicit(sides(&pairs, is_last, [0, 0]).filter(|_| pairs.len() == rank)?)
        }
        _ => return None,
    };
    let window = Window { strides: inner("strides")?, dilations: inner("dilations")?, padding };
    let is_positive = window.strides.iter().chain(&window.dilations).all(|value| *value > 0);
    is_positive.then_some(window)
}

/// Returns the sides of a pooling's window.
pub(in crate::dag) fn kernel(op: &NodeDef, rank: usize) -> Option<Vec<u64>> {
    let list = lengths(op, "ksize")?;
    let found = sides(&list, is_channels_last(op), 1).filter(|_| list.len() == rank)?;
    found.iter().all(|side| *side > 0).then_some(found)
}

/// Returns what a list has for the sides of images; for the batch and the channels, it must have what is `neutral`.
fn sides<T: Copy + PartialEq>(list: &[T], is_channels_last: bool, neutral: T) -> Option<Vec<T>> {
    match (list, is_channels_last) {
        ([batch, inner @ .., channels], true) | ([batch, channels, inner @ ..], false)
            if *batch == neutral && *channels == neutral =>
        {
            Some(inner.to_vec())
        }
        _ => None,
    }
}
