//! `ckpt hash`.

use super::common::{Reading, pairs};
use super::{Report, render, to_json};
use crate::digest::digest;
use crate::registry::Registry;
use ckpt_api::Result;
use clap::Args;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct Arguments {
    /// Checkpoint to hash
    path: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Option for reading; `ckpt formats` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the hash of every tensor, too
    #[arg(long)]
    tensors: bool,
}

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<Report> {
    let source = arguments.reading.open(&Registry::builtin(), &arguments.path, pairs(&arguments.set)?)?;
    let digest = digest(&source, 0)?;
    if json {
        return Ok(to_json(&digest)?.into());
    }
    let mut text = String::new();
    if arguments.tensors {
        for tensor in &digest.tensors {
            let _ = writeln!(
                text,
                "{}  {} {} {}",
                tensor.sha256,
                render::plain(&tensor.name),
                tensor.dtype,
                tensor.shape
            );
        }
    }
    let _ = writeln!(text, "{}  {}", digest.sha256, render::plain(&arguments.path.display().to_string()));
    Ok(text.into())
}
