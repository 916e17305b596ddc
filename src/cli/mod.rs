//! The command line, for the `ckpt` program and for programs with more codecs.
//!
//! A codec's author gets every command with a program like this one (`examples/own_format.rs` is a whole one):
//!
//! ```no_run
//! # mod mine { pub use ckpt_npz::Npz as Codec; }
//! fn main() -> std::process::ExitCode {
//!     let mut registry = ckpt::Registry::builtin();
//!     if let Err(error) = registry.add(mine::Codec) {
//!         eprintln!("{error}");
//!         return std::process::ExitCode::FAILURE;
//!     }
//!     ckpt::cli::run(&registry, std::env::args_os())
//! }
//! ```

#[cfg(feature = "remote")]
mod clean;
mod common;
mod completions;
mod convert;
mod cut;
mod diff;
mod examples;
mod flags;
mod formats;
#[cfg(feature = "forward")]
mod forward;
mod graph_names;
mod hash;
mod hex;
mod inspect;
mod items;
mod man;
mod map;
mod merge;
mod order;
mod paths;
mod plan;
#[cfg(feature = "plugins")]
mod plugin;
mod problem;
mod program;
mod progress;
#[cfg(feature = "forward")]
mod receipt;
mod refused;
mod render;
mod report;
#[cfg(feature = "forward")]
mod run;
mod show;
mod signals;
mod stderr;
mod table;
mod verbose;
#[cfg(feature = "forward")]
mod verify;
mod version;
mod width;

use ckpt_api::{Error, Kind, Result, text};
use ckpt_engine::Registry;
use ckpt_engine::resources::first_stack;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use program::Program;
use report::{Format, Report, exit_code, fail, print, unless_nobody_reads};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::Instant;
use stderr::tell;

/// Converts neural-network checkpoints between formats, in bounded memory, losing nothing silently.
#[derive(Parser)]
#[command(name = "ckpt", version, long_version = version::long(), propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 ok, 1 failure, 2 usage, 3 name mapping, 4 checkpoints differ, 5 corrupt input, 70 \
                  internal error, 128 + N stopped by signal N"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How results and errors are printed
    #[arg(long, global = true, value_enum, default_value = "human", help_heading = GLOBAL)]
    format: Format,
    /// When errors and help have colors; auto: on terminals, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN", help_heading = GLOBAL)]
    color: Color,
    /// Say on stderr what is opened, planned and done, and how long each phase takes
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    verbose: bool,
    /// Option for stores that are opened by address, such as endpoint=http://127.0.0.1:9000; the guide's page "Checkpoints
    /// at URLs" lists them
    #[cfg(feature = "remote")]
    #[arg(long, global = true, value_name = "KEY=VALUE", help_heading = GLOBAL)]
    store_set: Vec<String>,
    /// Plugin to use, beside those that `ckpt plugin add` added; several by several --plugin
    #[cfg(feature = "plugins")]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    plugin: Vec<std::path::PathBuf>,
}

/// What the help of each command calls the options that all have.
const GLOBAL: &str = "Options of all commands";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand)]
enum Command {
    /// Convert a checkpoint to another format
    Convert(convert::Arguments),
    /// Show what a conversion would do, without doing it
    Plan(plan::Arguments),
    /// Run items of a plan, beside other processes
    RunPlan(items::RunArguments),
    /// Finish an output whose items were run
    Commit(items::CommitArguments),
    /// Merge adapters into a model, or models with each other
    Merge(merge::Arguments),
    /// Show what is in a checkpoint
    Inspect(inspect::Arguments),
    /// Print the values of a tensor
    Show(show::Arguments),
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
    /// Remove what killed processes left in object storage
    #[cfg(feature = "remote")]
    Clean(clean::Arguments),
    /// List the formats and their options
    Formats(formats::Arguments),
    /// Add and check plugins: formats that are not part of the program
    #[cfg(feature = "plugins")]
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Work with name mappings
    #[command(subcommand)]
    Map(map::Command),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
    /// Print or write the manual
    Man(man::Arguments),
}

