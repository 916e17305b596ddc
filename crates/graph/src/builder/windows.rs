//! Attributes of windows.

use super::{Builder, Reason, Tag, Val, ints};
use crate::shape::Dims;
use crate::window::Window;
use ckpt_api::{Attribute, Node};

impl<K: Tag> Builder<K> {
    /// Gives a node the strides, padding and dilations of a window. Returns it with the lengths of its result, whose
    /// channels are those of the image.
    ///
    /// # Errors
    /// If the window does not fit the image.
    pub fn windowed(node: Node, window: &Window, kernel: &[u64], x: &Val<K>) -> Result<(Node, Dims), Reason> {
        let mut dims = x.dims.clone();
        let mut pairs = Vec::with_capacity(kernel.len());
        for (at, (kernel, len)) in kernel.iter().zip(dims.iter_mut().skip(1)).enumerate() {
            let side = window.side(at, *kernel, *len).ok_or("its window is larger than the image")?;
            *len = side.out;
            pairs.push(side.pads);
        }
        let node = node.attribute("strides", ints(&window.strides)?);
        let node = match pairs.into_iter().collect::<Option<Vec<[u64; 2]>>>() {
            Some(pairs) => {
                let pads: Vec<u64> =
                    [0, 1].into_iter().flat_map(|end| pairs.iter().map(move |pair| pair[end])).collect();
                node.attribute("pads", ints(&pads)?)
            }
            None => node.attribute("auto_pad", Attribute::Text("SAME_UPPER".into())),
        };
        Ok((dilated(node, window)?, dims))
    }

    /// Gives a node the attributes of a transposed convolution: what is cut before and after each side of its result,
    /// and what is added behind it.
    ///
    /// # Errors
    /// For a size that an attribute cannot have.
    pub fn transposed_windowed(node: Node, window: &Window, sides: &[[i64; 3]]) -> Result<Node, Reason> {
        let list = |at: usize| sides.iter().map(move |side| side[at]);
        let node = node.attribute("strides", ints(&window.strides)?);
        let node = node.attribute("pads", Attribute::Ints(list(0).chain(list(1)).collect()));
        let node = match list(2).any(|added| added != 0) {
            true => node.attribute("output_padding", Attribute::Ints(list(2).collect())),
            false => node,
        };
        dilated(node, window)
    }
}

fn dilated(node: Node, window: &Window) -> Result<Node, Reason> {
    match window.dilations.iter().any(|dilation| *dilation != 1) {
        true => Ok(node.attribute("dilations", ints(&window.dilations)?)),
        false => Ok(node),
    }
}
