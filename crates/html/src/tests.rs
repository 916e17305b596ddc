//! Rules that every page follows.

use super::rules::{stands_alone, well_formed};
use super::*;
use std::collections::BTreeMap;

#[test]
fn thousands_are_separated() {
    let shown = [0, 999, 1000, 65_536, 1_234_567, u64::MAX].map(whole);
    assert_eq!(shown, ["0", "999", "1,000", "65,536", "1,234,567", "18,446,744,073,709,551,615"]);
}

#[test]
fn numbers_have_three_digits_at_most() {
    let shown = [0.0, 1.0, 43.0, 12.345, 123.45, 9999.0, 59_712.4, 2e7, 0.001, -2.5, f64::INFINITY, f64::NAN]
        .map(number);
    assert_eq!(
        shown,
        ["0", "1", "43", "12.3", "123", "9999", "59,712", "2e7", "0.001", "-2.5", "infinite", "NaN"]
    );
}

#[test]
fn a_name_without_visible_characters_stands_in_quotation_marks() {
    assert_eq!(
        ["", "  ", "a"].map(code),
        ["<code>&#39;&#39;</code>", "<code>&#39;  &#39;</code>", "<code>a</code>"]
    );
}

/// Contrast as WCAG 2 defines it.
fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |color: &str| {
        let part = |at: usize| f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
        let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        0.2126 * linear(part(1)) + 0.7152 * linear(part(3)) + 0.0722 * linear(part(5))
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn text_has_the_contrast_that_wcag_requires_in_both_themes() {
    let (light, dark) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
    let mut seen = 0;
    for theme in [light, dark] {
        let colors: BTreeMap<&str, &str> = theme
            .lines()
            .filter_map(|line| line.trim().strip_prefix("--")?.strip_suffix(';')?.split_once(": "))
            .collect();
        let on_page = ["text", "muted", "accent", "pass", "fail"]
            .into_iter()
            .flat_map(|text| [(text, "back"), (text, "panel")]);
        let on_own =
            [("pass", "pass-back"), ("fail", "fail-back"), ("plain", "plain-back"), ("text", "fail-back")];
        for (text, back) in on_page.chain(on_own) {
            let found = contrast(colors[text], colors[back]);
            assert!(found >= 4.5, "{text} on {back}: {found:.2}");
            seen += 1;
        }
    }
    assert_eq!(seen, 28);
}

#[test]
fn a_long_table_shows_its_first_rows_and_keeps_the_others() {
    let rows: Vec<String> = (0..501).map(|k| format!("<tr><td>row {k}</td></tr>")).collect();
    let page = document("t", "", &long_table("t", &[("name", "")], &rows));
    well_formed(&page);
    stands_alone(&page);
    let (first, later) = page.split_once("<template>").unwrap();
    assert_eq!((first.matches("<tr><td>").count(), later.matches("<tr><td>").count()), (200, 301));
    assert!(page.contains("The first 200 of 501 rows"));
    assert!(!long_table("t", &[("name", "")], &rows[..200]).contains("template"));
}
