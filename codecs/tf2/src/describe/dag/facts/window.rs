//! Windows over images, and the lengths of what they make.

use super::super::value::Int;
use super::attributes::is_channels_last;
use crate::describe::node::{lengths, text};
use crate::proto::NodeDef;

/// Strides, dilations and padding of a convolution or pooling, without the batch and the channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::describe::dag) struct Window {
    pub strides: Vec<u64>,
    pub dilations: Vec<u64>,
    pub padding: Padding,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::describe::dag) enum Padding {
    Same,
    Valid,
    /// Begin and end of each axis.
    Explicit(Vec<[u64; 2]>),
}

/// Reads the window of an operation on images of `rank` axes.
pub(in crate::describe::dag) fn window(op: &NodeDef, rank: usize) -> Option<Window> {
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
pub(in crate::describe::dag) fn kernel(op: &NodeDef, rank: usize) -> Option<Vec<u64>> {
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

/// Padding before and after one axis, and its resulting length; `None` for what depends on a free length.
pub(in crate::describe::dag) struct Side {
    pub begin: Option<u64>,
    pub end: Option<u64>,
    pub out: Int,
}

impl Window {
    /// Returns the padding and the resulting length of inner axis `side`; `None` if the window does not fit.
    pub fn side(&self, side: usize, kernel: u64, len: Int) -> Option<Side> {
        let (stride, dilation) = (*self.strides.get(side)?, *self.dilations.get(side)?);
        let reach = kernel.checked_sub(1)?.checked_mul(dilation)?;
        let moved = |padded: u64| (padded.checked_sub(reach)?.checked_sub(1)? / stride).checked_add(1);
        let int = |len: u64| i64::try_from(len).map_or(Int::Unknown, Int::Known);
        let keeps = |added: u64| match (stride, added == reach) {
            (1, true) => len,
            (1, false) => len.add(int(added)).sub(int(reach)),
            _ => Int::Unknown,
        };
        match (&self.padding, len.len()) {
            (Padding::Valid, Some(len)) => Some(Side { begin: Some(0), end: Some(0), out: int(moved(len)?) }),
            (Padding::Valid, None) => Some(Side { begin: Some(0), end: Some(0), out: keeps(0) }),
            (Padding::Explicit(pairs), known) => {
                let [begin, end] = *pairs.get(side)?;
                let out = match known {
                    Some(len) => int(moved(len.checked_add(begin)?.checked_add(end)?)?),
                    None => keeps(begin.checked_add(end)?),
                };
                Some(Side { begin: Some(begin), end: Some(end), out })
            }
            (Padding::Same, Some(len)) => {
                let out = len.div_ceil(stride);
                let covered =
                    out.saturating_sub(1).checked_mul(stride)?.checked_add(reach)?.checked_add(1)?;
                let total = covered.saturating_sub(len);
                Some(Side { begin: Some(total / 2), end: Some(total - total / 2), out: int(out) })
            }
            (Padding::Same, None) if stride == 1 => {
                Some(Side { begin: Some(reach / 2), end: Some(reach - reach / 2), out: len })
            }
            (Padding::Same, None) => Some(Side { begin: None, end: None, out: Int::Unknown }),
        }
    }
}
