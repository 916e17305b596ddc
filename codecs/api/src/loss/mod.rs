//! What a target cannot carry, and what tensors are for.

mod aspect;
mod kind;
mod role;

pub use aspect::Aspect;
pub use kind::{Loss, LossKind};
pub use role::Role;
