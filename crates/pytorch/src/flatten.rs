//! Images that become vectors: PyTorch flattens them with their channels first, Keras with their channels last.
//!
//! Where only dense layers and normalizations take the vector, their weights are reordered, and the images stay as
//! PyTorch has them. Elsewhere the program moves the channels to the end before it flattens.

use super::program::pieces;
use super::refusal::refuse;
use super::shapes::product;
use super::translate::{Flattened, Translator};
use super::views::View;
use ckpt_api::{Node, Op, Result};

impl<'g> Translator<'g> {
    /// `[N, …]` to `[N, ∏]`.
    pub(super) fn flatten(&mut self, node: &'g Node) -> Result<()> {
        if super::attributes::int(node, "axis", 1)? != 1 {
            return Err(refuse(node, "keeps more axes than the first one"));
        }
        let view = self.view(node, 0)?;
        let Some(output) = node.outputs.first() else { return Ok(()) };
        let order = view.order();
        let is_in_order = order.as_ref().is_some_and(|order| order.is_sorted());
        let images = self.images(node, &view).filter(|_| self.is_decided(output));
        let base = match &order {
            // Axes of length 1 make no difference.
            Some(order) if is_in_order && order.len() == 2 => {
                self.put(node, view.base);
                return Ok(());
            }
            _ if is_in_order => view.base,
            _ if images.is_some() => view.base,
            _ => self.views.read(&view, &mut self.program),
        };
        if let Some(images) = images.filter(|images| images.pixels != 1 && images.channels != 1) {
            self.flattened.insert(output, images);
        }
        let written = pieces("{}.flatten(1)", &[base]);
        let value = self.program.assign_as(&node.name, base, written, "nn.Flatten()".to_owned());
        self.put(node, value);
        Ok(())
    }

    /// The lengths of images that are flattened with their channels last, and are with their channels first.
    fn images(&self, node: &Node, view: &View) -> Option<Flattened> {
        let dims = self.shapes.get(node.inputs.first()?)?;
        let channel = view.axes.as_ref().filter(|_| view.moves_channels_last())?;
        let channel = channel.iter().position(|axis| *axis == Some(1))?;
        let channels = dims.get(channel).copied().flatten()?;
        let pixels: Vec<Option<u64>> = dims
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(axis, _)| *axis != channel)
            .map(|(_, len)| *len)
            .collect();
        Some(Flattened { pixels: product(&pixels)?, channels })
    }

    /// Whether all layers that take a vector can take its elements in another order.
    fn is_decided(&self, value: &'g str) -> bool {
        let mut left = vec![value];
        let mut seen = 0usize;
        while let Some(value) = left.pop() {
            seen = seen.saturating_add(1);
            let Some(takers) = self.all_takers(value).filter(|takers| !takers.is_empty()) else {
                return false;
            };
            if seen > self.nodes.len() {
                return false;
            }
            for taker in takers {
                match &taker.op {
                    Op::Gemm => {}
                    Op::BatchNormalization | Op::LayerNormalization | Op::RMSNormalization => {
                        left.extend(taker.outputs.first().map(String::as_str));
                    }
                    Op::Softmax | Op::LogSoftmax => return false,
                    op if (op.is_activation() || *op == Op::Identity || *op == Op::Clip)
                        && taker.inputs.len() == 1 =>
                    {
                        left.extend(taker.outputs.first().map(String::as_str));
                    }
                    _ => return false,
                }
            }
        }
        true
    }
}
