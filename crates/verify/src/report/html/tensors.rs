//! The comparison of tensors by name, where no graph was run.

use super::cells::{Measured, cell, name, shape};
use crate::report::TensorReport;
use ckpt_api::{Affine, DType, Shape};
use ckpt_engine::diff::{Difference, Distance, Outcome, TensorDifference};
use ckpt_engine::words::{quantized, verb};
use ckpt_html::{counted, escaped, long_table, shortened, whole};
use std::fmt::Write;

/// Most tensors in the table.
const SHOWN: usize = 5000;
/// Most names in a list.
const NAMES: usize = 100;

/// A column of figures: its heading, its class, and its value.
type Column = (&'static str, &'static str, fn(&Distance) -> Measured);

const COLUMNS: [Column; 4] = [
    ("differing", "aside number", |distance| Measured::count(Some(distance.differing))),
    ("outside", "aside number", |distance| Measured::count(Some(distance.outside))),
    ("max abs", "aside number", |distance| Measured::number(Some(distance.max_absolute))),
    ("first", "aside number", |distance| Measured::count(Some(distance.first))),
];

/// Counts the tensors that differ, for the start of the page.
pub(super) fn verdict(difference: &Difference) -> String {
    let all = counted(difference.tensors.len(), "common tensor");
    let failing = difference.tensors.iter().filter(|tensor| fails(tensor)).count();
    let mut text = match failing {
        0 => format!("{all} {}", verb(difference.tensors.len(), "agrees", "agree")),
        _ => format!("{} of {all} {}", whole(failing as u64), verb(failing, "differs", "differ")),
    };
    for (names, side) in
        [(&difference.only_in_a, "reference"), (&difference.only_in_b, "compared checkpoint")]
    {
        if !names.is_empty() {
            let _ = write!(text, "; {} only in the {side}", counted(names.len(), "tensor"));
        }
    }
    text
}

pub(super) fn section(report: &TensorReport) -> String {
    let difference = &report.difference;
    let equal = difference.tensors.iter().filter(|tensor| tensor.outcome == Outcome::Equal).count();
    let mut text = format!(
        "<h2>Tensors</h2>\n<p>{}</p>\n<p>{} of {} {} equal.</p>\n",
        escaped(&shortened(&report.reason)),
        whole(equal as u64),
        counted(difference.tensors.len(), "common tensor"),
        verb(equal, "is", "are")
    );
    text += &names("Only in the reference", &difference.only_in_a);
    text += &names("Only in the compared checkpoint", &difference.only_in_b);
    text += &names("No difference, as they are of bookkeeping or training", &difference.incidental);
    let other = difference.tensors.iter().filter(|tensor| tensor.outcome != Outcome::Equal);
    let (failing, close): (Vec<_>, Vec<_>) = other.partition(|tensor| fails(tensor));
    let other: Vec<&TensorDifference> = failing.into_iter().chain(close).collect();
    if other.is_empty() {
        return text;
    }
    let shown = other.get(..SHOWN).unwrap_or(&other);
    if shown.len() < other.len() {
        let _ = writeln!(
            text,
            "<p>This page lists the first {} of {} tensors that are not equal, those that fail first. The report in \
             JSON has all.</p>",
            whole(shown.len() as u64),
            whole(other.len() as u64)
        );
    }
    let has_distances = shown.iter().any(|tensor| distance(tensor).is_some());
    let columns: &[Column] = if has_distances { &COLUMNS } else { &[] };
    let mut head = vec![("tensor", ""), ("reference", ""), ("compared", "aside"), ("verdict", "")];
    head.extend(columns.iter().map(|(heading, class, _)| (*heading, *class)));
    let rows: Vec<String> = shown.iter().map(|tensor| row(tensor, columns)).collect();
    text + &long_table("tensors", &head, &rows)
}

fn names(what: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = names.iter().take(NAMES).map(|own| name(own)).collect();
    let more = match names.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!(" and {} more", whole(more as u64)),
    };
    format!("<p>{what}: {}{more}</p>\n", shown.join(", "))
}

fn fails(tensor: &TensorDifference) -> bool {
    matches!(tensor.outcome, Outcome::Different(_) | Outcome::Incomparable)
}

fn distance(tensor: &TensorDifference) -> Option<&Distance> {
    match &tensor.outcome {
        Outcome::Close(distance) | Outcome::Different(distance) => Some(distance),
        _ => None,
    }
}

fn row(tensor: &TensorDifference, columns: &[Column]) -> String {
    let (verdict, word) = match &tensor.outcome {
        Outcome::Equal => ("pass", "equal"),
        Outcome::Close(_) => ("pass", "close"),
        Outcome::Different(_) => ("fail", "different"),
        Outcome::Incomparable if tensor.a.1 != tensor.b.1 => ("fail", "other shape"),
        Outcome::Incomparable if tensor.a.0 != tensor.b.0 => ("fail", "other dtype"),
        _ => ("fail", "other scale"),
    };
    let side = |(own, lens): &(DType, Shape), scale, affine: &Option<Affine>| {
        let dtype = quantized(*own, scale, affine.as_ref());
        format!("{dtype} {}", shape(lens))
    };
    let mut text = format!(
        "<tr class=\"{verdict}\"><td class=\"name\">{}</td><td>{}</td><td class=\"aside\">{}</td><td><span class=\"badge \
         {verdict}\">{word}</span></td>",
        name(&tensor.name),
        side(&tensor.a, tensor.scale_a, &tensor.quantization_a),
        side(&tensor.b, tensor.scale_b, &tensor.quantization_b)
    );
    for (_, class, value) in columns {
        let measured = distance(tensor).map_or_else(|| Measured::number(None), value);
        text += &cell(class, &measured);
    }
    text + "</tr>\n"
}
