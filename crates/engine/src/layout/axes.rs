//! Which axis of one tensor is which of another.

use ckpt_api::Tensor;

/// In which order `b`'s axes must be read to be `a`'s; `None` if the shapes do not fit.
pub fn axis_order(a: &Tensor, b: &Tensor) -> Option<Vec<usize>> {
    let by_name = match (&a.axes, &b.axes) {
        (Some(axes_a), Some(axes_b)) if axes_a.len() == axes_b.len() => axes_a
            .iter()
            .map(|axis| axes_b.iter().position(|other| other == axis))
            .collect::<Option<Vec<_>>>(),
        _ => None,
    };
    let mut seen = vec![false; b.shape.rank()];
    let order = by_name
        .filter(|order| order.iter().all(|axis| !std::mem::replace(&mut seen[*axis], true)))
        .unwrap_or_else(|| (0..b.shape.rank()).collect());
    (b.shape.permuted(&order) == a.shape).then_some(order)
}
