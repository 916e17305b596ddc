//! The boxes of a drawing, and the lines between them.

use ckpt_api::Value;
use std::collections::BTreeSet;
use std::ops::Range;

/// Most lines that are drawn.
const LINES: usize = 4000;

/// A box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// An input of the drawing, by its index.
    Input(usize),
    /// A range of layers.
    Layers(Range<usize>),
    /// The layers of a scope.
    Group(Group),
    /// A range of layers in which a block repeats.
    Repeat(Repeat),
    /// An output of the drawing, by its index.
    Output(usize),
}

/// A scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) layers: Range<usize>,
    pub(super) name: String,
    /// The boxes in it.
    pub(super) inside: Vec<Block>,
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
    /// The boxes of the first block.
    pub(super) inside: Vec<Block>,
}

/// An input or output of a drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// The value in the graph.
    pub(super) value: String,
    /// What is shown: an input or output of the graph, or the name of the layer that makes or uses the value.
    pub(super) shown: Value,
}

/// Boxes in order, and the lines between them by index; every line leads to a later box.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Folded {
    pub(super) blocks: Vec<Block>,
    pub(super) inputs: Vec<End>,
    pub(super) outputs: Vec<End>,
    pub(super) lines: BTreeSet<(usize, usize)>,
    /// Number of inputs, outputs and lines that are not drawn.
    pub(super) left_out: usize,
}

impl Block {
    /// The layers of the box; empty for an input or output.
    pub(super) fn layers(&self) -> Range<usize> {
        match self {
            Block::Layers(layers)
            | Block::Group(Group { layers, .. })
            | Block::Repeat(Repeat { layers, .. }) => layers.clone(),
            Block::Input(_) | Block::Output(_) => 0..0,
        }
    }

    /// What the box opens to, with the layers of it; `None` if it has no drawing of its own.
    pub(super) fn inside(&self) -> Option<(&[Block], Range<usize>)> {
        let inside = match self {
            Block::Group(Group { inside, .. }) | Block::Repeat(Repeat { inside, .. }) if inside.len() > 1 => {
                inside
            }
            _ => return None,
        };
        Some((inside, inside.first()?.layers().start..inside.last()?.layers().end))
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
