//! Fits values into shapes that another graph or input states.

use ckpt_forward::{Array, Value};

/// Returns the shape that an array of shape `shape` takes as an input stated as `stated`, whose lengths may be free.
///
/// An image for each row becomes a row of pixels, a single example a batch of one. Returns `None` if the shape fits
/// already, or where the numbers of elements differ.
pub(crate) fn fit_shape(shape: &[usize], stated: &[Option<u64>]) -> Option<Vec<usize>> {
    let matches = |shape: &[usize], stated: &[Option<u64>]| {
        let fits = |(len, stated): (&usize, &Option<u64>)| stated.is_none_or(|stated| stated == *len as u64);
        shape.len() == stated.len() && shape.iter().zip(stated).all(fits)
    };
    if matches(shape, stated) {
        return None;
    }
    let (first, rest) = stated.split_first()?;
    if matches(shape, rest) {
        return first.is_none_or(|first| first == 1).then(|| [&[1], shape].concat());
    }
    let rest: Vec<usize> = rest.iter().map(|len| usize::try_from((*len)?).ok()).collect::<Option<_>>()?;
    let (batch, own) = shape.split_first()?;
    let product = |lens: &[usize]| lens.iter().try_fold(1usize, |product, len| product.checked_mul(*len));
    let fits = first.is_none_or(|first| first == *batch as u64) && product(own) == product(&rest);
    fits.then(|| [&[*batch], &rest[..]].concat())
}

/// Whether examples of this shape are as stated, however many there are.
pub(crate) fn is_example(shape: &[usize], stated: &[Option<u64>]) -> bool {
    let fits = |(len, stated): (&usize, &Option<u64>)| stated.is_none_or(|stated| stated == *len as u64);
    shape.len() == stated.len() && shape.iter().zip(stated).skip(1).all(fits)
}

/// `[?, 20]`, where a length is free.
pub(crate) fn show_stated(shape: &[Option<u64>]) -> String {
    let lens = shape.iter().map(|len| len.map_or("?".to_owned(), |len| len.to_string()));
    format!("[{}]", lens.collect::<Vec<_>>().join(", "))
}

/// Returns the same elements in another shape, with the same batch; `None` if the numbers of elements differ.
pub(crate) fn reshaped(value: &Value, shape: &[usize]) -> Option<Value> {
    if value.shape == shape {
        return Some(value.clone());
    }
    // One graph may have an image where another has a row.
    let stated: Vec<Option<u64>> = shape.iter().map(|len| Some(*len as u64)).collect();
    let flat = |shape: &[usize]| shape.iter().skip(1).product::<usize>();
    let is_like = value.shape.first() == shape.first() && flat(&value.shape) == flat(shape);
    (is_like || fit_shape(&value.shape, &stated).is_some())
        .then(|| Value::new(shape, value.array.clone()).ok())
        .flatten()
}

/// Whether two values have the same shape, and both are real or both are integers.
pub(crate) fn are_comparable(a: &Value, b: &Value) -> bool {
    a.shape == b.shape && matches!(a.array, Array::I32(_)) == matches!(b.array, Array::I32(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_examples_does_not_matter_to_what_an_example_is() {
        let rows = [Some(1), Some(784)];
        assert!(is_example(&[10, 784], &rows) && is_example(&[10, 784], &[None, None]));
        assert!(!is_example(&[10, 785], &rows) && !is_example(&[784], &rows));
        assert_eq!(show_stated(&[None, Some(784)]), "[?, 784]");
    }

    #[test]
    fn an_image_becomes_a_row_and_a_single_example_a_batch_of_one() {
        let rows = [None, Some(784)];
        assert_eq!(fit_shape(&[10, 28, 28], &rows), Some(vec![10, 784]));
        assert_eq!(fit_shape(&[784], &rows), Some(vec![1, 784]));
        assert_eq!(fit_shape(&[10, 784], &rows), None);
        assert_eq!(fit_shape(&[10, 785], &rows), None);
        assert_eq!(fit_shape(&[10, 28, 28], &[None, Some(1), Some(28), Some(28)]), Some(vec![10, 1, 28, 28]));
        assert_eq!(fit_shape(&[3, 4], &[None, None, None]), Some(vec![1, 3, 4]));
    }
}
