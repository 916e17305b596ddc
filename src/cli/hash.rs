//! `ckpt hash`.

use super::common::Inputs;
use super::progress::while_reading;
use super::render;
use super::report::{Report, to_json};
use ckpt_api::{Address, Result};
use ckpt_engine::Registry;
use ckpt_engine::digest::{Digest, digest};
use ckpt_engine::natural::natural;
use ckpt_engine::words::quantized;
use clap::Args;
use std::fmt::Write;
use std::path::Path;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: Inputs,
    /// Also print the hash of each tensor
    #[arg(long)]
    tensors: bool,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    arguments.inputs.report(registry, json, "", None, |path, source| {
        let digest = while_reading(&[&source], || digest(&source, 0))?;
        if json { to_json(&digest) } else { Ok(text(path, digest, arguments.tensors)) }
    })
}

fn text(path: &Path, mut digest: Digest, tensors: bool) -> String {
    let mut text = String::new();
    if tensors {
        digest.tensors.sort_by(|a, b| natural(&a.name, &b.name));
        for tensor in &digest.tensors {
            let _ = writeln!(
                text,
                "{}  {} {} {}",
                tensor.sha256,
                render::plain(&tensor.name),
                quantized(tensor.dtype, tensor.scale, tensor.quantization.as_ref()),
                tensor.shape
            );
        }
    }
    let _ = writeln!(text, "{}  {}", digest.sha256, render::plain(&Address::display(path)));
    text
}
