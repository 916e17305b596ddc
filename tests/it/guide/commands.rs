//! Commands and what they print.
//!
//! A ```` ```console ```` block holds commands, each after `$ ` (and on further lines as long as they end in `\`), and
//! below each what it prints on both streams. A line `...` stands for any lines, `...` within a line for any
//! characters, and times are not compared. A command that fails shows an error or its exit code. Every page is a
//! session of its own, in a directory beside which the repository's `corpus`, `examples` and `schemas` are; a block
//! with `file=NAME` is written there.
//!
//! `trycmd` (1.2), which checks console blocks, cannot try these pages: it starts programs without a shell, and pages
//! have pipes, `>`, `;` and `$?`; it writes no file that a page shows; it works in a folder of its own only if there is a
//! folder `PAGE.out` beside the page; a command that fails needs a line `? 1`, and a part of a line that differs the mark
//! `[..]`, both of which readers would see. `snapbox`, below it, would replace only `fits` and `fits_line`.

use super::page::{Block, Page};
use super::{ROOT, pages};
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// A command of a page.
struct Step {
    command: String,
    /// The lines that show what it prints.
    shown: Range<usize>,
}

fn steps(page: &Page, block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for at in block.start..block.end {
        let line = page.lines[at].as_str();
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_owned(), shown: at + 1..at + 1 }),
            (None, Some(step)) if continued => {
                step.command = format!("{} {}", step.command.trim_end_matches(['\\', ' ']), line.trim());
                step.shown = at + 1..at + 1;
            }
            (None, Some(step)) => step.shown.end = at + 1,
            (None, None) => panic!("{}: a console block begins with '$ '", page.place(at)),
        }
        continued = line.ends_with('\\') && (continued || line.starts_with("$ "));
    }
    steps
}

/// A place to work in, with the repository's files beside it.
fn workplace() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for name in ["corpus", "examples", "schemas"] {
        std::os::unix::fs::symlink(Path::new(ROOT).join(name), place.path().join(name)).unwrap();
    }
    place
}

/// What a command prints, and whether it succeeds.
fn run(command: &str, directory: &Path) -> (Vec<String>, bool) {
    let programs = Path::new(env!("CARGO_BIN_EXE_ckpt")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("exec 2>&1; {command}"))
        .current_dir(directory)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (text.lines().map(|line| line.trim_end().to_owned()).collect(), output.status.success())
}

/// Whether lines are as shown.
fn fits(shown: &[String], found: &[String]) -> bool {
    match shown.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line.trim() == "..." => {
            (0..=found.len()).any(|skip| fits(rest, &found[skip..]))
        }
        Some((line, rest)) => {
            found.split_first().is_some_and(|(first, others)| fits_line(line, first) && fits(rest, others))
        }
    }
}

fn fits_line(shown: &str, found: &str) -> bool {
    let (shown, found) = (timeless(shown), timeless(found));
    let parts: Vec<&str> = shown.split("...").collect();
    let (Some((first, rest)), true) = (parts.split_first(), parts.len() > 1) else { return shown == found };
    let (last, middle) = rest.split_last().unwrap();
    let Some(mut text) = found.strip_prefix(first).and_then(|text| text.strip_suffix(last)) else {
        return false;
    };
    middle.iter().all(|part| {
        text.find(part).is_some_and(|at| {
            text = &text[at + part.len()..];
            true
        })
    })
}

/// The line without the time that something took.
fn timeless(line: &str) -> String {
    let Some((head, time)) = line.rsplit_once(" in ") else { return line.to_owned() };
    let seconds = time.strip_suffix(" s").is_some_and(|number| number.parse::<f64>().is_ok());
    if seconds { format!("{head} in TIME") } else { line.to_owned() }
}

/// A command without the file that its output goes to.
fn unredirected(command: &str) -> &str {
    command.split_once(" > ").map_or(command, |(command, _)| command)
}

