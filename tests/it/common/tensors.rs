//! Tensors whose values show where they come from.

use super::workplace::Tensor;

pub type Tensors = Vec<Tensor>;

/// A shape and its values.
pub type Values = (Vec<usize>, Vec<f32>);

/// Values that no other tensor has.
pub fn values(seed: usize, shape: &[usize]) -> Values {
    let count = shape.iter().product();
    (shape.to_vec(), (0..count).map(|k| (seed * 1000 + k) as f32).collect())
}

pub fn tensor(name: &str, (shape, values): Values) -> Tensor {
    (name.to_owned(), shape, values)
}

pub fn transposed((shape, values): Values) -> Values {
    let (rows, columns) = (shape[0], shape[1]);
    let turned = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
    (vec![columns, rows], turned.map(|k| values[k]).collect())
}
