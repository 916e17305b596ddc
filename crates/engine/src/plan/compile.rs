//! Makes a plan of what a source holds and where a target wants it. Pure.

use super::losses::{losses as losses_of, of_blocks};
use super::memory::{Stores, bytes, read_bytes, share_of};
use super::{Comparison, Entry, Item, Plan, Settings, SourceRecord, Stored, TargetRecord, added};
use crate::layout::{self, TargetLayout, axis_order, canonical, cut, default_range_size};
use crate::map::Twins;
use crate::resources::{Budget, Resources};
use ckpt_api::{
    Contents, Encoding, Error, FormatInfo, Loss, OutputLayout, Placement, Result, Tensor, Vocabulary,
};
use std::sync::Arc;

/// Everything a plan is made from.
pub(crate) struct Parts<'a> {
    pub(crate) source: SourceRecord,
    pub(crate) target: TargetRecord,
    pub(crate) settings: Settings,
    /// The target's format.
    pub(crate) info: &'a FormatInfo,
    pub(crate) contents: Arc<Contents>,
    pub(crate) placed: OutputLayout,
    pub(crate) excluded: Vec<String>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) twins: Vec<Twins>,
    pub(crate) resources: Resources,
    /// The stores of both sides, which may take memory of their own.
    pub(crate) stores: Stores<'a>,
    /// Whether the output will be read back.
    pub(crate) reread: bool,
    /// How losses name settings.
    pub(crate) words: &'a dyn Vocabulary,
}

/// Compiles every tensor's route, and cuts the output into items.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if no steps lead from source to target, [`ckpt_api::Kind::Limit`] if the
/// conversion does not fit into the memory allowed, [`ckpt_api::Kind::Defect`] for what the codec placed wrongly.
pub(crate) fn compile(parts: Parts<'_>) -> Result<Plan> {
    let Parts { source, target, settings, info, contents, placed, excluded, mut losses, .. } = parts;
    placed.check(&contents.checkpoint)?;
    placed.check_cover()?;
    losses.extend(losses_of(&contents, &placed, info));
    losses.iter_mut().for_each(|loss| loss.detail.settle(parts.words));
    let entries = entries(&contents, &placed)?;
    losses.extend(of_blocks(&contents.checkpoint, &placed, &entries));
    let shared = placed.shared(&contents.checkpoint.ties);
    let mut plan = Plan {
        source,
        target,
        settings,
        excluded,
        losses,
        bytes_read: 0,
        bytes_written: 0,
        peak_memory: 0,
        threads: 0,
        budget: Budget::default(),
        contents,
        placed: Arc::new(placed),
        shared,
        entries,
        items: Vec::new(),
    };
    plan.bytes_read = plan.written().fold(0, |sum, entry| sum.saturating_add(read_bytes(entry.from)));
    plan.bytes_written = plan.written().fold(0, |sum, entry| sum.saturating_add(bytes(entry.to)));
    let size = match parts.resources.item_size {
        0 => default_range_size(plan.bytes_written),
        // Nothing is larger than everything.
        size => size.min(plan.bytes_written.max(1)),
    };
    let ranges = cut(plan.cuts(), |number| plan.extents(number), size)?.into_iter().map(Item::Write);
    let twins = parts.twins.into_iter().map(|twins| Ok(Item::Compare(Box::new(comparison(twins)?))));
    plan.items = twins.collect::<Result<_>>()?;
    plan.items.extend(ranges);
    plan.check_clones()?;
    let held = parts.stores.reserve(plan.files(), parts.resources.max_memory);
    (plan.budget, plan.threads, plan.peak_memory) = share_of(&plan, parts.resources, parts.reread, held)?;
    Ok(plan)
}

/// The comparison of two tensors: the axes of both in one order, and the elements as they are stored.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for tensors that differ in shape, dtype or lengths.
pub(super) fn comparison(twins: Twins) -> Result<Comparison> {
    let Twins { name, first: (first, placement), other: (other, other_placement) } = twins;
    let (encoding, mut other_encoding) = (canonical(&first, &placement), canonical(&other, &other_placement));
    match axis_order(&first, &other) {
        Some(order)
            if first.lengths == other.lengths
                && encoding.dtype == other_encoding.dtype
                && first.quantization == other.quantization =>
        {
            other_encoding.order = order.into();
        }
        _ => return Err(unequal(&name, &first, &other)),
    }
    let stored = |tensor: Tensor, placement: Placement, encoding: Encoding| {
        let route = layout::compile(&tensor, &placement, &TargetLayout::read(&encoding), &[])?;
        Ok(Stored { tensor, placement, encoding, route })
    };
    let first = stored(first, placement, encoding)?;
    Ok(Comparison { name, first, other: stored(other, other_placement, other_encoding)? })
}

/// The error for tensors that must be equal and are not.
pub(crate) fn unequal(name: &str, first: &Tensor, other: &Tensor) -> Error {
    Error::mapping("tensors that must be equal differ, so they cannot share one name")
        .tensor(name)
        .found(format!("'{}' differs from '{}'", other.name, first.name))
        .help("leave one of them out with 'ignore', or give each its own name")
}

/// The route to each placement, in the order of the source's bytes.
pub(super) fn entries(contents: &Contents, placed: &OutputLayout) -> Result<Vec<Entry>> {
    let mut entries = Vec::with_capacity(placed.placements.len());
    for (number, target) in placed.placements.iter().enumerate() {
        let (tensor, source) = contents.tensor_at(target.tensor)?;
        let added = added(contents, target)?;
        let route = layout::compile(tensor, source, &TargetLayout::placed(target), &added)?;
        entries.push(Entry { number, route });
    }
    let source = |entry: &Entry| placed.placements.get(entry.number).map(|target| target.tensor.0);
    let extents = |entry: &Entry| contents.placements.get(source(entry)?).map(|placement| &placement.extents);
    let place = |entry: &Entry| extents(entry)?.first().map(|extent| (extent.file, extent.offset));
    entries.sort_unstable_by_key(|entry| (place(entry), entry.number));
    Ok(entries)
}
