//! Words, badges and cells of tables.

use ckpt_html::{code, escaped, number, shortened, whole};

/// A measure, and how it is shown.
pub(super) struct Measured {
    pub(super) value: Option<f64>,
    pub(super) shown: String,
}

impl Measured {
    pub(super) fn number(value: Option<f64>) -> Self {
        Measured { value, shown: measure(value) }
    }

    pub(super) fn count(count: Option<u64>) -> Self {
        let shown = count.map_or_else(|| "n/a".to_owned(), whole);
        Measured { value: count.map(|count| count as f64), shown }
    }

    /// What sorts as the largest.
    pub(super) fn text(text: &str) -> Self {
        Measured { value: Some(f64::INFINITY), shown: text.to_owned() }
    }
}

/// Returns a measure that may be missing.
pub(super) fn measure(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), number)
}

/// Returns a cell that sorts by its value; a missing value sorts as the largest.
pub(super) fn cell(class: &str, measured: &Measured) -> String {
    let value = measured.value.filter(|value| value.is_finite());
    let key = value.map_or("Infinity".to_owned(), |value| format!("{value:e}"));
    format!("<td class=\"{class}\" data-value=\"{key}\">{}</td>", measured.shown)
}

/// Returns a shape.
pub(super) fn shape(lens: &[impl ToString]) -> String {
    let lens: Vec<String> = lens.iter().map(ToString::to_string).collect();
    format!("[{}]", lens.join(", "))
}

pub(super) fn badge(verdict: &str) -> String {
    format!("<span class=\"badge {verdict}\">{}</span>", escaped(&verdict.replace('-', " ")))
}

/// A name that may be cut, in the typeface of names.
pub(super) fn name(text: &str) -> String {
    code(&shortened(text))
}

/// A cosine, whose digits after many nines matter.
pub(super) fn nines(value: Option<f64>) -> String {
    value.map_or_else(
        || "n/a".to_owned(),
        |value| if value == 1.0 { "1".to_owned() } else { format!("{value:.9}") },
    )
}
