//! `ckpt show`.

mod element;
mod json;
mod npy;
mod text;

use super::common::OneInput;
use super::width::Width;
use super::{Format, Report};
use crate::registry::Registry;
use crate::source::TensorRef;
use ckpt_api::{Error, Result};
use clap::Args;
use std::io::{BufWriter, StdoutLock, Write};
use std::ops::Range;

#[derive(Args)]
#[command(
    after_help = "With --format json, it prints every value. With --format npy, it writes a NumPy array to stdout.\n\n\
                  Example: `ckpt show model.safetensors layer0.weight --rows 0..4`"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    looking: OneInput,
    /// Name of the tensor; `ckpt inspect` lists them
    tensor: String,
    /// Read only these rows, counted from 0, the last excluded; A.. and ..B and a single number work, too
    #[arg(long, value_name = "A..B")]
    rows: Option<String>,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, format: Format) -> Result<Report> {
    let source = arguments.looking.open(registry)?;
    let tensor = source.tensor(&arguments.tensor)?;
    tensor.refuse_opaque()?;
    let rows = match &arguments.rows {
        None => None,
        Some(text) => Some(parse_rows(text, tensor.shape().first().copied())?),
    };
    let shown = match &rows {
        None => tensor.clone(),
        Some(rows) => tensor.rows(rows.clone())?,
    };
    match format {
        Format::Human => text::text(&source, &shown, rows.as_ref(), Width::of_terminal()).map(Report::from),
        Format::Json => json::write(&tensor, &shown, rows.as_ref(), &mut Output::stdout()).map(nothing_more),
        Format::Npy => npy::write(registry, &shown, &mut Output::stdout()).map(nothing_more),
    }
}

/// What is left to print where all was.
fn nothing_more((): ()) -> Report {
    String::new().into()
}

/// Reads a range of rows; `count` is the number of rows that there are.
fn parse_rows(text: &str, count: Option<u64>) -> Result<Range<u64>> {
    let wrong = || {
        Error::usage("not a range of rows")
            .field("--rows")
            .found(format!("'{text}'"))
            .expected("a range such as 0..10, or a number")
    };
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let Some((start, end)) = text.split_once("..") else {
        let row = number(text)?;
        return Ok(row..row.checked_add(1).ok_or_else(wrong)?);
    };
    let or = |text: &str, default: u64| if text.trim().is_empty() { Ok(default) } else { number(text) };
    let start = or(start, 0)?;
    // A scalar has no rows; to be told so, any end will do.
    Ok(start..or(end, count.unwrap_or(start))?)
}

/// Bytes for stdout. After whoever reads has seen enough, they are left out.
struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    is_closed: bool,
}

impl Output {
    fn stdout() -> Self {
        Output { stdout: BufWriter::new(std::io::stdout().lock()), is_closed: false }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = if self.is_closed { Ok(()) } else { self.stdout.write_all(bytes) };
        self.judge(written)
    }

    fn finish(&mut self) -> Result<()> {
        let flushed = if self.is_closed { Ok(()) } else { self.stdout.flush() };
        self.judge(flushed)
    }

    fn judge(&mut self, written: std::io::Result<()>) -> Result<()> {
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => self.is_closed = true,
            Err(error) => return Err(Error::io("cannot write the result", error)),
            Ok(()) => {}
        }
        Ok(())
    }
}

/// The elements in one entry of each axis from `axis` on.
fn stride(tensor: &TensorRef<'_>, axis: usize) -> u64 {
    tensor.shape().iter().skip(axis).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_a_range_a_part_of_one_or_a_number() {
        let rows = |text| parse_rows(text, Some(8)).unwrap();
        assert_eq!(
            [rows("2..4"), rows("2.."), rows("..4"), rows(".."), rows("3")],
            [2..4, 2..8, 0..4, 0..8, 3..4]
        );
        for text in ["", "a..b", "1-2", "-1..2", "1...3", "18446744073709551615"] {
            let error = parse_rows(text, Some(8)).unwrap_err().to_string();
            assert!(error.contains("not a range of rows"), "{text}: {error}");
        }
    }
}
