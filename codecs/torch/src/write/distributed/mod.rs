//! Writes a directory of `torch.distributed.checkpoint`: `.metadata`, and files in which every chunk of a tensor and
//! every value that is no tensor is an archive of its own, as `torch.save` writes it.

mod keep;
mod kept;
mod layout;
mod metadata;
mod objects;
mod parts;
mod shards;
mod value;

pub(crate) use keep::{is_described, keep, keep_object, keep_objects};

use super::archive::Sums;
use super::fresh;
use super::left_out::{leave_out_companions, leave_out_roles, leave_out_scales};
use super::nesting::{self, Nesting};
use crate::format::keys::KEY_MODULES;
use crate::format::metadata::FILE;
use crate::format::{ENDINGS, ID};
use crate::roles::named as roles;
use ckpt_api::{
    Checkpoint, Error, FileId, FinishState, Literal, Loss, LossKind, Options, OutputFile, OutputLayout,
    Result, Tensor,
};
use keep::is_from_directory;
use kept::Kept;
use layout::Laid;
use parts::Parts;

/// Whether a directory is written: if the option `form` says so, if the output is a directory without a name of its
/// own, or where one was read and the output's name has none of the endings of files.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for options that contradict each other.
pub(super) fn is_chosen(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<bool> {
    let is_file =
        name.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending) || ending == "json");
    let has_ranks = options.text("ranks").is_some();
    match options.text("form") {
        Some("file") if has_ranks => {
            Err(Error::usage("ranks are for a directory, but the form is a file").field("ranks"))
        }
        Some(form) => Ok(form == "dcp"),
        None => Ok(has_ranks || name.is_empty() || (is_from_directory(checkpoint) && !is_file)),
    }
}

/// Lays out a directory of this name.
pub(super) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let (tensors, lens) = fresh::store(checkpoint)?;
    let mut placed = OutputLayout::default();
    let kept = Kept::of(checkpoint);
    let nesting = if kept.is_none() { Nesting::of(checkpoint) } else { Nesting::default() };
    let objects = objects::all(checkpoint, &nesting, &mut placed.losses);
    let parts = Parts { tensors, objects };
    let folder = if name.is_empty() { String::new() } else { format!("{name}/") };
    let is_free = options.text("ranks").is_none() && options.text("shard_size").is_none();
    let again = match kept.as_ref().filter(|_| is_free) {
        Some(kept) => kept.lay_out(&parts)?,
        None => None,
    };
    let (laid, metadata) = match again {
        Some(again) => again,
        None => {
            let laid = layout::lay_out(&parts, &shards::distribute(&parts, &lens, options)?)?;
            let own = || parts.tensors.iter().map(|stored| stored.tensor.name.as_str());
            let of_tensors = || own().map(|name| (name, nesting.steps(name)));
            let of_objects = || parts.objects.iter().map(|own| (own.name.as_str(), own.steps.clone()));
            let paths = match &kept {
                Some(kept) => kept.paths(),
                None => nesting::paths(of_tensors().chain(of_objects())),
            };
            let metadata = metadata::pickle(&parts, &laid, &paths);
            (laid, metadata)
        }
    };
    leave_out(&mut placed, checkpoint, &parts);
    let Laid { files, literals, sums, chunks, .. } = laid;
    placed.files.extend(files.into_iter().map(|(file, len)| OutputFile::new(format!("{folder}{file}"), len)));
    placed.literals.extend(literals);
    for (stored, chunks) in parts.tensors.iter().zip(chunks) {
        placed.placements.push(stored.placement(chunks.into_iter().map(|chunk| chunk.extent).collect()));
    }
    let file = FileId(placed.files.len());
    placed.files.push(OutputFile::new(format!("{folder}{FILE}"), metadata.len() as u64));
    placed.literals.push(Literal { file, offset: 0, bytes: metadata });
    let bytes = sums.iter().map(Sums::bytes).sum();
    placed.finish = FinishState::new(sums).of_size(bytes);
    Ok(placed)
}

/// Declares what a directory does not have: what PyTorch records of modules, and roles that do not follow from names.
fn leave_out(placed: &mut OutputLayout, checkpoint: &Checkpoint, parts: &Parts<'_>) {
    if checkpoint.metadata.value(ID, KEY_MODULES).is_some() {
        let why = "a distributed checkpoint has no place for it";
        placed.losses.push(Loss::new(LossKind::MetadataDropped, KEY_MODULES, why));
    }
    leave_out_companions(placed, checkpoint);
    leave_out_scales(placed, "the tensors of a directory are written without them");
    let own = || parts.tensors.iter().map(|stored| stored.tensor);
    let mut read: Vec<Tensor> =
        own().map(|own| Tensor::new(&own.name, own.dtype, own.shape.clone())).collect();
    let names: Vec<String> = parts.objects.iter().map(|object| object.name.clone()).collect();
    roles::assign(&mut read, &names);
    if read.iter().zip(own()).any(|(read, own)| read.role != own.role || read.slot != own.slot) {
        leave_out_roles(placed, "the names of a distributed checkpoint state others");
    }
}
