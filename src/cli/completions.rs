//! `ckpt completions`.

use super::{Cli, Report};
use ckpt_api::{Error, Result};
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::{Shell, generate};

#[derive(Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
    /// The program that is completed
    #[arg(long, value_enum, default_value = "ckpt")]
    program: Program,
}

/// The programs that this package installs.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Program {
    /// All commands
    Ckpt,
    /// `ckpt convert` alone
    Convert,
}

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Ckpt => "ckpt",
            Program::Convert => "convert",
        }
    }

    /// What it takes.
    pub(super) fn command(self) -> clap::Command {
        let mut all = Cli::command();
        // What every command takes reaches them here.
        all.build();
        match self {
            Program::Ckpt => all,
            Program::Convert => {
                let convert = all.find_subcommand("convert").cloned().unwrap_or_default();
                convert.bin_name(self.name()).display_name(self.name())
            }
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<Report> {
    let mut script = Vec::new();
    let program = arguments.program;
    generate(arguments.shell, &mut program.command(), program.name(), &mut script);
    let text =
        String::from_utf8(script).map_err(|_| Error::unsupported("the completion script is not UTF-8"))?;
    Ok(text.into())
}
