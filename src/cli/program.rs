//! The program's name in its own texts.

use super::report::Format;
use super::{examples, paths};
use clap::builder::{PossibleValuesParser, StyledStr, TypedValueParser};
use clap::{ArgMatches, Command, ValueEnum};
use std::ffi::OsString;
use std::path::Path;

/// A program with every command, by the name under which it runs.
pub(super) struct Program {
    pub(super) name: String,
    /// Every command, as the parser has it.
    commands: Command,
}

impl Program {
    /// The program that this package installs.
    const OWN: &'static str = "ckpt";

    /// Takes the name from the first argument: the last component of a path.
    pub(super) fn of(arguments: &[OsString], commands: Command) -> Self {
        let file = arguments.first().and_then(|first| Path::new(first).file_name()?.to_str());
        let name = file.map(|file| file.strip_suffix(".exe").unwrap_or(file));
        Program { name: name.unwrap_or(Self::OWN).to_owned(), commands }
    }

    /// Whether it is the program that this package installs.
    pub(super) fn is_own(&self) -> bool {
        self.name == Self::OWN
    }

    pub(super) fn parse(&self, arguments: &[OsString]) -> Result<ArgMatches, clap::Error> {
        self.command().try_get_matches_from(arguments)
    }

    /// Every command, under the program's name.
    pub(super) fn command(&self) -> Command {
        let command = self.commands.clone().bin_name(&self.name).display_name(&self.name);
        let command = examples::add(paths::checked(with_arrays(command)), &self.name);
        if self.is_own() {
            return command;
        }
        let command = self.named(command);
        // `convert` comes with `ckpt` alone.
        command.mut_subcommand("completions", |command| {
            command.mut_arg("program", |argument| argument.hide(true))
        })
    }

    /// The same command with this program's name in its texts.
    fn named(&self, mut command: Command) -> Command {
        let text = |text: &StyledStr| text.to_string().replace("`ckpt ", &format!("`{} ", self.name));
        for below in command.get_subcommands_mut() {
            *below = self.named(std::mem::take(below));
        }
        if let Some(about) = command.get_about().map(text) {
            command = command.about(about);
        }
        if let Some(after) = command.get_after_help().map(text) {
            command = command.after_help(after);
        }
        command.mut_args(|argument| match argument.get_help().map(text) {
            Some(help) => argument.help(help),
            None => argument,
        })
    }
}

/// The command whose `show` lists the format for NumPy arrays, which no other command prints.
fn with_arrays(command: Command) -> Command {
    let Some(format) = command.get_arguments().find(|argument| argument.get_id() == "format").cloned() else {
        return command;
    };
    let values = Format::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let values = PossibleValuesParser::new(values.map(|value| value.hide(false)));
    let format = format
        .global(false)
        .help("How results and errors are printed; npy: a NumPy array, to a file or a pipe")
        .value_parser(values.try_map(|name| Format::from_str(&name, false)));
    command.mut_subcommand("show", |show| show.arg(format))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn program(first: &str) -> Program {
        Program::of(&[first.into()], Cli::command())
    }

    #[test]
    fn the_name_is_the_last_component_of_the_first_argument() {
        assert_eq!(program("/usr/bin/vaults").name, "vaults");
        assert_eq!(program("vaults.exe").name, "vaults");
        assert!(program("./ckpt").is_own() && Program::of(&[], Cli::command()).is_own());
    }

    /// The help of a command and of all below it.
    fn help(command: &mut Command) -> String {
        let mut text = command.render_long_help().to_string();
        command.get_subcommands_mut().for_each(|below| text += &help(below));
        text
    }

    #[test]
    fn help_names_the_program_that_runs() {
        let mut command = program("vaults").command();
        command.build();
        let text = help(&mut command);
        assert!(text.contains("`vaults formats` lists them") && text.contains("vaults convert"), "{text}");
        assert!(!text.contains("ckpt"), "{text}");
    }
}
