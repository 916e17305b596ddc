//! The command `ckpt map suggest`.

use super::super::common::{Bounds, TwoInputs};
use super::super::{Report, render, to_json};
use super::Output;
use crate::registry::Registry;
use crate::suggest::{Suggestion, suggest};
use crate::words::count;
use ckpt_api::{Error, Result, first_few};
use clap::Args;

#[derive(Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    two: TwoInputs,
    #[command(flatten)]
    bounds: Bounds,
    /// Write the mapping even if the checkpoints leave steps or pairs open; comments list these
    #[arg(long)]
    accept_ambiguous: bool,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    arguments.output.check()?;
    let (a, b) = arguments.two.open(registry, &arguments.bounds.limits()?)?;
    let suggestion = suggest(&a, &b)?;
    check(&suggestion, arguments.accept_ambiguous, json)?;
    let text = suggestion.to_toml();
    if !json {
        return Ok(arguments.output.write(text)?.into());
    }
    let value = to_json(&serde_json::json!({ "toml": text, "suggestion": suggestion }))?;
    arguments.output.write(text)?;
    Ok(value.into())
}

/// Fails if there is nothing to map, or if it takes an answer that only the user has. Asks for people on stderr.
fn check(suggestion: &Suggestion, accept_ambiguous: bool, json: bool) -> Result<()> {
    let questions = suggestion.questions();
    if suggestion.pairs.is_empty() && questions.is_empty() {
        let sides = [&suggestion.only_in_a, &suggestion.only_in_b].map(|names| count(names.len(), "tensor"));
        return Err(Error::mapping("no tensor of the first checkpoint matches one of the second")
            .found(format!("{} in the first, {} in the second", sides[0], sides[1]))
            .expected("tensors with equal values, or with the same shape and similar names")
            .help("give two checkpoints of one model; `ckpt inspect` shows what each contains"));
    }
    if questions.is_empty() || accept_ambiguous {
        return Ok(());
    }
    let error = Error::mapping(format!("the checkpoints leave {} open", count(questions.len(), "question"))).help(
        "compare checkpoints with equal values, where each answer shows; or write the mapping with --accept-ambiguous, and \
         correct what its comments list",
    );
    if json {
        return Err(error.found(first_few(questions, ASKED)));
    }
    let more = questions.len().saturating_sub(ASKED);
    for question in questions.iter().take(ASKED) {
        eprintln!("question: {}", render::plain(question));
    }
    if more > 0 {
        eprintln!("and {}", count(more, "more question"));
    }
    Err(error)
}

/// How many questions are printed.
const ASKED: usize = 20;
