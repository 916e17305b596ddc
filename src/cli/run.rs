//! `ckpt run`.

mod outputs;

use super::common::{Reading, pairs};
use super::forward::Forward;
use super::graph_names::GraphNames;
use super::progress::while_computing;
use super::render;
use super::report::{Report, print_after, to_json};
use ckpt_api::{Error, Result};
use ckpt_engine::Registry;
use ckpt_engine::words::count;
use ckpt_forward::{Arithmetic, Array, Backend, Value};
use ckpt_verify::{ForwardPass, InputFile, devices, largest, read_array, run as forward};
use clap::{Args, ValueEnum};
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Arguments {
    /// Checkpoint to run
    path: PathBuf,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    names: GraphNames,
    /// Option for reading; `ckpt formats` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    forward: Forward,
    /// Device to run on: cpu, cuda, metal, vulkan
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// Types in which numbers are stored and computed
    #[arg(long, value_enum, default_value = "f32")]
    arithmetic: Numbers,
    /// Run a quantized network in integers, as chess engines do; an output of 1.0 becomes SCALE (400 for bullet)
    #[arg(long, value_name = "SCALE", conflicts_with = "arithmetic")]
    integers: Option<i32>,
    /// Write the outputs to a new file, in the format of its extension: .npz, .npy, .safetensors
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file of --output
    #[arg(long, requires = "output")]
    force: bool,
    /// Print the index of the largest element of each row
    #[arg(long)]
    argmax: bool,
    /// Count the rows whose largest element is at the index that this file states: IDX, or any format of arrays
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Numbers {
    /// Stored and computed in f32, sums in order
    F32,
    /// Stored and computed in f64
    F64,
    /// Stored in f32, computed in f64
    F32InF64,
    /// As f32, but faster: products are rounded together with the sums that they are added to
    Fast,
}

impl Numbers {
    fn open(self, device: &str) -> Result<Box<dyn Backend>> {
        match self {
            Numbers::F32 => devices::open(device, Arithmetic::F32),
            Numbers::F64 => devices::open(device, Arithmetic::F64),
            Numbers::F32InF64 => devices::open(device, Arithmetic::F32InF64),
            Numbers::Fast => devices::open_fast(device),
        }
    }
}

/// Rows that are printed.
const MAX_ROWS: usize = 20;

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    if let Some(path) = &arguments.output {
        outputs::check(registry, path, arguments.force)?;
    }
    let limits = arguments.reading.limits()?;
    let (inputs, memory) =
        (arguments.forward.inputs(registry.addresses(), &limits)?, arguments.forward.memory()?);
    let (set, names) = (pairs(&arguments.set)?, inputs.names(registry)?);
    let mapping = arguments.names.mapping(registry, &limits)?;
    let source = arguments.reading.open_to_run(registry, &arguments.path, (set, false), names, mapping)?;
    if let Some(path) = &arguments.output {
        outputs::check_source(&source, path)?;
    }
    let mut device = arguments.arithmetic.open(&arguments.device)?;
    let pass = while_computing("running", &[&source], || {
        forward(registry, &source, &inputs, arguments.integers, &mut *device, memory)
    })?;
    let labels = match &arguments.labels {
        Some(path) => Some(labeled(registry, path, &pass, memory)?),
        None => None,
    };
    if let Some(path) = &arguments.output {
        outputs::write(&pass.outputs, registry, path, arguments.force)?;
    }
    let written: Vec<String> = arguments.output.iter().map(|path| path.display().to_string()).collect();
    let quiet = !written.is_empty() || labels.is_some();
    let report = if json {
        as_json(&pass, labels, arguments.argmax, quiet)?
    } else {
        text(&pass, labels, arguments.argmax, quiet)
    };
    print_after(&written, &report, json)
}

/// Counts the rows whose largest element is at the label's index, and all rows.
fn labeled(registry: &Registry, path: &Path, pass: &ForwardPass, memory: u64) -> Result<(usize, usize)> {
    let file = InputFile { path: path.to_owned(), ..InputFile::default() };
    let labels = read_array(registry, &file, memory)?;
    let located = |error: Error| error.file(ckpt_api::Address::display(path));
    let Array::I32(labels) = labels.array else {
        return Err(located(Error::usage("labels must be integers")));
    };
    let (_, value) = pass.outputs.first().ok_or_else(|| Error::usage("the graph has no outputs"))?;
    let found = largest(value);
    if found.len() != labels.len() {
        return Err(located(
            Error::usage("the number of labels differs from the number of rows")
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

fn as_json(pass: &ForwardPass, labels: Option<(usize, usize)>, argmax: bool, quiet: bool) -> Result<String> {
    let outputs: Vec<serde_json::Value> = pass
        .outputs
        .iter()
        .map(|(name, value)| {
            let mut output = serde_json::json!({ "name": name, "shape": value.shape });
            if argmax {
                output["argmax"] = largest(value).into();
            }
            if !argmax && !quiet {
                // NaN and infinity become null.
                output["values"] = value.array.to_f64().into();
            }
            output
        })
        .collect();
    let labels = labels.map(
        |(right, rows)| serde_json::json!({ "right": right, "rows": rows, "accuracy": share((right, rows)) }),
    );
    to_json(&serde_json::json!({
        "device": pass.device, "inputs": pass.inputs, "notes": pass.notes, "outputs": outputs, "labels": labels,
    }))
}

fn text(pass: &ForwardPass, labels: Option<(usize, usize)>, argmax: bool, quiet: bool) -> String {
    let mut text = format!("run on {}\n", render::plain(&pass.device.to_string()));
    for input in &pass.inputs {
        let name = render::plain(&input.name);
        let _ = writeln!(text, "input '{name}' {:?}: {}", input.shape, render::plain(&input.origin));
    }
    for (name, value) in &pass.outputs {
        let _ = writeln!(text, "output '{}' {:?}", render::plain(name), value.shape);
        if argmax {
            largest(value).iter().for_each(|row| {
                let _ = writeln!(text, "  {row}");
            });
        } else if !quiet {
            rows(value, &mut text);
        }
    }
    for note in &pass.notes {
        let _ = writeln!(text, "note: {}", render::plain(note));
    }
    if let Some((right, rows)) = labels {
        let _ = writeln!(text, "{right} of {rows} correct ({:.4})", share((right, rows)));
    }
    text
}

fn rows(value: &Value, text: &mut String) {
    let len = value.shape.last().copied().unwrap_or(1).max(1);
    // What is not shown is not made: there can be many million numbers.
    let shown = len.saturating_mul(MAX_ROWS);
    let (all, numbers): (usize, Vec<String>) = match &value.array {
        Array::F32(values) => {
            (values.len(), values.iter().take(shown).map(|value| format!("{value:?}")).collect())
        }
        Array::F64(values) => {
            (values.len(), values.iter().take(shown).map(|value| format!("{value:?}")).collect())
        }
        Array::I32(values) => (values.len(), values.iter().take(shown).map(i32::to_string).collect()),
    };
    for row in numbers.chunks(len) {
        let _ = writeln!(text, "  {}", row.join(" "));
    }
    let more = (all / len).saturating_sub(MAX_ROWS);
    if more > 0 {
        let _ = writeln!(
            text,
            "  … and {} (--format json shows all, --output FILE writes them)",
            count(more, "more row")
        );
    }
}
