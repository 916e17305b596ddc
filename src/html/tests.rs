//! Rules that every page follows.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// Returns the name and the attributes of every tag of a page. Fails where a browser would read something else.
pub(crate) fn tags(page: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("a tag ends");
        let (tag, empty) = rest[..end].strip_suffix('/').map_or((&rest[..end], false), |tag| (tag, true));
        rest = &rest[end + 1..];
        let (name, attributes) = tag.split_once([' ', '\n']).unwrap_or((tag, ""));
        let mut parts = attributes.split('"');
        let mut all = BTreeMap::new();
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            let key = key.trim().strip_suffix('=').unwrap_or_else(|| panic!("{tag}"));
            assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{tag}");
            assert!(all.insert(key.to_owned(), value.to_owned()).is_none(), "{tag}");
        }
        found.push((name.to_owned(), all));
        if empty || EMPTY.contains(&name) {
            found.push((format!("/{name}"), BTreeMap::new()));
        }
        // The contents of these elements are not markup.
        for (open, close) in [("style", "</style>"), ("script", "</script>")] {
            if name == open {
                rest = &rest[rest.find(close).expect("it is closed")..];
            }
        }
    }
    found
}

/// Elements without an end tag.
const EMPTY: [&str; 2] = ["!doctype", "meta"];

/// Fails unless every element is closed in order, ids are unique, and every link leads to an id. Returns the number of
/// links.
pub(crate) fn well_formed(page: &str) -> usize {
    let (mut open, mut ids, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for (name, attributes) in tags(page) {
        ids.extend(attributes.get("id").cloned());
        links.extend(attributes.get("href").cloned());
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name)),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    ids.sort();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(links.iter().all(|link| ids.contains(&link[1..].to_owned())), "{links:?}");
    links.len()
}

/// Fails if the page loads anything, or runs anything but its own script.
pub(crate) fn stands_alone(page: &str) {
    // Comments of the scripts are no addresses: a space follows.
    let code: Vec<&str> = page.lines().filter(|line| !line.trim_start().starts_with("// ")).collect();
    let code = code.join("\n").replace("<script>// ", "<script>");
    for outside in ["http:", "https:", "//", "url(", "@import", "src=", "<link", "<iframe", "<base"] {
        assert!(!code.contains(outside), "{outside}");
    }
    let digest = Sha256::digest(SCRIPT);
    assert_eq!(SCRIPT_HASH, BASE64.encode(digest));
    let scripts: Vec<&str> = page.match_indices("<script").map(|(at, _)| &page[at..at + 8]).collect();
    assert_eq!(scripts, ["<script>"]);
    assert!(page.contains(&format!("<script>{SCRIPT}</script>")));
    let handlers = tags(page).into_iter().flat_map(|(_, attributes)| attributes.into_keys());
    assert!(handlers.into_iter().all(|key| !key.starts_with("on") && key != "style"));
}

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
