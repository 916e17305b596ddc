//! Writes what `torch.save` writes: a file, or a set with Hugging Face's names; or a directory of
//! `torch.distributed.checkpoint`.

mod archive;
pub(crate) mod distributed;
mod file;
mod fresh;
mod kept;
mod kind;
mod left_out;
mod nesting;
mod pickle;
mod set;
mod state_dict;
#[cfg(test)]
mod tests;

pub(crate) use kept::keep;
pub(crate) use kind::NATIVE;

use crate::format::keys::{DCP, KEY_DIFFERENCES, ZIP};
use archive::Sums;
use ckpt_api::{
    Checkpoint, FinishState, Literal, Loss, LossKind, MetadataValue, Options, OutputLayout, Result, Written,
};
use kept::Kept;
use left_out::{leave_out, leave_out_companions, leave_out_roles};
use set::Target;

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    if distributed::is_chosen(checkpoint, name, options)? {
        return distributed::place(checkpoint, name, options);
    }
    let (stored, lens) = fresh::store(checkpoint)?;
    let target = Target::new(name, options, &lens)?;
    let mut placed = OutputLayout::default();
    if checkpoint.metadata.namespace(DCP).is_some() {
        let why = "a file does not record how a directory was distributed";
        placed.losses.push(Loss::new(LossKind::MetadataDropped, DCP, why));
    }
    leave_out_companions(&mut placed, checkpoint);
    let mut sums = Vec::new();
    if let Some(kept) = Kept::of(checkpoint).filter(|_| !target.set) {
        let named = (name.to_owned(), file::folder(checkpoint));
        if !kept.has_roles {
            leave_out_roles(&mut placed, "the pickle that was read states others");
        }
        // As it was read: its records begin where they did.
        sums.push(file::add(&mut placed, checkpoint, named, &kept.pickle, &kept.storages, None)?);
    } else {
        leave_out(&mut placed, checkpoint);
        let shards = target.split(stored, &lens);
        // A file that comes back byte for byte has its records where PyTorch puts them.
        let phases = options.phases().filter(|_| checkpoint.metadata.namespace(ZIP).is_none());
        for (number, shard) in shards.iter().enumerate() {
            let (pickle, storages) = fresh::pickle(checkpoint, shard, &lens);
            let name = target.file(number, shards.len());
            let folder = if target.set { file::FOLDER } else { file::folder(checkpoint) };
            let named = (name, folder);
            sums.push(file::add(&mut placed, checkpoint, named, &pickle, &storages, phases)?);
        }
        if target.set {
            let total = lens.iter().fold(0u64, |sum, len| sum.saturating_add(*len));
            set::add_index(&mut placed, checkpoint, &target, &shards, total)?;
        }
    }
    if !target.set {
        name_differences(&mut placed, checkpoint);
    }
    let bytes = sums.iter().map(Sums::bytes).sum();
    placed.finish = FinishState::new(sums).of_size(bytes);
    Ok(placed)
}

/// Declares how the file differs from the one that was read, where it would else have the same bytes.
fn name_differences(placed: &mut OutputLayout, checkpoint: &Checkpoint) {
    let kept = checkpoint.metadata.value(ZIP, KEY_DIFFERENCES).and_then(MetadataValue::as_list);
    let subject = format!("{ZIP}.{KEY_DIFFERENCES}");
    let texts = kept.into_iter().flatten().filter_map(MetadataValue::as_text);
    let loss = |text: &str| {
        let detail = format!("the file that was read is not written byte for byte: {text}");
        Loss::new(LossKind::BookkeepingDropped, &subject, detail)
    };
    placed.losses.extend(texts.map(loss));
}

/// See [`ckpt_api::Codec::finish`].
pub(crate) fn finish(placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
    let sums = placed.finish.get::<Vec<Sums>>()?;
    let crc =
        |placement: usize, extent: usize| written.get(placement)?.checksums.get(extent).copied().flatten();
    let mut literals = Vec::new();
    for sums in sums.iter() {
        literals.extend(sums.literals(crc)?);
    }
    Ok(literals)
}
