//! A page of Markdown as far as the tests need it: its fenced blocks, and the lines between them.

use std::path::{Path, PathBuf};

/// A page.
pub struct Page {
    pub path: PathBuf,
    pub lines: Vec<String>,
    pub blocks: Vec<Block>,
}

/// A fenced block.
pub struct Block {
    /// First word after the fence.
    pub language: String,
    /// What `file=` after it says.
    pub file: Option<String>,
    /// Its first line, counted from 0; the fence is the one before.
    pub start: usize,
    /// The line of the fence that ends it.
    pub end: usize,
}

impl Page {
    pub fn read(path: &Path) -> Page {
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let fences: Vec<usize> =
            (0..lines.len()).filter(|at| lines[*at].trim_start().starts_with("```")).collect();
        assert!(fences.len().is_multiple_of(2), "{}: a fence is not closed", path.display());
        let blocks = fences.chunks(2).map(|pair| {
            let mut words = lines[pair[0]].trim_start_matches(['`', ' ']).split_whitespace();
            let language = words.next().unwrap_or_default().to_owned();
            let file = words.find_map(|word| word.strip_prefix("file=")).map(str::to_owned);
            Block { language, file, start: pair[0] + 1, end: pair[1] }
        });
        Page { path: path.to_owned(), blocks: blocks.collect(), lines }
    }

    /// The lines of a block.
    pub fn text(&self, block: &Block) -> &[String] {
        &self.lines[block.start..block.end]
    }

    /// Number and text of every line outside blocks.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let inside = |at: usize| self.blocks.iter().any(|block| block.start <= at + 1 && at <= block.end);
        (0..self.lines.len()).filter(move |at| !inside(*at)).map(|at| (at, self.lines[at].as_str()))
    }

    /// A place on the page, for messages.
    pub fn place(&self, line: usize) -> String {
        format!("{}:{}", self.path.display(), line + 1)
    }
}
