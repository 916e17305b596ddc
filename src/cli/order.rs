//! Which tensors are shown, and in which order.

use ckpt_api::{Checkpoint, Tensor, TensorId};
use ckpt_engine::natural::{make_readable, natural};

/// An order of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The checkpoint's own.
    Stored,
    /// The checkpoint's own, but `layer2` before `layer10` where it is alphabetical.
    Readable,
    /// By name, `layer2` before `layer10`.
    Name,
    /// The largest first.
    Size,
}

/// Sorts tensors, which come in the checkpoint's order; `bytes` returns their size.
pub(super) fn sort(
    ids: &mut [TensorId],
    checkpoint: &Checkpoint,
    order: Order,
    bytes: impl Fn(&TensorId) -> u64,
) {
    let name = |id: &TensorId| checkpoint.tensors.get(id.0).map_or("", |tensor: &Tensor| &tensor.name);
    match order {
        Order::Stored => {}
        Order::Readable => make_readable(ids, name),
        Order::Name => ids.sort_by(|a, b| natural(name(a), name(b))),
        Order::Size => ids.sort_by(|a, b| bytes(b).cmp(&bytes(a)).then_with(|| natural(name(a), name(b)))),
    }
}