/// Runs a command line with the formats of `registry`, and prints the results. The first of the arguments is the
/// program's name, as in [`std::env::args_os`]: help, manual and completion scripts use its last component. Returns the
/// program's exit code: `ckpt --help` lists them.
///
/// ```
/// # use std::process::ExitCode;
/// let registry = ckpt::Registry::builtin();
/// let code = ckpt::cli::run(&registry, ["ckpt", "inspect", "examples/data/digits"].map(Into::into));
/// assert_eq!(code, ExitCode::SUCCESS);
/// ```
pub fn run(registry: &Registry, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(status(registry, arguments))
}

/// As [`run`], for a process that does not end by returning from `main`: returns the exit code as a number.
///
/// ```
/// let registry = ckpt::Registry::builtin();
/// assert_eq!(ckpt::cli::status(&registry, ["ckpt", "inspect", "no-such-file"].map(Into::into)), 1);
/// ```
pub fn status(registry: &Registry, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = || run_here(registry, &arguments);
    if first_stack().is_none_or(|bytes| bytes >= LEAST_STACK) {
        return command();
    }
    // Not always: a thread's own heap takes address space, which may be limited.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("main".to_owned()).stack_size(STACK);
        match thread.spawn_scoped(scope, command) {
            Ok(running) => running.join().unwrap_or_else(|_| exit_code(Kind::Defect)),
            Err(_) => command(),
        }
    })
}

/// Bytes of the first thread's stack (`ulimit -s`) below which commands get another one.
const LEAST_STACK: u64 = 1 << 20;
/// Bytes of that other stack.
const STACK: usize = 8 << 20;

fn run_here(registry: &Registry, arguments: &[OsString]) -> u8 {
    choose_colors(arguments);
    let program = Program::of(arguments, Cli::command());
    let parsed = program.parse(arguments).and_then(|given| Ok((Cli::from_arg_matches(&given)?, given)));
    let (cli, given) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refuse_arguments(&error, wants_json(arguments)),
    };
    #[cfg(not(feature = "plugins"))]
    drop(given);
    let json = cli.format == Format::Json;
    let started = Instant::now();
    verbose::turn(cli.verbose);
    let printed = unless_it_panics(|| {
        #[cfg(feature = "remote")]
        use_store_options(&cli.store_set)?;
        #[cfg(feature = "plugins")]
        let extended =
            plugin::extended(registry, &cli.plugin, uses_plugins(&cli.command), || limits(&given))?;
        #[cfg(feature = "plugins")]
        let registry = extended.as_ref().unwrap_or(registry);
        let report = run_command(registry, &program, cli.command, cli.format)?;
        print(&report.text, json).map(|()| report.code)
    });
    let code = printed.unwrap_or_else(|error| fail(&with_limit(error).in_words(&flags::Flags::One), json));
    verbose::ended(started);
    code
}

/// Whether a command uses the plugins of the user. The others must work while a plugin does not.
#[cfg(feature = "plugins")]
fn uses_plugins(command: &Command) -> bool {
    !matches!(command, Command::Plugin(_) | Command::Completions(_) | Command::Man(_))
}

/// The limits of the command, if it takes any: a plugin writes and decodes within them, too.
#[cfg(feature = "plugins")]
fn limits(given: &clap::ArgMatches) -> Result<ckpt_api::Limits> {
    let mut command = given;
    while let Some((_, inner)) = command.subcommand() {
        command = inner;
    }
    let named = command.try_get_many::<String>("limit").ok().flatten().into_iter().flatten();
    common::limits(&named.cloned().collect::<Vec<_>>())
}

/// Takes the options of `--store-set` for all stores that the command opens.
#[cfg(feature = "remote")]
fn use_store_options(given: &[String]) -> Result<()> {
    let none = ckpt_remote::RemoteOptions::new();
    let options =
        common::pairs(given)?.iter().try_fold(none, |options, (key, value)| options.set(key, value));
    options
        .map_err(|error| {
            error.help("--store-set takes the options that the guide's page \"Checkpoints at URLs\" lists")
        })?
        .use_everywhere();
    Ok(())
}

/// Makes an error of a panic, whose message is on stderr by then.
fn unless_it_panics<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    // What the command has changed ends with it.
    std::panic::catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        Err(Error::defect("the program panicked: this is a defect of the program, please report it"))
    })
}

