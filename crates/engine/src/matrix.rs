//! Which format converts to which, as the codecs declare it.

use crate::formats::Formats;
use serde::Serialize;
use std::fmt;

/// A table of formats: a row for each that is read, a column for each that is written.
///
/// ```
/// let matrix = ckpt::Registry::builtin().matrix();
/// # #[cfg(all(feature = "nn", feature = "cnn2", feature = "npz"))]
/// assert!(matrix.converts("nn", "npz") && !matrix.converts("nn", "cnn2"));
/// println!("{matrix}"); // in Markdown
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Matrix {
    /// Ids of the formats that are written.
    pub targets: Vec<&'static str>,
    /// What each format that is read converts to.
    pub rows: Vec<Row>,
}

/// One format that is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// Its id.
    pub from: &'static str,
    /// Ids of the formats that it converts to.
    pub to: Vec<&'static str>,
}

impl Matrix {
    pub(crate) fn of(formats: &Formats) -> Self {
        let infos = || formats.codecs().map(|codec| codec.info());
        let row = |from: &ckpt_api::FormatInfo| Row {
            from: from.id,
            to: infos().filter(|to| from.converts_to(to)).map(|to| to.id).collect(),
        };
        Matrix {
            targets: infos().filter(|info| !info.writes.is_empty()).map(|info| info.id).collect(),
            rows: infos().filter(|info| !info.reads.is_empty()).map(row).collect(),
        }
    }

    /// Whether a checkpoint of format `from` can become one of format `to`.
    pub fn converts(&self, from: &str, to: &str) -> bool {
        self.rows.iter().any(|row| row.from == from && row.to.contains(&to))
    }
}

impl fmt::Display for Matrix {
    /// A table in Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles: Vec<String> = self.targets.iter().map(|target| format!(" `{target}` |")).collect();
        writeln!(f, "| from \\ to |{}", titles.concat())?;
        writeln!(f, "|---|{}", "---|".repeat(self.targets.len()))?;
        for Row { from, to } in &self.rows {
            let cell = |target: &&'static str| if to.contains(target) { " yes |" } else { " |" };
            writeln!(f, "| `{from}` |{}", self.targets.iter().map(cell).collect::<String>())?;
        }
        Ok(())
    }
}
