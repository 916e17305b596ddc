//! Declares what is not written of a checkpoint.

use crate::format::ID;
use crate::format::keys::{COMPANIONS, KEY_INDEX, KEY_MODULES};
use ckpt_api::{Aspect, Checkpoint, Loss, LossKind, OutputLayout};

/// Declares what a plain state dict does not have.
pub(super) fn leave_out(placed: &mut OutputLayout, checkpoint: &Checkpoint) {
    let why = "a state dict of tensors alone is written";
    leave_out_roles(placed, why);
    let own = checkpoint.metadata.namespace(ID).into_iter().flat_map(|own| own.iter());
    let lost = own.filter(|(key, _)| ![KEY_MODULES, KEY_INDEX].contains(key));
    placed.losses.extend(lost.map(|(key, _)| Loss::new(LossKind::MetadataDropped, key, why)));
    leave_out_scales(placed, why);
}

/// Declares the values of files that lay beside the shards of a directory.
pub(super) fn leave_out_companions(placed: &mut OutputLayout, checkpoint: &Checkpoint) {
    for (file, namespace) in COMPANIONS {
        let values = checkpoint.metadata.namespace(namespace).into_iter().flat_map(|values| values.iter());
        let detail = format!("the file '{file}' that a trainer stored beside the shards is not written");
        let loss = |(key, _)| Loss::new(LossKind::MetadataDropped, format!("{namespace}.{key}"), &*detail);
        placed.losses.extend(values.map(loss));
    }
}

/// Declares that integers are stored without what they stand for.
pub(super) fn leave_out_scales(placed: &mut OutputLayout, why: &str) {
    placed.left_out.insert(Aspect::Scales, why.to_owned());
}

pub(super) fn leave_out_roles(placed: &mut OutputLayout, why: &str) {
    placed.left_out.extend([Aspect::Roles, Aspect::Slots].map(|aspect| (aspect, why.to_owned())));
}
