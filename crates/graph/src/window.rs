//! Windows that move over images: strides, dilations, padding, and the lengths of what they make.

use crate::length::Length;

/// Strides, dilations and padding of a convolution or pooling, one for each side of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// From one place of the window to the next.
    pub strides: Vec<u64>,
    /// From one element of the window to the next.
    pub dilations: Vec<u64>,
    /// What is added around the image.
    pub padding: Padding,
}

/// What is added around an image before a window moves over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// So much that the result has ⌈length / stride⌉ places; at the end, if the number is odd, one more.
    Same,
    /// Nothing.
    Valid,
    /// Before and after each side.
    Explicit(Vec<[u64; 2]>),
}

/// One side of an image under a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// What is added before and after it; `None` if that depends on a free length.
    pub pads: Option<[u64; 2]>,
    /// The length of the result.
    pub out: Length,
}

impl Window {
    /// Returns a window that moves by one place, without padding.
    pub fn single(sides: usize) -> Window {
        Window { strides: vec![1; sides], dilations: vec![1; sides], padding: Padding::Valid }
    }

    /// Returns the number of places from the first to the last element of a kernel on a side; `None` for a window or
    /// dilation of zero.
    pub fn reach(&self, side: usize, kernel: u64) -> Option<u64> {
        let dilation = self.dilations.get(side).copied().filter(|dilation| *dilation > 0)?;
        kernel.checked_sub(1)?.checked_mul(dilation)
    }

    /// Returns the padding and the resulting length of a side; `None` if the window does not fit, or moves by zero.
    pub fn side(&self, side: usize, kernel: u64, len: Length) -> Option<Side> {
        let stride = self.strides.get(side).copied().filter(|stride| *stride > 0)?;
        let reach = self.reach(side, kernel)?;
        let size = len.size();
        let pads = match (&self.padding, size) {
            (Padding::Valid, _) => Some([0, 0]),
            (Padding::Explicit(pairs), _) => Some(*pairs.get(side)?),
            (Padding::Same, Some(len)) => {
                let covered = len.div_ceil(stride).saturating_sub(1).checked_mul(stride)?;
                let total = covered.checked_add(reach)?.checked_add(1)?.saturating_sub(len);
                Some([total / 2, total - total / 2])
            }
            (Padding::Same, None) if stride == 1 => Some([reach / 2, reach - reach / 2]),
            (Padding::Same, None) => None,
        };
        let out = match (&self.padding, size, pads) {
            (Padding::Same, Some(len), _) => Length::from(len.div_ceil(stride)),
            (_, Some(len), Some([begin, end])) => {
                let free = len.checked_add(begin)?.checked_add(end)?.checked_sub(reach)?.checked_sub(1)?;
                Length::from((free / stride).checked_add(1)?)
            }
            (_, None, Some([begin, end])) if stride == 1 => {
                len + Length::from(begin.checked_add(end)?) - Length::from(reach)
            }
            _ => Length::Unknown,
        };
        Some(Side { pads, out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(stride: u64, dilation: u64, padding: Padding) -> Window {
        Window { strides: vec![stride], dilations: vec![dilation], padding }
    }

    fn side(window: &Window, kernel: u64, len: Length) -> (Option<[u64; 2]>, Length) {
        let side = window.side(0, kernel, len).unwrap();
        (side.pads, side.out)
    }

    #[test]
    fn a_window_leaves_the_places_at_which_it_fits() {
        let stem = window(2, 1, Padding::Explicit(vec![[3, 3]]));
        assert_eq!(side(&stem, 7, Length::Known(224)), (Some([3, 3]), Length::Known(112)));
        let dilated = window(1, 2, Padding::Valid);
        assert_eq!(side(&dilated, 3, Length::Known(10)), (Some([0, 0]), Length::Known(6)));
        assert_eq!(dilated.side(0, 3, Length::Known(4)), None);
    }

    #[test]
    fn the_same_places_need_one_more_at_the_end() {
        let same = window(2, 1, Padding::Same);
        assert_eq!(side(&same, 3, Length::Known(6)), (Some([0, 1]), Length::Known(3)));
        assert_eq!(side(&same, 2, Length::Known(5)), (Some([0, 1]), Length::Known(3)));
        assert_eq!(side(&same, 1, Length::Known(0)), (Some([0, 1]), Length::Known(0)));
    }

    #[test]
    fn a_free_side_is_known_if_the_window_moves_by_one() {
        let len = Length::free(2);
        assert_eq!(side(&window(1, 1, Padding::Same), 4, len), (Some([1, 2]), len));
        assert_eq!(side(&window(1, 1, Padding::Valid), 3, len), (Some([0, 0]), len - 2));
        assert_eq!(side(&window(2, 1, Padding::Valid), 3, len), (Some([0, 0]), Length::Unknown));
        assert_eq!(side(&window(2, 1, Padding::Same), 3, len), (None, Length::Unknown));
    }

    #[test]
    fn a_window_that_is_empty_or_stands_still_is_refused() {
        assert_eq!(window(0, 1, Padding::Same).side(0, 3, Length::Known(9)), None);
        assert_eq!(window(1, 0, Padding::Same).side(0, 3, Length::Known(9)), None);
        assert_eq!(window(1, 1, Padding::Valid).side(0, 0, Length::Known(9)), None);
        assert_eq!(window(1, u64::MAX, Padding::Valid).side(0, 3, Length::Known(9)), None);
        assert_eq!(Window::single(1).side(1, 3, Length::Known(9)), None);
    }
}
