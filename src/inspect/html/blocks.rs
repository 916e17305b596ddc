//! The boxes of a drawing, and the lines between them.

use std::collections::BTreeSet;
use std::ops::Range;

/// Most lines that are drawn.
const LINES: usize = 4000;

/// A box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// An input of the graph, by its index.
    Input(usize),
    /// A range of layers.
    Layers(Range<usize>),
    /// A range of layers in which a block repeats.
    Repeat(Repeat),
    /// An output of the graph, by its index.
    Output(usize),
}

/// A block of layers that repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    /// All layers of all blocks.
    pub(super) layers: Range<usize>,
    /// What to call the first block and the last.
    pub(super) first: String,
    pub(super) last: String,
    pub(super) times: usize,
}

/// Boxes in order, and the lines between them by index; every line leads to a later box.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Folded {
    pub(super) blocks: Vec<Block>,
    pub(super) lines: BTreeSet<(usize, usize)>,
    /// Number of inputs, outputs and lines that are not drawn.
    pub(super) left_out: usize,
}

impl Block {
    /// The layers of the box; empty for an input or output.
    pub(super) fn layers(&self) -> Range<usize> {
        match self {
            Block::Layers(layers) | Block::Repeat(Repeat { layers, .. }) => layers.clone(),
            Block::Input(_) | Block::Output(_) => 0..0,
        }
    }
}

impl Folded {
    /// Adds a line to a later box. A line of a cyclic graph is not drawn.
    pub(super) fn line(&mut self, from: Option<&usize>, to: usize) {
        let Some(from) = from.copied().filter(|from| *from < to) else { return };
        if self.lines.len() < LINES {
            self.lines.insert((from, to));
        } else if !self.lines.contains(&(from, to)) {
            self.left_out += 1;
        }
    }
}
