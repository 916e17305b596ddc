//! `ckpt verify --receipt`.

use super::common::read_text;
use super::render;
use super::report::{Report, to_json};
use ckpt_api::{Limits, Result};
use ckpt_engine::Registry;
use ckpt_engine::receipt::check;
use ckpt_engine::words::count;
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Recorded {
    /// Check that the files of a conversion still match this receipt, as written by `ckpt convert --receipt`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["a", "b", "map", "per_layer", "atol", "rtol", "report", "html"])]
    pub(super) receipt: Option<PathBuf>,
    /// Directory of the receipt's paths, outside of which no file is read; if left out, the receipt is trusted: its
    /// paths start from the working directory, or are absolute
    #[arg(long, value_name = "DIR", requires = "receipt")]
    pub(super) root: Option<PathBuf>,
}

/// Checks that the files of a receipt still match it: those below `root`, or any if there is none.
pub(super) fn run(
    registry: &Registry,
    receipt: &Path,
    root: Option<&Path>,
    limits: &Limits,
    json: bool,
) -> Result<Report> {
    let text = read_text(registry.addresses(), receipt, limits, ckpt_api::Limit::HeaderBytes)?;
    let shown = receipt.display().to_string();
    let checked = check(registry, &text, root, limits).map_err(|error| error.file(shown.as_str()))?;
    if json {
        return Ok(to_json(&checked)?.into());
    }
    let files = count(checked.files, "file");
    let mut text = format!("{files} match the receipt, {}\n", render::bytes(checked.bytes));
    for directory in &checked.outside {
        let directory = render::plain(directory);
        let _ = writeln!(text, "note: the receipt names a directory outside this one: {directory}");
    }
    Ok(text.into())
}
