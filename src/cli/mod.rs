//! The command line: one file per subcommand.

mod common;
mod completions;
mod convert;
mod diff;
mod formats;
#[cfg(feature = "forward")]
mod forward;
mod hash;
mod inspect;
mod map;
#[cfg(feature = "forward")]
mod receipt;
mod render;
#[cfg(feature = "forward")]
mod run;
#[cfg(feature = "forward")]
mod verify;

use ckpt_api::{Error, Kind, Result};
use clap::{Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Converts neural-network checkpoints between formats, in bounded memory, losing nothing silently.
#[derive(Parser)]
#[command(name = "ckpt", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 ok, 1 failure, 2 usage, 3 name mapping, 4 checkpoints differ, 5 corrupt input"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How results and errors are printed
    #[arg(long, global = true, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Human,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Convert a checkpoint to another format
    Convert(convert::Arguments),
    /// Show what a conversion would do, without doing it
    Plan(convert::PlanArguments),
    /// Show what is in a checkpoint
    Inspect(inspect::Arguments),
    /// Compare two checkpoints tensor by tensor
    Diff(diff::Arguments),
    /// Compare what two checkpoints compute
    #[cfg(feature = "forward")]
    Verify(verify::Arguments),
    /// Run a checkpoint's graph
    #[cfg(feature = "forward")]
    Run(run::Arguments),
    /// Hash what a checkpoint holds, whatever its format
    Hash(hash::Arguments),
    /// List the formats and their options
    Formats(formats::Arguments),
    /// Work with name mappings
    #[command(subcommand)]
    Map(map::Command),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
}

/// What a subcommand hands back: text for stdout, and whether checkpoints differed.
struct Report {
    text: String,
    differs: bool,
}

impl From<String> for Report {
    fn from(text: String) -> Self {
        Report { text, differs: false }
    }
}

/// Runs the command line `arguments`, of which the first is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error, wants_json(&arguments)),
    };
    let json = cli.format == Format::Json;
    match run(cli.command, json).and_then(|report| print(&report.text).map(|()| report.differs)) {
        Ok(differs) => ExitCode::from(if differs { 4 } else { 0 }),
        Err(error) => {
            let text = if json { render::error_json(&error) } else { render::error(&error) };
            let _ = writeln!(std::io::stderr(), "{text}");
            ExitCode::from(exit_code(error.kind()))
        }
    }
}

/// Help and version are no failures.
fn refuse_arguments(error: &clap::Error, json: bool) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if json {
        let text = error.render().to_string();
        let error = Error::usage(text.trim().trim_start_matches("error: "));
        let _ = writeln!(std::io::stderr(), "{}", render::error_json(&error));
    } else {
        let _ = error.print();
    }
    ExitCode::from(exit_code(Kind::Usage))
}

/// Whether `--format json` is among arguments that could not be parsed.
fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "--format=json")
        || arguments.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json")
}

fn run(command: Command, json: bool) -> Result<Report> {
    match command {
        Command::Convert(arguments) => convert::run(&arguments, json),
        Command::Plan(arguments) => convert::plan(&arguments, json),
        Command::Inspect(arguments) => inspect::run(&arguments, json),
        Command::Diff(arguments) => diff::run(&arguments, json),
        #[cfg(feature = "forward")]
        Command::Verify(arguments) => verify::run(&arguments, json),
        #[cfg(feature = "forward")]
        Command::Run(arguments) => run::run(&arguments, json),
        Command::Hash(arguments) => hash::run(&arguments, json),
        Command::Formats(arguments) => formats::run(&arguments, json),
        Command::Map(command) => map::run(&command, json),
        Command::Completions(arguments) => completions::run(&arguments),
    }
}

fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Usage => 2,
        Kind::Mapping => 3,
        Kind::Mismatch => 4,
        Kind::Corrupt => 5,
        _ => 1,
    }
}

fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write the result", error))
        }
        _ => Ok(()),
    }
}

fn to_json(value: &impl serde::Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| {
        Error::unsupported("the result cannot be written as JSON").found(error.to_string())
    })?;
    text.push('\n');
    Ok(text)
}
