//! A model with its tensors.

use super::model::{self, Model};
use super::names::TensorNames;
use super::tensor::{Located, Locator};
use crate::flat::Flat;
use crate::format::NAMESPACE;
use ckpt_api::{
    Contents, File, Limits, Loss, LossKind, MetadataMap, MetadataValue, Placement, Result, TensorId,
};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Bytes of a tensor whose elements the graph may be read with.
pub(crate) const SMALL: u64 = 1024;
/// Key of a tensor's metadata that names the tensor with the scales of its blocks.
const KEY_BLOCKS: &str = "blockwise";

/// A model with its tensors, without its metadata.
pub(crate) struct Parsed<'a> {
    pub(crate) model: Model<'a>,
    pub(crate) contents: Contents,
    pub(crate) constants: ParsedConstants,
}

/// Which tensors of the model are tensors of the checkpoint.
#[derive(Default)]
pub(crate) struct ParsedConstants {
    /// The tensor of the checkpoint for each constant, by subgraph and number.
    pub(crate) ids: HashMap<(usize, usize), usize>,
}

impl<'a> Parsed<'a> {
    pub(crate) fn of(flat: &'a Flat<'a>, limits: &Limits) -> Result<Self> {
        let model = model::parse(flat, limits)?;
        let mut contents = Contents::default();
        let (mut ids, mut names) = (HashMap::new(), TensorNames::default());
        let mut locator = Locator::new(flat, &model.buffers);
        let mut blocks = Vec::new();
        for (number, subgraph) in model.subgraphs.iter().enumerate() {
            for (index, table) in subgraph.tensors.iter().enumerate() {
                let name = names.name(subgraph, number, index);
                let located = locator.locate(table, &name);
                match located.map_err(|error| error.offset(table.at).tensor(&name))? {
                    Located::Nothing => {}
                    Located::Strings => {
                        let detail =
                            "tensors of strings are not read; a model that is written again keeps them";
                        contents.losses.push(Loss::new(LossKind::MetadataDropped, name, detail));
                    }
                    Located::Constant(constant) => {
                        let id = contents.checkpoint.tensors.len();
                        ids.insert((number, index), id);
                        blocks.extend(constant.blocks.map(|blocks| (number, id, blocks)));
                        let placement = Placement::new(
                            TensorId(id),
                            table.name.as_str(),
                            constant.extents,
                            constant.encoding,
                        );
                        contents.checkpoint.tensors.push(constant.tensor);
                        contents.placements.push(placement);
                    }
                }
            }
        }
        for (number, id, blocks) in blocks {
            let name = |tensor: i32| {
                let id = ids.get(&(number, usize::try_from(tensor).ok()?))?;
                contents.checkpoint.tensors.get(*id).map(|tensor| tensor.name.to_string())
            };
            let mut map = MetadataMap::default();
            map.insert("scales", name(blocks.scales).unwrap_or_default());
            if let Some(zero_points) = name(blocks.zero_points).filter(|_| blocks.zero_points > 0) {
                map.insert("zero_points", zero_points);
            }
            map.insert("size", blocks.size);
            map.insert("axis", blocks.axis);
            if let Some(tensor) = contents.checkpoint.tensors.get_mut(id) {
                tensor.metadata.insert(NAMESPACE, KEY_BLOCKS, MetadataValue::Map(map));
                let detail = "its scales are those of blocks, which do not go with it: its integers stand for other numbers";
                contents.losses.push(Loss::new(LossKind::ScaleDropped, tensor.name.as_str(), detail));
            }
        }
        let constants = ParsedConstants { ids };
        Ok(Parsed { model, contents, constants })
    }

    /// The ranges of the file that are bytes of tensors, in ascending order.
    pub(super) fn data(&self) -> Vec<Range<u64>> {
        let extents = self.contents.placements.iter().flat_map(|placement| &placement.extents);
        let ranges = extents.flat_map(|extent| extent.stored_ranges());
        let mut ranges: Vec<Range<u64>> =
            ranges.map(|(_, offset, len)| offset..offset.saturating_add(len)).collect();
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut().filter(|last| range.start < last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => merged.push(range),
            }
        }
        merged
    }

    /// The bytes of small tensors, by their offsets: the graph is read with them.
    pub(super) fn small(&self, file: &File) -> Result<BTreeMap<u64, Vec<u8>>> {
        let mut small = BTreeMap::new();
        for range in self.data() {
            let len = range.end.saturating_sub(range.start);
            if len <= SMALL {
                small.insert(range.start, file.bytes(range.start, len)?);
            }
        }
        Ok(small)
    }
}