/// `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM=dumb` and what is no terminal are heeded without this. What is given
/// on the command line counts before them, also if the rest of it is wrong.
fn choose_colors(arguments: &[OsString]) {
    match given(arguments, "--color").and_then(|value| value.to_str()) {
        Some("always") => return anstream::ColorChoice::Always.write_global(),
        Some("never") => return anstream::ColorChoice::Never.write_global(),
        // The choice of an earlier command line of this process ends here.
        _ => anstream::ColorChoice::Auto.write_global(),
    }
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    if is_set("FORCE_COLOR") && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
        anstream::ColorChoice::Always.write_global();
    }
}

/// The error for too many open files states how many the process may have.
fn with_limit(error: Error) -> Error {
    match ckpt_engine::resources::open_files() {
        Some(limit) if error.is_out_of_handles() => {
            error.with_help(|help| text![help, format!("; it is {limit} now")])
        }
        _ => error,
    }
}

/// Help and version are no failures, unless they cannot be printed.
fn refuse_arguments(error: &clap::Error, json: bool) -> u8 {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as NothingAsked;
    if !error.use_stderr() {
        let printed = unless_nobody_reads(error.print().and_then(|()| std::io::stdout().flush()));
        return printed.map_or_else(|error| fail(&error, json), |()| 0);
    }
    if error.kind() == NothingAsked && !json {
        let _ = error.print();
        return exit_code(Kind::Usage);
    }
    fail(&refused::explained(error), json)
}

/// Whether `--format json` is among arguments that could not be parsed.
fn wants_json(arguments: &[OsString]) -> bool {
    given(arguments, "--format").is_some_and(|value| value == "json")
}

/// The value of an option among arguments that were not parsed, or could not be.
fn given<'a>(arguments: &'a [OsString], option: &str) -> Option<&'a OsStr> {
    let mut options = arguments.iter().take_while(|argument| *argument != "--");
    options
        .find_map(|argument| match argument.to_str()?.strip_prefix(option)? {
            "" => Some(None),
            rest => rest.strip_prefix('=').map(|value| Some(OsStr::new(value))),
        })?
        .or_else(|| options.next().map(OsString::as_os_str))
}

fn run_command(registry: &Registry, program: &Program, command: Command, format: Format) -> Result<Report> {
    if format == Format::Npy && !matches!(command, Command::Show(_)) {
        return Err(Error::usage("only the command show prints NumPy arrays")
            .field("--format")
            .found("npy")
            .expected("human or json"));
    }
    let json = format == Format::Json;
    match command {
        Command::Show(arguments) => show::run(registry, &arguments, format),
        Command::Convert(arguments) => convert::run(registry, &arguments, json),
        Command::Plan(arguments) => plan::run(registry, &arguments, json),
        Command::RunPlan(arguments) => items::run(registry, &arguments, json),
        Command::Commit(arguments) => items::commit(registry, &arguments, json),
        Command::Merge(arguments) => merge::run(registry, &arguments, json),
        Command::Inspect(arguments) => inspect::run(registry, &arguments, json),
        Command::Diff(arguments) => diff::run(registry, &arguments, json),
        #[cfg(feature = "forward")]
        Command::Verify(arguments) => verify::run(registry, &arguments, json),
        #[cfg(feature = "forward")]
        Command::Run(arguments) => run::run(registry, &arguments, json),
        Command::Hash(arguments) => hash::run(registry, &arguments, json),
        #[cfg(feature = "remote")]
        Command::Clean(arguments) => clean::run(&arguments, json),
        Command::Formats(arguments) => formats::run(registry, &arguments, json),
        #[cfg(feature = "plugins")]
        Command::Plugin(command) => plugin::run(registry, &command, json),
        Command::Map(command) => map::run(registry, &command, json),
        Command::Completions(arguments) => completions::run(registry, program, &arguments),
        Command::Man(arguments) => man::run(program, &arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_exits_as_a_defect_of_the_program_does() {
        let error = unless_it_panics::<()>(|| panic!("a test's panic")).unwrap_err();
        assert_eq!((error.kind(), exit_code(error.kind())), (Kind::Defect, 70));
        let told = problem::block(&error);
        assert!(told.contains("defect") && told.contains("report it"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert_eq!(unless_it_panics(|| Ok(3)).unwrap(), 3);
    }
}
