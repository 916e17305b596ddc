//! `ckpt hash`.

use super::common::OneInput;
use super::{Report, render, to_json};
use crate::digest::digest;
use crate::registry::Registry;
use crate::words::dtype;
use ckpt_api::Result;
use clap::Args;
use std::fmt::Write;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    looking: OneInput,
    /// Also print the hash of each tensor
    #[arg(long)]
    tensors: bool,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let source = arguments.looking.open(registry)?;
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
                dtype(tensor.dtype, tensor.scale),
                tensor.shape
            );
        }
    }
    let _ =
        writeln!(text, "{}  {}", digest.sha256, render::plain(&arguments.looking.path.display().to_string()));
    Ok(text.into())
}
