//! Recognizes patterns in how a tensor differs from its reference.

use super::elements::{lens, permuted};
use ckpt_api::Tensor;

/// Largest number of axes whose orders are tried.
const MAX_AXES: usize = 4;

/// Names the bit in which two binary32 numbers differ, if it is only one.
#[expect(clippy::cast_possible_truncation, reason = "numbers that binary32 does not hold are excluded")]
pub(super) fn flipped_bit(x: f64, y: f64) -> Option<String> {
    let (a, b) = (x as f32, y as f32);
    let bits = a.to_bits() ^ b.to_bits();
    let is_single = f64::from(a) == x && f64::from(b) == y;
    (is_single && bits.count_ones() == 1).then(|| format!("bit {} is flipped", bits.trailing_zeros()))
}

/// Names the order of axes in which the elements `x` of `tensor` are equal to one of `found`.
pub(super) fn other_axis_order(tensor: &Tensor, x: &[f64], found: [&[f64]; 2]) -> Option<String> {
    let rank = tensor.shape.rank();
    if rank > MAX_AXES {
        return None;
    }
    let name = |axis: &usize| match tensor.axes.as_ref().and_then(|axes| axes.get(*axis)) {
        Some(axis) => axis.name().to_owned(),
        None => axis.to_string(),
    };
    let same =
        |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
    orders(rank).into_iter().skip(1).find_map(|order| {
        let permuted = permuted(x, &lens(tensor), &order);
        found.iter().any(|found| same(&permuted, found)).then(|| {
            let names: Vec<String> = order.iter().map(name).collect();
            format!("it equals the reference with its axes in the order {}", names.join(" "))
        })
    })
}

/// All orders of `0..len`, the identity first.
fn orders(len: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..len {
        let longer = orders.iter().flat_map(|order| {
            let left = (0..len).filter(|axis| !order.contains(axis));
            left.map(|axis| [&order[..], &[axis]].concat()).collect::<Vec<_>>()
        });
        orders = longer.collect();
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_are_tried_the_identity_first() {
        assert_eq!(orders(3).len(), 6);
        assert_eq!(orders(3)[0], [0, 1, 2]);
        assert_eq!(orders(0), [[0; 0]]);
    }

    #[test]
    fn a_flipped_bit_is_named() {
        let flip = |bit: u32| f64::from(f32::from_bits(1.5f32.to_bits() ^ (1 << bit)));
        assert_eq!(flipped_bit(1.5, flip(13)).unwrap(), "bit 13 is flipped");
        assert_eq!(flipped_bit(1.5, 2.25), None);
        assert_eq!(flipped_bit(0.1, 0.2), None);
    }

    #[test]
    fn another_order_of_axes_is_recognized() {
        use ckpt_api::{Axis, DType, Shape};
        let tensor =
            Tensor::new("w", DType::F32, Shape::new([2, 2]).unwrap()).with_axes([Axis::Out, Axis::In]);
        let found = other_axis_order(&tensor, &[1.0, 2.0, 3.0, 4.0], [&[1.0, 3.0, 2.0, 4.0], &[]]).unwrap();
        assert_eq!(found, "it equals the reference with its axes in the order in out");
        assert_eq!(other_axis_order(&tensor, &[1.0, 2.0, 3.0, 4.0], [&[4.0, 3.0, 2.0, 1.0], &[]]), None);
    }
}
