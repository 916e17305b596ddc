//! Writes a model's files: as they were, if they were read, or as Keras would.

mod config;
mod converted;
mod fresh;
pub(crate) mod kept;
mod layout;
mod numbers;
pub(crate) mod order;
mod recurrent;
mod sparse;
mod states;

use crate::config::Generation;
use crate::format::{Container, ID, KEY_CONFIG};
use ckpt_api::{
    Aspect, Checkpoint, ChecksumAlgorithm, Contents, FileId, FinishState, Literal, Options, OutputLayout,
    Placement, Result, Tensor, Values, Written,
};
use layout::{Piece, Sums};
use std::collections::{BTreeMap, HashMap};

/// See [`ckpt_api::Codec::prepare`]: what layers take if they are made of the graph.
pub(crate) fn prepare(values: &dyn Values, contents: &Contents) -> Result<Option<Contents>> {
    if contents.checkpoint.metadata.value(ID, KEY_CONFIG).is_some() {
        return Ok(None);
    }
    let states = states::prepare(values, contents)?;
    let layers = recurrent::prepare(states.as_ref().unwrap_or(contents))?.or(states);
    let constants = numbers::prepare(values, layers.as_ref().unwrap_or(contents))?;
    Ok(constants.or(layers))
}

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let wanted = match options.text("keras") {
        Some("2") => Some(Generation::Keras2),
        Some(_) => Some(Generation::Keras3),
        None => None,
    };
    let container = Container::of_name(name);
    let kept = match config::is_of_other_generation(checkpoint, wanted) {
        false => kept::Kept::of(checkpoint, container).and_then(|kept| kept.lay_out(checkpoint, name)),
        true => None,
    };
    let mut layout = match kept {
        Some(layout) => layout,
        None => fresh::lay_out(checkpoint, name, container, wanted)?,
    };
    let contents = match layout.contents.take() {
        Some(contents) => Some(contents),
        None => layout.read_again(name, container),
    };
    let left_out = left_out(checkpoint, &layout.placements, contents.as_ref());
    let mut placed = OutputLayout::default()
        .with_files(layout.files)
        .with_literals(layout.literals)
        .with_placements(layout.placements)
        .with_losses(layout.losses)
        .with_left_out(left_out)
        .with_working_memory(contents.as_ref().map_or(0, read_again_bytes));
    if let Some(sums) = layout.sums {
        let bytes = size_of_val(&sums.pieces[..]) as u64;
        placed.finish = FinishState::new(sums).of_size(bytes);
    }
    Ok(placed)
}

/// Bytes that reading the layout again takes, for each tensor its description and what the file's own structures hold of it.
fn read_again_bytes(contents: &Contents) -> u64 {
    const EACH: usize = size_of::<Tensor>() + size_of::<Placement>() + 384;
    (contents.placements.len() * EACH) as u64
}

/// See [`ckpt_api::Codec::finish`].
pub(crate) fn finish(placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
    if placed.finish.is_empty() {
        return Ok(Vec::new());
    }
    let sums = placed.finish.get::<Sums>()?;
    let of_extent = |placement: usize, extent: usize| {
        let checksums = written.get(placement).map(|written| &written.checksums);
        checksums.and_then(|checksums| checksums.get(extent)).copied().flatten().unwrap_or(0)
    };
    let crc = sums.pieces.iter().fold(0, |crc, piece| {
        let (own, len) = match *piece {
            Piece::Bytes { crc, len } => (crc, len),
            Piece::Extent { placement, extent, len } => (of_extent(placement, extent), len),
        };
        ChecksumAlgorithm::Crc32.combine(crc, own, len)
    });
    let literal = |offset: &u64| Literal {
        file: FileId(sums.file),
        offset: *offset,
        bytes: crc.to_le_bytes().to_vec(),
    };
    Ok(sums.places.iter().map(literal).collect())
}

/// What the format keeps if the configuration states it, and does not come back here.
fn left_out(
    checkpoint: &Checkpoint,
    placements: &[Placement],
    contents: Option<&Contents>,
) -> BTreeMap<Aspect, String> {
    let empty = Checkpoint::default();
    let again = contents.map_or(&empty, |contents| &contents.checkpoint);
    let by_name = again.by_name();
    let written: HashMap<&str, &str> = placements
        .iter()
        .filter_map(|placement| {
            Some((checkpoint.tensors.get(placement.tensor.0)?.name.as_str(), placement.name.as_str()))
        })
        .collect();
    let pairs: Vec<(&Tensor, Option<&Tensor>)> = placements
        .iter()
        .filter_map(|placement| {
            let own = checkpoint.tensors.get(placement.tensor.0)?;
            let again = by_name.get(placement.name.as_str()).and_then(|id| again.tensors.get(id.0));
            Some((own, again))
        })
        .collect();
    let all = |same: &dyn Fn(&Tensor, &Tensor) -> bool| {
        pairs.iter().all(|(own, again)| again.is_some_and(|again| same(own, again)))
    };
    let same_slot = |own: &Tensor, again: &Tensor| match (&own.slot, &again.slot) {
        (None, _) => true,
        (Some(own), Some(again)) => {
            own.name == again.name && written.get(own.variable.as_str()) == Some(&again.variable.as_str())
        }
        (Some(_), None) => false,
    };
    let mut left = BTreeMap::new();
    let mut note = |aspect: Aspect, comes_back: bool| {
        if !comes_back {
            left.insert(aspect, "the output has no configuration that states it".to_owned());
        }
    };
    note(Aspect::Axes, all(&|own, again| own.axes.is_none() || own.axes == again.axes));
    note(Aspect::Roles, all(&|own, again| own.role == again.role));
    note(Aspect::Slots, all(&same_slot));
    let renamed = checkpoint.graph.clone().map(|mut graph| {
        graph.each_node_mut(|node| {
            for name in node.parameters.values_mut() {
                if let Some(new) = written.get(name.as_str()) {
                    *name = (*new).to_owned();
                }
            }
        });
        graph
    });
    if renamed.is_some() && renamed != again.graph {
        let reason = match again.graph {
            Some(_) => "it becomes layers of Keras, which are read as other nodes",
            None => "the output has no configuration from which it can be read",
        };
        left.insert(Aspect::Graph, reason.to_owned());
    }
    left
}
