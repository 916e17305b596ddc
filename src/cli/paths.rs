//! Paths on the command line: what none can be, and what stands there already.

use ckpt_api::{Error, Result};
use clap::Command;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::any::TypeId;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// The command, and all below it, whose arguments for paths refuse what no path is.
pub(super) fn checked(mut command: Command) -> Command {
    for below in command.get_subcommands_mut() {
        *below = checked(std::mem::take(below));
    }
    let name = command.get_name().to_owned();
    command.mut_args(|argument| {
        if argument.get_value_parser().type_id() != TypeId::of::<PathBuf>() {
            return argument;
        }
        let role = Role::of(&name, argument.get_id().as_str(), argument.is_positional());
        argument.value_parser(OsStringValueParser::new().try_map(move |text| {
            let path = PathBuf::from(text);
            NoPath::of(&path, role).map_or(Ok(path), Err)
        }))
    })
}

/// Refuses the path of an input that is empty, or stands for standard input.
pub(super) fn check_input(path: &Path) -> Result<()> {
    NoPath::of(path, Role::Input).map_or(Ok(()), |why| Err(why.error()))
}

/// Refuses the path of a new file where something is there already. `replaceable`: whether the command has
/// `--force`.
pub(super) fn check_new(path: &Path, replaceable: bool) -> Result<()> {
    if path.symlink_metadata().is_ok() { Err(existing(path, replaceable)) } else { Ok(()) }
}

/// The error about a file that is there already.
pub(super) fn existing(path: &Path, replaceable: bool) -> Error {
    let help = match replaceable {
        true => "choose another name, or replace it with --force",
        false => "choose another name, or remove it first: this command replaces no file",
    };
    Error::usage("the output exists").file(path.display().to_string()).help(help)
}

/// What a command does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Input,
    Output,
    /// A file for what is printed where no file is named.
    Printed,
}

impl Role {
    fn of(command: &str, id: &str, is_positional: bool) -> Self {
        match (command, id) {
            ("convert" | "plan" | "run", "output" | "output_option") => Role::Output,
            (_, "output") if !is_positional => Role::Printed,
            (_, "html" | "report" | "file") | ("convert" | "commit", "receipt") => Role::Output,
            _ => Role::Input,
        }
    }
}

/// Why a text is no path.
#[derive(Debug)]
pub(super) enum NoPath {
    Empty,
    /// `-`, which stands for standard input or output.
    Stream(Role),
}

impl NoPath {
    fn of(path: &Path, role: Role) -> Option<Self> {
        if path.as_os_str().is_empty() {
            return Some(NoPath::Empty);
        }
        (path.as_os_str() == OsStr::new("-")).then_some(NoPath::Stream(role))
    }

    pub(super) fn error(&self) -> Error {
        const FILE: &str = "a file of this name is ./-";
        let NoPath::Stream(role) = self else {
            return Error::usage("the path is empty").expected("the path of a file or directory");
        };
        match role {
            Role::Input => Error::usage("the input is neither a file nor a directory")
                .found("'-', which stands for standard input")
                .help(format!("pipes and devices have no random access: copy it to a file first; {FILE}")),
            Role::Output => Error::usage("the output is not a regular file")
                .found("'-', which stands for standard output")
                .help(format!("pipes and devices have no random access: write to a file; {FILE}")),
            Role::Printed => Error::usage("the output is not a regular file")
                .found("'-', which stands for standard output")
                .help(format!("leave the option out: the result goes to standard output; {FILE}")),
        }
    }
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl std::error::Error for NoPath {}
