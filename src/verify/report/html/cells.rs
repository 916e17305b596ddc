//! Cells of tables.

use crate::html::number;

/// Returns a measure that may be missing.
pub(super) fn measure(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), number)
}

/// Returns the cell of a measure.
pub(super) fn cell(value: Option<f64>) -> String {
    sorted(value, &measure(value))
}

/// Returns the cell of a count.
pub(super) fn count(number: Option<u64>) -> String {
    sorted(
        number.map(|number| number as f64),
        &number.map_or_else(|| "n/a".to_owned(), |number| number.to_string()),
    )
}

/// Returns a cell that sorts by its value; a missing value sorts as the largest.
pub(super) fn sorted(value: Option<f64>, shown: &str) -> String {
    let key =
        value.filter(|value| value.is_finite()).map_or("Infinity".to_owned(), |value| format!("{value:e}"));
    format!("<td class=\"number\" data-value=\"{key}\">{shown}</td>")
}

/// Returns a shape.
pub(super) fn shape(lens: &[impl ToString]) -> String {
    let lens: Vec<String> = lens.iter().map(ToString::to_string).collect();
    format!("[{}]", lens.join(", "))
}
