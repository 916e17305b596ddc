//! The windows of convolutions and pooling: strides, dilations, and how much is padded.

use super::attributes::{ints, sizes, text};
use ckpt_api::{Error, Node, Result};

/// A window: its lengths, strides and dilations, one for each side.
pub(super) struct Window {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
}

impl Window {
    /// The window of a node whose kernel has these lengths.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for attributes that do not fit.
    pub(super) fn of(node: &Node, kernel: &[i64]) -> Result<Self> {
        let sides = kernel.len();
        Ok(Window {
            kernel: kernel.to_vec(),
            strides: sizes(node, "strides", sides, 1, 1)?,
            dilations: sizes(node, "dilations", sides, 1, 1)?,
        })
    }

    /// How many places a side of the window reaches over.
    pub(super) fn reach(&self, side: usize) -> Option<i64> {
        let (kernel, dilation) = (self.kernel.get(side)?, self.dilations.get(side)?);
        kernel.checked_sub(1)?.checked_mul(*dilation)?.checked_add(1)
    }

    /// What `same` pads on a side before and after, of a side of this length; `None` if it depends on a length that
    /// is not known.
    fn same(&self, side: usize, len: Option<u64>, is_upper: bool) -> Option<(i64, i64)> {
        let (reach, stride) = (self.reach(side)?, *self.strides.get(side)?);
        let total = match len {
            _ if stride == 1 => reach.checked_sub(1)?,
            None => return None,
            Some(len) => {
                let len = i64::try_from(len).ok()?;
                let out = len.checked_add(stride.checked_sub(1)?)?.checked_div(stride)?;
                out.checked_sub(1)?.checked_mul(stride)?.checked_add(reach)?.checked_sub(len)?.max(0)
            }
        };
        let small = total / 2;
        let large = total - small;
        Some(if is_upper { (small, large) } else { (large, small) })
    }
}

/// What is padded on each side, before and after; `None` if it depends on lengths that are not known.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for attributes that do not fit, [`ckpt_api::Kind::Unsupported`] for a padding that is not
/// known.
pub(super) fn padding(node: &Node, window: &Window, lens: &[Option<u64>]) -> Result<Option<Vec<(i64, i64)>>> {
    let sides = window.kernel.len();
    match text(node, "auto_pad", "NOTSET")? {
        "NOTSET" => explicit(node, sides).map(Some),
        "VALID" => Ok(Some(vec![(0, 0); sides])),
        same @ ("SAME_UPPER" | "SAME_LOWER") => {
            let len = |side: usize| lens.get(side).copied().flatten();
            let side = |side: usize| window.same(side, len(side), same == "SAME_UPPER");
            Ok((0..sides).map(side).collect())
        }
        other => Err(Error::unsupported("a padding is not known")
            .field(format!("layer '{}', auto_pad", node.name))
            .found(format!("'{other}'"))),
    }
}

fn explicit(node: &Node, sides: usize) -> Result<Vec<(i64, i64)>> {
    if ints(node, "pads")?.is_none() {
        return Ok(vec![(0, 0); sides]);
    }
    let pads = sizes(node, "pads", sides.saturating_mul(2), 0, 0)?;
    let (begins, ends) = pads.split_at(sides.min(pads.len()));
    Ok(begins.iter().copied().zip(ends.iter().copied()).collect())
}
