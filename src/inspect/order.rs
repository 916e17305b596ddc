//! Which tensors are shown, and in which order.

use crate::words::natural;
use ckpt_api::{Checkpoint, Tensor, TensorId};

/// An order of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
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
pub(crate) fn sort(
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

/// Sorts every stretch of alphabetical names as people do: formats that sort names put `layer10` before `layer2`.
pub(crate) fn make_readable<'a, T>(items: &mut [T], name: impl Fn(&T) -> &'a str) {
    for stretch in items.chunk_by_mut(|a, b| name(a) <= name(b)) {
        stretch.sort_by(|a, b| natural(name(a), name(b)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabetical_stretches_are_sorted_naturally_and_an_order_of_layers_is_kept() {
        let mut sorted = ["l1.w", "l10.b", "l10.w", "l2.w", "l1.n", "l10.n", "l2.n"];
        make_readable(&mut sorted, |name| name);
        assert_eq!(sorted, ["l1.w", "l2.w", "l10.b", "l10.w", "l1.n", "l2.n", "l10.n"]);
        let mut layers = ["l8.w", "l8.b", "l9.w", "l9.b", "l10.w", "l10.b"];
        make_readable(&mut layers, |name| name);
        assert_eq!(layers, ["l8.w", "l8.b", "l9.w", "l9.b", "l10.w", "l10.b"]);
    }
}
