//! Text for people: sizes, losses, and text from files.

use ckpt_api::{Loss, LossKind};
use ckpt_engine::words::{all_bytes, is_control};
pub(super) use ckpt_engine::words::{bytes, number, plain};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A text of several lines, in columns or not, without any other control character: the last bar between a file and the
/// terminal. In JSON, where they stand in strings alone, as JSON escapes them.
pub(super) fn harmless(text: &str, json: bool) -> Cow<'_, str> {
    let steers = |c: char| !matches!(c, '\n' | '\t') && is_control(c);
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if all_bytes(text, is_plain) || !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !steers(c) => out.push(c),
            c if json => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(out, "\\u{unit:04x}");
            }),
            c => out.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

/// Losses by kind and reason, each with how many and the first few. Every pair of dtypes is a reason of its own.
pub(super) fn losses(losses: &[Loss]) -> String {
    const SHOWN: usize = 3;
    const REASONS: usize = 12;
    let mut kinds: BTreeMap<LossKind, Vec<&Loss>> = BTreeMap::new();
    for loss in losses {
        kinds.entry(loss.kind).or_default().push(loss);
    }
    let mut text = String::new();
    for (kind, losses) in kinds {
        let mut reasons: Vec<(&str, Vec<&Loss>)> = Vec::new();
        for loss in losses {
            let reason = match reasons.iter().any(|(reason, _)| *reason == loss.detail.as_str()) {
                false if reasons.len() >= REASONS => "other reasons",
                _ => &loss.detail,
            };
            match reasons.iter_mut().find(|(own, _)| *own == reason) {
                Some((_, losses)) => losses.push(loss),
                None => reasons.push((reason, vec![loss])),
            }
        }
        for (reason, losses) in reasons {
            let _ = writeln!(text, "  {} ({}): {}", kind.name(), losses.len(), plain(reason));
            let names = losses.iter().map(|loss| plain(&loss.subject));
            let _ = writeln!(text, "      {}", ckpt_api::first_few(names, SHOWN));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_file_never_reach_the_terminal() {
        assert_eq!(plain("a\x1b[31m\nb\u{202e}é"), "a\\u{1b}[31m\\u{a}b\\u{202e}é");
        for invisible in
            ['\u{7f}', '\u{9b}', '\u{200b}', '\u{200f}', '\u{2028}', '\u{2069}', '\u{feff}', '\u{e0041}']
        {
            assert_eq!(plain(&invisible.to_string()), invisible.escape_unicode().to_string());
        }
    }

    #[test]
    fn json_that_is_printed_says_the_same_without_control_characters() {
        let text = serde_json::to_string_pretty(&["a\u{9b}\x1b\u{e0041}é\u{7f}"]).unwrap();
        let shown = harmless(&text, true);
        assert!(shown.chars().all(|c| c == '\n' || !is_control(c)), "{shown:?}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&shown), read(&text));
        assert_eq!(harmless("a\n\tb\r\n", false), "a\n\tb\\u{d}\n");
    }

    #[test]
    fn losses_of_one_kind_are_told_by_their_reasons() {
        let loss = |subject: &str, reason: &str| Loss::new(LossKind::MetadataDropped, subject, reason);
        let shown = losses(&[loss("a", "no place"), loss("b", "not told"), loss("c", "no place")]);
        let expected =
            "  metadata-dropped (2): no place\n      a, c\n  metadata-dropped (1): not told\n      b\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn losses_past_the_twelfth_reason_stand_under_other_reasons() {
        let loss = |reason: usize| Loss::new(LossKind::Narrowed, format!("t{reason}"), format!("r{reason}"));
        let all: Vec<Loss> = (0..14).chain([2]).map(loss).collect();
        let expected = |reason| match reason {
            2 => "  narrowed (2): r2\n      t2, t2\n".to_owned(),
            reason => format!("  narrowed (1): r{reason}\n      t{reason}\n"),
        };
        let expected: String = (0..12).map(expected).collect();
        assert_eq!(losses(&all), expected + "  narrowed (2): other reasons\n      t12, t13\n");
    }
}
