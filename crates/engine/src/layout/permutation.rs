//! Permutations of axes.

/// The permutation that undoes `order`.
pub fn inverse_permutation(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    for (k, axis) in order.iter().enumerate() {
        inverse[*axis] = k;
    }
    inverse
}

/// Axis `k` of the result, `to[k]`, is which axis of `from`?
pub(crate) fn relative_order(from: &[usize], to: &[usize]) -> Vec<usize> {
    let position = inverse_permutation(from);
    to.iter().map(|axis| position[*axis]).collect()
}
