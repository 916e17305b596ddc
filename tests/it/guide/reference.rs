//! The pages that list what the program has list all of it, and nothing else.

use super::page::Page;
use super::{ROOT, pages};
use ckpt_api::{Limit, LossKind};
use std::fs;
use std::path::{Path, PathBuf};

fn guide(name: &str) -> Page {
    Page::read(&Path::new(ROOT).join("docs/src").join(name))
}

/// The cells of every row of a page's tables, heads and rules left out.
fn rows(page: &Page) -> Vec<Vec<String>> {
    let row = |line: &str| -> Option<Vec<String>> {
        let cells = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        Some(cells.split(" | ").map(|cell| cell.trim().to_owned()).collect())
    };
    let rows: Vec<Vec<String>> = page.prose().filter_map(|(_, line)| row(line)).collect();
    let is_rule = |row: &[String]| row[0].starts_with("---");
    let kept = |at: &usize| !is_rule(&rows[*at]) && rows.get(at + 1).is_none_or(|next| !is_rule(next));
    (0..rows.len()).filter(kept).map(|at| rows[at].clone()).collect()
}

/// The text in backquotes at the beginning of a cell.
fn quoted(cell: &str) -> Option<&str> {
    Some(cell.strip_prefix('`')?.split_once('`')?.0)
}

#[test]
fn the_table_of_limits_has_every_limit_and_its_default() {
    let page = guide("limits.md");
    let rows = rows(&page);
    assert!(Limit::ALL.len() >= 9);
    let explained = rows.iter().filter(|row| row.len() == 3 && quoted(&row[0]).is_some());
    assert_eq!(explained.count(), Limit::ALL.len(), "limits.md explains another number of limits");
    for (name, default) in Limit::ALL.iter().map(|limit| (limit.name(), limit.default_value())) {
        let row = rows.iter().find(|row| quoted(&row[0]) == Some(name));
        let row = row.unwrap_or_else(|| panic!("limits.md does not explain {name}"));
        assert_eq!(row[1].replace(',', ""), default.to_string(), "{name}");
    }
}

#[test]
fn the_table_of_losses_has_every_kind_and_whether_it_stops() {
    let page = guide("losses.md");
    let rows = rows(&page);
    assert!(LossKind::ALL.len() > 10);
    for kind in LossKind::ALL {
        let row = rows.iter().find(|row| quoted(&row[0]) == Some(kind.name()));
        let row = row.unwrap_or_else(|| panic!("losses.md does not explain {}", kind.name()));
        assert_eq!(row[1] == "yes", kind.changes_function(), "{}", kind.name());
    }
}

/// All the program's own text.
fn sources() -> String {
    let mut text = String::new();
    let mut left: Vec<PathBuf> =
        ["src", "codecs", "crates", "forward"].map(|name| Path::new(ROOT).join(name)).into();
    while let Some(path) = left.pop() {
        if path.is_dir() && !path.ends_with("tests") {
            left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    text
}

#[test]
fn every_error_that_is_explained_is_one_that_the_program_has() {
    let (page, sources) = (guide("errors.md"), sources());
    let mut seen = 0;
    for message in rows(&page).iter().filter_map(|row| quoted(&row[0])).filter(|text| text.contains(' ')) {
        // What differs from case to case is written as an ellipsis.
        for part in message.split('…').map(str::trim).filter(|part| !part.is_empty()) {
            assert!(sources.contains(part), "errors.md explains {message:?}, and no error says {part:?}");
        }
        seen += 1;
    }
    assert!(seen >= 60, "only {seen} errors are explained");
}

#[test]
fn every_format_has_a_page_that_shows_its_options() {
    let registry = ckpt::Registry::builtin();
    let mut seen = 0;
    for codec in registry.codecs() {
        let id = codec.info().id;
        let page = guide(&format!("{id}.md"));
        let command = format!("$ ckpt formats {id}");
        assert!(page.lines.contains(&command), "{id}.md does not show '{command}'");
        seen += 1;
    }
    assert_eq!(seen, 22);
}

#[test]
fn pages_with_rust_are_documentation_tests() {
    let library = fs::read_to_string(Path::new(ROOT).join("src/lib.rs")).unwrap();
    let mut seen = 0;
    for path in pages().iter().filter(|path| path.starts_with(Path::new(ROOT).join("docs"))) {
        if Page::read(path).blocks.iter().any(|block| block.language == "rust") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(library.contains(&format!("docs/src/{name}")), "nothing compiles {name}");
            seen += 1;
        }
    }
    assert_eq!(seen, 2);
}

#[test]
fn every_block_says_its_language() {
    const LANGUAGES: [&str; 10] =
        ["console", "json", "mermaid", "python", "rust", "rust,no_run", "sh", "text", "toml", "yaml"];
    for path in pages() {
        let page = Page::read(&path);
        for block in &page.blocks {
            let known = LANGUAGES.contains(&block.language.as_str());
            assert!(known, "{}: '{}'", page.place(block.start), block.language);
        }
    }
}
