//! `ckpt show`.

mod element;
mod json;
mod npy;
mod output;
mod text;

use super::common::{OneInput, write_new_with};
use super::render::{harmless, plain};
use super::report::{Format, Report, print_after};
use super::width::Width;
use ckpt_api::{Error, Result};
use ckpt_engine::Registry;
use clap::Args;
use output::Output;
use std::ops::Range;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    looking: OneInput,
    /// Name of the tensor; `ckpt inspect` lists them
    tensor: String,
    /// Read only these rows, counted from 0, the last excluded; A.. and ..B and a single number work, too
    #[arg(long, value_name = "A..B")]
    rows: Option<String>,
    /// File to write; must not exist. A name that ends in .npy or .json chooses this format. Default: stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Arguments {
    /// The format that was asked for, if only by the name of the file.
    fn format(&self, named: Format) -> Format {
        let extension = self.output.as_ref().and_then(|path| path.extension()?.to_str());
        match (named, extension) {
            (Format::Human, Some("npy")) => Format::Npy,
            (Format::Human, Some("json")) => Format::Json,
            _ => named,
        }
    }
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
    let chosen = arguments.format(format);
    let write = |output: &mut Output<'_>| match chosen {
        Format::Human => {
            let text = text::text(&source, &shown, rows.as_ref(), Width::of_terminal())?;
            output.write(harmless(&text, false).as_bytes())?;
            output.finish()
        }
        Format::Json => json::write(&tensor, &shown, rows.as_ref(), output),
        Format::Npy => npy::write(registry, &shown, output),
    };
    let Some(path) = &arguments.output else {
        return write(&mut Output::stdout()).map(|()| String::new().into());
    };
    write_new_with(path, |file, canceled| write(&mut Output::file(file, canceled)))?;
    let written = path.display().to_string();
    match format {
        Format::Json => Ok(String::new().into()),
        _ => print_after(&[&written], &format!("wrote {}\n", plain(&written)), false),
    }
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
    // A scalar has no rows, which is an error later, whatever the end.
    Ok(start..or(end, count.unwrap_or(start))?)
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
