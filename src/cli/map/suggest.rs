//! The command `ckpt map suggest`.

use super::super::common::{Bounds, TwoInputs};
use super::super::{Report, to_json};
use super::Output;
use crate::registry::Registry;
use crate::suggest::suggest;
use ckpt_api::Result;
use clap::Args;

#[derive(Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    two: TwoInputs,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let (a, b) = arguments.two.open(registry, &arguments.bounds.limits()?)?;
    let suggestion = suggest(&a, &b)?;
    let text = suggestion.to_toml();
    if !json {
        return Ok(arguments.output.write(text)?.into());
    }
    let value = to_json(&serde_json::json!({ "toml": text, "suggestion": suggestion }))?;
    arguments.output.write(text)?;
    Ok(value.into())
}
