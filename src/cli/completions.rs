//! `ckpt completions`.

use super::{Program, Report};
use ckpt_api::{Error, Result};
use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};

#[derive(Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
    /// The program that is completed
    #[arg(long, value_enum, default_value = "ckpt")]
    program: Commands,
}

/// What a program has.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Commands {
    /// All commands
    #[value(name = "ckpt")]
    All,
    /// `ckpt convert` alone
    Convert,
}

impl Commands {
    /// The name of the program that has these commands of `program`.
    pub(super) fn name(self, program: &Program) -> &str {
        match self {
            Commands::All => &program.name,
            Commands::Convert => "convert",
        }
    }

    /// What that program takes.
    pub(super) fn command(self, program: &Program) -> clap::Command {
        let mut all = program.command();
        // What every command takes reaches them here.
        all.build();
        match self {
            Commands::All => all,
            Commands::Convert => {
                let convert = all.find_subcommand("convert").cloned().unwrap_or_default();
                convert.bin_name(self.name(program)).display_name(self.name(program))
            }
        }
    }
}

pub(super) fn run(program: &Program, arguments: &Arguments) -> Result<Report> {
    let mut script = Vec::new();
    let commands = arguments.program;
    generate(arguments.shell, &mut commands.command(program), commands.name(program), &mut script);
    let text =
        String::from_utf8(script).map_err(|_| Error::unsupported("the completion script is not UTF-8"))?;
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_complete_the_program_that_makes_them() {
        let program = Program::of(&["vaults".into()]);
        for (shell, text) in
            [(Shell::Bash, "_vaults()"), (Shell::Zsh, "#compdef vaults"), (Shell::Fish, "complete -c vaults")]
        {
            let script = run(&program, &Arguments { shell, program: Commands::All }).unwrap().text;
            assert!(script.contains(text) && !script.contains("-c ckpt"), "{shell}: {script}");
        }
    }
}
