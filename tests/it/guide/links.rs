//! Links within the repository, and the guide's table of contents.

use super::page::Page;
use super::{ROOT, pages};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The target of every link on a page, with its line.
fn links(page: &Page) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (at, line) in page.prose() {
        let mut rest = line;
        while let Some((_, tail)) = rest.split_once("](") {
            let Some((target, tail)) = tail.split_once(')') else { break };
            links.push((at, target.to_owned()));
            rest = tail;
        }
    }
    links
}

/// The fragments that a page's headings have.
fn fragments(page: &Page) -> BTreeSet<String> {
    let headings = page.prose().filter_map(|(_, line)| line.trim_start_matches('#').strip_prefix(' '));
    let kept = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    let fragment = |heading: &str| heading.to_lowercase().chars().filter(|c| kept(*c)).collect::<String>();
    headings.map(|heading| fragment(heading).replace(' ', "-")).collect()
}

/// Whether a page has this fragment, or gets its headings when the guide is built: then `docs/links.py` looks for it.
fn has(page: &Page, fragment: &str) -> bool {
    page.lines.iter().any(|line| line.starts_with("<!-- docs/python_api.py "))
        || fragments(page).contains(fragment)
}

#[test]
fn every_link_within_the_repository_leads_somewhere() {
    let mut files = pages();
    let others = ["SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "RELEASING.md"];
    files.extend(others.map(|name| Path::new(ROOT).join(name)));
    let (mut seen, mut broken) = (0, Vec::new());
    for path in files {
        let page = Page::read(&path);
        for (at, link) in links(&page) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (file, fragment) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let found = target.exists() && (fragment.is_empty() || has(&Page::read(&target), fragment));
            if !found {
                broken.push(format!("{}: {link}", page.place(at)));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(seen > 100, "only {seen} links were seen");
}

/// `mdbook` turns every `.md` into `.html`, which there is of its own pages alone.
#[test]
fn links_out_of_the_guide_name_no_markdown_file() {
    let mut seen = 0;
    for page in
        pages().iter().filter(|path| path.ends_with(Path::new("docs/src").join(path.file_name().unwrap())))
    {
        let page = Page::read(page);
        for (at, link) in links(&page).into_iter().filter(|(_, link)| link.starts_with("../")) {
            seen += 1;
            assert!(!link.split('#').next().unwrap().ends_with(".md"), "{}: {link}", page.place(at));
        }
    }
    assert!(seen > 10, "only {seen} links were seen");
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let summary = Page::read(&Path::new(ROOT).join("docs/src/SUMMARY.md"));
    let listed: Vec<PathBuf> =
        links(&summary).iter().map(|(_, link)| Path::new(ROOT).join("docs/src").join(link)).collect();
    let unique: BTreeSet<&PathBuf> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page is listed twice");
    let own = [Path::new(ROOT).join("README.md"), summary.path.clone()];
    for page in pages().iter().filter(|page| !own.contains(page)) {
        assert!(unique.contains(page), "{} is not listed", page.display());
    }
}
