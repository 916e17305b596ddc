//! What several sections of the page share: names, and limits of its tables.

use crate::TensorSummary;
use ckpt_html::{code, counted, shortened, whole};
use std::collections::HashMap;

/// Rows of one table on a page.
pub(super) const MAX_ROWS: usize = 50_000;

/// Tensors by name.
pub(super) type Tensors<'a> = HashMap<&'a str, &'a TensorSummary>;

/// A name that may be cut, in the typeface of names.
pub(super) fn name(text: &str) -> String {
    code(&shortened(text))
}

/// Counts what a page leaves out.
pub(super) fn left_out(all: usize, shown: usize, what: &str) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => format!("<p>This page leaves out {}.</p>\n", counted(more, what)),
    }
}

/// The lengths of the axes of a tensor.
pub(super) fn lens(tensor: &TensorSummary) -> String {
    let lens: Vec<String> = tensor.shape.iter().copied().map(whole).collect();
    if lens.is_empty() { "scalar".to_owned() } else { lens.join(" × ") }
}
