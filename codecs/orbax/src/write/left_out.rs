//! Declares what an output does not have.

use crate::roles;
use ckpt_api::{Aspect, Checkpoint, OutputLayout, Tensor};

/// Declares roles that the names do not state.
pub(super) fn leave_out_roles(placed: &mut OutputLayout, checkpoint: &Checkpoint) {
    let own = || placed.placements.iter().filter_map(|placement| checkpoint.tensors.get(placement.tensor.0));
    let mut read: Vec<Tensor> =
        own().map(|own| Tensor::new(&own.name, own.dtype, own.shape.clone())).collect();
    roles::assign(&mut read);
    if read.iter().zip(own()).any(|(read, own)| read.role != own.role || read.slot != own.slot) {
        let why = "the names of the tensors state others";
        placed.left_out.extend([Aspect::Roles, Aspect::Slots].map(|aspect| (aspect, why.to_owned())));
    }
}
