//! What a command hands back, and how it is printed.

use super::{problem, render, signals};
use ckpt_api::{Error, Kind, Result};
use clap::ValueEnum;
use std::io::Write;

/// How results and errors are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Human,
    Json,
    #[value(hide = true)]
    Npy,
}

/// What a subcommand hands back: text for stdout, and the exit code.
pub(super) struct Report {
    pub(super) text: String,
    pub(super) code: u8,
}

impl From<String> for Report {
    fn from(text: String) -> Self {
        Report { text, code: 0 }
    }
}

impl Report {
    /// A comparison, and whether it found a difference.
    pub(super) fn comparing(text: String, differs: bool) -> Self {
        Report { text, code: if differs { exit_code(Kind::Mismatch) } else { 0 } }
    }
}

/// Prints what went wrong, and returns the exit code for it.
pub(super) fn fail(error: &Error, json: bool) -> u8 {
    // If stderr fails, the exit code still reports the error.
    let _ = match json {
        true => writeln!(std::io::stderr(), "{}", render::harmless(&problem::json(error), true)),
        false => writeln!(anstream::stderr(), "{}", problem::block(error)),
    };
    signals::exit_code(error).unwrap_or_else(|| exit_code(error.kind()))
}

pub(super) fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Usage => 2,
        Kind::Mapping => 3,
        Kind::Mismatch => 4,
        Kind::Corrupt => 5,
        // As sysexits.h has it: EX_SOFTWARE.
        Kind::Defect => 70,
        _ => 1,
    }
}

pub(super) fn print(text: &str, json: bool) -> Result<()> {
    let text = render::harmless(text, json);
    let mut stdout = std::io::stdout().lock();
    unless_nobody_reads(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Reports that stdout took no text. Whoever closed it has seen enough.
pub(super) fn unless_nobody_reads(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write the result", error))
        }
        _ => Ok(()),
    }
}

/// Prints the report of a command that has written `files`, for the command to return: if it cannot be printed, the
/// error says that the files exist.
pub(super) fn print_after<S: AsRef<str>>(files: &[S], text: &str, json: bool) -> Result<Report> {
    const SHOWN: usize = 3;
    match print(text, json) {
        Err(error) if !files.is_empty() => {
            let names = ckpt_api::first_few(files.iter().map(|file| format!("'{}'", file.as_ref())), SHOWN);
            let are = if files.len() == 1 { "exists and is" } else { "exist and are" };
            Err(error.help(format!("only this report is missing: {names} {are} complete")))
        }
        printed => printed.map(|()| String::new().into()),
    }
}

pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| {
        Error::unsupported("the result cannot be written as JSON").found(error.to_string())
    })?;
    text.push('\n');
    Ok(text)
}
