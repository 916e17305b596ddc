//! Cells of a report's tables.

use crate::html::number;

/// A measure that may be missing.
pub(super) fn measure(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), number)
}

/// A cell of a measure.
pub(super) fn cell(value: Option<f64>) -> String {
    sorted(value, &measure(value))
}

/// A cell of a number of things.
pub(super) fn count(number: Option<u64>) -> String {
    sorted(
        number.map(|number| number as f64),
        &number.map_or_else(|| "n/a".to_owned(), |number| number.to_string()),
    )
}

/// A cell that sorts by its value; what is missing sorts as the largest.
pub(super) fn sorted(value: Option<f64>, shown: &str) -> String {
    let key =
        value.filter(|value| value.is_finite()).map_or("Infinity".to_owned(), |value| format!("{value:e}"));
    format!("<td class=\"number\" data-value=\"{key}\">{shown}</td>")
}

/// Lengths of axes.
pub(super) fn shape(lens: &[impl ToString]) -> String {
    let lens: Vec<String> = lens.iter().map(ToString::to_string).collect();
    format!("[{}]", lens.join(", "))
}
