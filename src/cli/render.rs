//! Text for people: tables, sizes, errors.

pub(super) use crate::words::plain;
use ckpt_api::{Error, Loss, LossKind};
use std::collections::BTreeMap;
use std::fmt::Write;

/// An error as a block: what, then where, why and what to do, a line each.
pub(super) fn error(error: &Error) -> String {
    let mut text = format!("error: {} [{}]", plain(error.message()), error.kind());
    for (label, value) in error.context() {
        let _ = write!(text, "\n  {label:<9} {}", plain(&value));
    }
    text
}

/// An error as one JSON object.
pub(super) fn error_json(error: &Error) -> String {
    let mut fields: serde_json::Map<String, serde_json::Value> =
        error.context().into_iter().map(|(label, value)| (label.to_owned(), value.into())).collect();
    fields.insert("kind".to_owned(), serde_json::json!(error.kind()));
    fields.insert("message".to_owned(), error.message().into());
    serde_json::json!({ "error": fields }).to_string()
}

/// Bytes in units of 1000, three significant digits.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let (mut value, mut unit) = (count as f64 / 1000.0, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A table with aligned columns; those named in `right` are aligned to the right.
pub(super) fn table(head: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &[String]| {
        let mut line = String::new();
        for (k, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let space = " ".repeat(width - cell.chars().count());
            let cell = if right.contains(&k) { format!("{space}{cell}") } else { format!("{cell}{space}") };
            let _ = write!(line, "  {cell}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line(&head.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
    rows.iter().for_each(|row| line(row));
    text
}

/// Losses by kind, each with how many and the first few.
pub(super) fn losses(losses: &[Loss]) -> String {
    const SHOWN: usize = 3;
    let mut kinds: BTreeMap<LossKind, Vec<&Loss>> = BTreeMap::new();
    for loss in losses {
        kinds.entry(loss.kind).or_default().push(loss);
    }
    let mut text = String::new();
    for (kind, losses) in kinds {
        let mut reasons: Vec<(&str, Vec<&Loss>)> = Vec::new();
        for loss in losses {
            let same = reasons.iter().position(|(reason, _)| *reason == loss.detail);
            // Where each has a reason of its own, the last of the first ones stands for all others.
            match same.or((reasons.len() == SHOWN).then_some(SHOWN - 1)) {
                Some(at) => reasons[at].1.push(loss),
                None => reasons.push((&loss.detail, vec![loss])),
            }
        }
        for (reason, losses) in reasons {
            let _ = writeln!(text, "  {} ({}): {}", kind.name(), losses.len(), plain(reason));
            let names: Vec<String> = losses.iter().take(SHOWN).map(|loss| plain(&loss.subject)).collect();
            let more = losses.len().saturating_sub(SHOWN);
            let tail = if more > 0 { format!(", and {more} more") } else { String::new() };
            let _ = writeln!(text, "      {}{tail}", names.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let shown: Vec<String> = [0, 999, 1000, 99_960, 999_499, 999_500, 2 << 30].map(bytes).into();
        assert_eq!(shown, ["0 B", "999 B", "1.00 kB", "100 kB", "999 kB", "1.00 MB", "2.15 GB"]);
    }

    #[test]
    fn control_characters_of_a_file_never_reach_the_terminal() {
        assert_eq!(plain("a\x1b[31m\nb\u{202e}é"), "a\\u{1b}[31m\\u{a}b\\u{202e}é");
    }

    #[test]
    fn an_error_is_a_block_with_a_line_for_each_fact() {
        let shown = error(&Error::corrupt("cut short").file("a.nn").offset(3).help("copy it again"));
        assert_eq!(
            shown,
            "error: cut short [corrupt input]\n  file      a.nn\n  offset    3\n  help      copy it again"
        );
    }

    #[test]
    fn losses_of_one_kind_are_told_by_their_reasons() {
        let loss = |subject: &str, reason: &str| Loss::new(LossKind::MetadataDropped, subject, reason);
        let shown = losses(&[loss("a", "no place"), loss("b", "not told"), loss("c", "no place")]);
        let expected =
            "  metadata-dropped (2): no place\n      a, c\n  metadata-dropped (1): not told\n      b\n";
        assert_eq!(shown, expected);
    }
}
