//! Keys as text, and what is left to TensorFlow's naming conventions where nothing else says it.

use crate::format::VARIABLE_VALUE;
use ckpt_api::{Axis, Shape};

/// What the axes of a weight mean, by its name: normalisations, and where there is no object graph (`bare`) the
/// convolutions of TensorFlow 1.
pub(crate) fn axes(name: &str, shape: &Shape, bare: bool) -> Option<Vec<Axis>> {
    const NORMALISATION: &[&str] = &["beta", "gamma", "moving_mean", "moving_variance"];
    let name = name.strip_suffix(VARIABLE_VALUE).unwrap_or(name);
    let (layer, last) = name.rsplit_once('/').unwrap_or(("", name));
    match shape.rank() {
        1 if NORMALISATION.contains(&last) => Some(vec![Axis::Out]),
        4 if bare && last == "kernel" && !layer.contains("transpose") && !layer.contains("depthwise") => {
            Some(vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out])
        }
        _ => None,
    }
}

/// A key as messages show it: one that is too long for them is cut.
pub(crate) fn shown(key: &[u8]) -> String {
    const MOST: usize = 1000;
    let (mut shown, _) = text(key.get(..MOST).unwrap_or(key));
    if key.len() > MOST {
        shown.push('…');
    }
    shown
}

/// A key as text. Bytes that are no UTF-8 become `\xNN`, and then a backslash becomes two; the second value
/// says whether that was done.
pub(crate) fn text(key: &[u8]) -> (String, bool) {
    if let Ok(text) = std::str::from_utf8(key) {
        return (text.to_owned(), false);
    }
    let mut text = String::new();
    for chunk in key.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    (text, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_convolution_and_a_normalisation_are_labelled_but_nothing_ambiguous() {
        let axes_of = |name: &str, dims: &[u64], bare| axes(name, &Shape::new(dims).unwrap(), bare);
        let convolution = Some(vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out]);
        assert_eq!(axes_of("conv/kernel", &[3, 3, 1, 8], true), convolution);
        assert_eq!(axes_of("conv/kernel", &[3, 3, 1, 8], false), None);
        assert_eq!(axes_of("conv2d_transpose/kernel", &[3, 3, 1, 8], true), None);
        assert_eq!(axes_of("bn/moving_mean/.ATTRIBUTES/VARIABLE_VALUE", &[8], false), Some(vec![Axis::Out]));
        assert_eq!(axes_of("bn/moving_mean", &[8, 2], false), None);
    }

    #[test]
    fn a_key_that_is_no_text_is_escaped_so_that_it_can_be_recovered() {
        assert_eq!(text("n\u{e9}\\x".as_bytes()), ("n\u{e9}\\x".to_owned(), false));
        assert_eq!(text(b"a\\\xff\x00"), ("a\\\\\\xff\0".to_owned(), true));
    }
}
