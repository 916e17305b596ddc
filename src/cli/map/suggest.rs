//! The command `ckpt map suggest`.

use super::super::common::{Bounds, TwoInputs};
use super::super::render;
use super::super::report::{Report, print_after, to_json};
use super::super::stderr::tell;
use super::arguments::Output;
use ckpt_api::{Error, Result, first_few};
use ckpt_engine::Registry;
use ckpt_engine::words::{count, quote, verb};
use ckpt_suggest::{Suggestion, suggest};
use clap::Args;

#[derive(Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    two: TwoInputs,
    #[command(flatten)]
    bounds: Bounds,
    /// Write the mapping even if the checkpoints leave steps or pairs open, or most weights without a partner; comments
    /// list these
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
    let files = arguments.output.written();
    if json {
        let value = to_json(&serde_json::json!({ "toml": text, "suggestion": suggestion }))?;
        arguments.output.write(text)?;
        return print_after(&files, &value, json);
    }
    let shown = arguments.output.write(text)?;
    warn(&suggestion);
    match files.first() {
        Some(file) => print_after(&files, &summary(&suggestion, file), json),
        None => Ok(shown.into()),
    }
}

/// Reports what was written.
fn summary(suggestion: &Suggestion, file: &str) -> String {
    let mut text = format!("wrote {}\n", render::plain(file));
    for line in suggestion.summary() {
        text += &format!("{line}\n");
    }
    let questions = suggestion.questions().len();
    if questions > 0 {
        text +=
            &format!("{} open: comments in the mapping list what to check\n", count(questions, "question"));
    }
    text
}

/// Names on stderr what has no partner.
fn warn(suggestion: &Suggestion) {
    let (a, b) = (&suggestion.only_in_a, &suggestion.only_in_b);
    for (names, side, lack) in [(a, "first", "partner"), (b, "second", "source")] {
        if !names.is_empty() {
            let have = verb(names.len(), "has", "have");
            let tensors = count(names.len(), "tensor");
            let shown = first_few(names.iter().map(|name| quote(name)), NAMED);
            tell(&format!("warning: {tensors} of the {side} checkpoint {have} no {lack}: {shown}\n"));
        }
    }
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
    if accept_ambiguous {
        return Ok(());
    }
    if questions.is_empty() {
        return check_coverage(suggestion, json);
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

/// Fails if more weights have no partner than have one.
fn check_coverage(suggestion: &Suggestion, json: bool) -> Result<()> {
    if !suggestion.is_mostly_unpaired() {
        return Ok(());
    }
    if !json {
        warn(suggestion);
    }
    let shares = [suggestion.weights_of_a, suggestion.weights_of_b]
        .map(|weights| format!("{} of {}", weights.paired, weights.paired + weights.left));
    Err(Error::mapping("most weights have no partner in the other checkpoint")
        .found(format!("a partner for {} weights of the first and {} of the second", shares[0], shares[1]))
        .expected("two checkpoints of one model, or one of a part of the other")
        .help("give two checkpoints of one model; or write the mapping with --accept-ambiguous, and complete it"))
}

/// How many tensors a warning names.
const NAMED: usize = 8;

/// How many questions are printed.
const ASKED: usize = 20;
