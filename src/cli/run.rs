//! `ckpt run`.

mod outputs;

use super::common::{Reading, pairs};
use super::forward::Forward;
use super::{Report, render, to_json};
use crate::registry::Registry;
use crate::verify::{ForwardPass, InputFile, devices, largest, read_array, run as forward};
use ckpt_api::{Error, Result};
use ckpt_forward::{Arithmetic, Array, Value};
use clap::{Args, ValueEnum};
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Arguments {
    /// Checkpoint to run
    path: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Option for reading; `ckpt formats` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    forward: Forward,
    /// Where it runs: cpu, cuda, metal, vulkan
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// How numbers are held and summed
    #[arg(long, value_enum, default_value = "f32")]
    arithmetic: Held,
    /// Compute a quantized network in integers, as engines do, and multiply its result by this (400 with bullet's)
    #[arg(long, value_name = "SCALE", conflicts_with = "arithmetic")]
    integers: Option<i32>,
    /// Write the outputs, in the format that the file's extension says
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show the index of the largest element of each row
    #[arg(long)]
    argmax: bool,
    /// Count the rows whose largest element is the one that this file names: IDX, or any format of arrays
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Held {
    /// All in binary32, sums in order
    F32,
    /// All in binary64
    F64,
    /// Held in binary32, computed in binary64
    F32InF64,
}

/// Rows that are shown to people.
const SHOWN: usize = 20;

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<Report> {
    let registry = Registry::builtin();
    let source = arguments.reading.open(&registry, &arguments.path, pairs(&arguments.set)?)?;
    let arithmetic = match arguments.arithmetic {
        Held::F32 => Arithmetic::F32,
        Held::F64 => Arithmetic::F64,
        Held::F32InF64 => Arithmetic::F32InF64,
    };
    let mut device = devices::open(&arguments.device, arithmetic)?;
    let (inputs, memory) =
        (arguments.forward.inputs(&arguments.reading.limits()?)?, arguments.forward.memory()?);
    let ran = forward(&registry, &source, &inputs, arguments.integers, &mut *device, memory)?;
    let labels = match &arguments.labels {
        Some(path) => Some(labeled(&registry, path, &ran, memory)?),
        None => None,
    };
    if let Some(path) = &arguments.output {
        outputs::write(&ran, &registry, path)?;
    }
    let quiet = arguments.output.is_some() || labels.is_some();
    Ok(if json {
        as_json(&ran, labels, arguments.argmax, quiet)?
    } else {
        text(&ran, labels, arguments.argmax, quiet)
    }
    .into())
}

/// Rows whose largest element is the one that the label says, and rows.
fn labeled(registry: &Registry, path: &Path, ran: &ForwardPass, memory: u64) -> Result<(usize, usize)> {
    let file = InputFile { path: path.to_owned(), ..InputFile::default() };
    let labels = read_array(registry, &file, memory)?;
    let located = |error: Error| error.file(path.display().to_string());
    let Array::I32(labels) = labels.array else {
        return Err(located(Error::usage("labels are integers")));
    };
    let (_, value) = ran.outputs.first().ok_or_else(|| Error::usage("the graph gives nothing"))?;
    let found = largest(value);
    if found.len() != labels.len() {
        return Err(located(
            Error::usage("there is not one label for each row")
                .found(labels.len().to_string())
                .expected(found.len().to_string()),
        ));
    }
    let right =
        found.iter().zip(&labels).filter(|(row, label)| usize::try_from(**label) == Ok(**row)).count();
    Ok((right, labels.len()))
}

#[expect(clippy::cast_precision_loss, reason = "numbers of rows are below 2^53")]
fn share((right, rows): (usize, usize)) -> f64 {
    if rows == 0 { 0.0 } else { right as f64 / rows as f64 }
}

fn as_json(ran: &ForwardPass, labels: Option<(usize, usize)>, argmax: bool, quiet: bool) -> Result<String> {
    let outputs: Vec<serde_json::Value> = ran
        .outputs
        .iter()
        .map(|(name, value)| {
            let mut output = serde_json::json!({ "name": name, "shape": value.shape });
            if argmax {
                output["argmax"] = largest(value).into();
            }
            if !argmax && !quiet {
                // What is no number is null.
                output["values"] = value.array.to_f64().into();
            }
            output
        })
        .collect();
    let labels = labels.map(
        |(right, rows)| serde_json::json!({ "right": right, "rows": rows, "accuracy": share((right, rows)) }),
    );
    to_json(&serde_json::json!({
        "device": ran.device, "inputs": ran.inputs, "outputs": outputs, "labels": labels,
    }))
}

fn text(ran: &ForwardPass, labels: Option<(usize, usize)>, argmax: bool, quiet: bool) -> String {
    let mut text = format!("on {}\n", render::plain(&ran.device.to_string()));
    for input in &ran.inputs {
        let name = render::plain(&input.name);
        let _ = writeln!(text, "input {name} {:?}: {}", input.shape, render::plain(&input.origin));
    }
    for (name, value) in &ran.outputs {
        let _ = writeln!(text, "output {} {:?}", render::plain(name), value.shape);
        if argmax {
            largest(value).iter().for_each(|row| {
                let _ = writeln!(text, "  {row}");
            });
        } else if !quiet {
            rows(value, &mut text);
        }
    }
    if let Some((right, rows)) = labels {
        let _ = writeln!(text, "{right} of {rows} right ({:.4})", share((right, rows)));
    }
    text
}

fn rows(value: &Value, text: &mut String) {
    let len = value.shape.last().copied().unwrap_or(1).max(1);
    let numbers: Vec<String> = match &value.array {
        Array::F32(values) => values.iter().map(|value| format!("{value:?}")).collect(),
        Array::F64(values) => values.iter().map(|value| format!("{value:?}")).collect(),
        Array::I32(values) => values.iter().map(i32::to_string).collect(),
    };
    for row in numbers.chunks(len).take(SHOWN) {
        let _ = writeln!(text, "  {}", row.join(" "));
    }
    let more = (numbers.len() / len).saturating_sub(SHOWN);
    if more > 0 {
        let _ =
            writeln!(text, "  … and {more} more rows (--format json shows all, --output FILE writes them)");
    }
}
