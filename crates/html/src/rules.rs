//! The rules that every page follows, for tests: its markup is well formed, and it loads and runs nothing from outside.

use super::{SCRIPT, SCRIPT_HASH};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// Returns the name and the attributes of every tag of a page.
///
/// # Panics
/// If a browser would read something else.
pub fn tags(page: &str) -> Vec<(String, BTreeMap<String, String>)> {
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
pub fn well_formed(page: &str) -> usize {
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
pub fn stands_alone(page: &str) {
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