/// Does what a page says; how many commands that were, and what was otherwise than shown.
fn follow(page: &Page, wrong: &mut Vec<(Range<usize>, Vec<String>)>) -> usize {
    let place = workplace();
    let mut ran = 0;
    for block in &page.blocks {
        if let Some(name) = &block.file {
            std::fs::write(place.path().join(name), page.text(block).join("\n") + "\n").unwrap();
        }
        if block.language != "console" {
            continue;
        }
        for step in steps(page, block) {
            let (found, succeeded) = run(&step.command, place.path());
            let explained =
                found.iter().any(|line| ["error: ", "{\"error\":"].iter().any(|sign| line.starts_with(sign)));
            assert!(
                succeeded || explained,
                "{}: it fails, and nothing says so: {}",
                page.place(block.start),
                step.command
            );
            let unknown = ["unexpected argument", "unknown option"];
            let unknown = found.iter().any(|line| unknown.iter().any(|error| line.contains(error)));
            assert!(!unknown, "{}: no such option: {}", page.place(block.start), step.command);
            if !fits(&page.lines[step.shown.clone()], &found) {
                eprintln!("{}: $ {}\n{}\n", page.place(step.shown.start - 1), step.command, found.join("\n"));
                wrong.push((step.shown, found));
            }
            ran += 1;
        }
    }
    ran
}

fn rewrite(page: &Page, wrong: &[(Range<usize>, Vec<String>)]) {
    let mut lines = page.lines.clone();
    for (shown, found) in wrong.iter().rev() {
        lines.splice(shown.clone(), found.iter().cloned());
    }
    std::fs::write(&page.path, lines.join("\n") + "\n").unwrap();
}

#[test]
fn every_command_gives_what_the_page_shows() {
    let write = std::env::var("CKPT_GUIDE").is_ok_and(|value| value == "write");
    let (mut ran, mut differing) = (0, 0);
    for path in pages() {
        let page = Page::read(&path);
        let mut wrong = Vec::new();
        ran += follow(&page, &mut wrong);
        differing += wrong.len();
        if write {
            rewrite(&page, &wrong);
        }
    }
    eprintln!("{ran} commands");
    assert!(ran >= 100, "only {ran} commands were tried");
    assert!(
        write || differing == 0,
        "{differing} of {ran} commands give other than is shown; if that is right, CKPT_GUIDE=write writes it"
    );
}

#[test]
fn commands_that_cannot_be_tried_have_only_options_that_exist() {
    let place = workplace();
    let mut seen = 0;
    for path in pages() {
        let page = Page::read(&path);
        for block in page.blocks.iter().filter(|block| block.language == "sh") {
            for command in page.text(block).iter().filter(|line| line.starts_with("ckpt ")) {
                let (found, succeeded) = run(&format!("{} --help", unredirected(command)), place.path());
                assert!(succeeded, "{}: {command}\n{}", page.place(block.start), found.join("\n"));
                seen += 1;
            }
        }
    }
    assert!(seen >= 3, "only {seen} commands were seen");
}

#[test]
fn a_file_that_commands_use_is_named_before_it_is_shown() {
    let mut seen = 0;
    for path in pages() {
        let page = Page::read(&path);
        for (block, name) in page.blocks.iter().filter_map(|block| Some((block, block.file.as_ref()?))) {
            let before = page.lines[..block.start - 1].iter().rev().take(3);
            assert!(
                before.into_iter().any(|line| line.contains(name.as_str())),
                "{}: nobody says that this is {name}",
                page.place(block.start)
            );
            seen += 1;
        }
    }
    assert!(seen >= 5, "only {seen} files were seen");
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(fits(&lines("a\n...\nd"), &lines("a\nb\nc\nd")));
    assert!(fits(&lines("a\n..."), &lines("a")));
    assert!(!fits(&lines("a\n...\nd"), &lines("a\nb")));
    assert!(!fits(&lines("a"), &lines("a\nb")));
    assert!(fits_line("x ... z", "x y z") && fits_line("... b ... d", "a b c d"));
    assert!(!fits_line("x ... z", "x y") && !fits_line("a", "ab"));
    assert!(fits_line("4 tensors in 0.01 s", "4 tensors in 1.25 s"));
    assert!(!fits_line("4 tensors in 0.01 s", "5 tensors in 0.01 s"));
}
