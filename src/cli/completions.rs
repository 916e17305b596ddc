//! `ckpt completions`.

use super::{Cli, Report};
use ckpt_api::{Error, Result};
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

#[derive(Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Result<Report> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut Cli::command(), "ckpt", &mut script);
    let text =
        String::from_utf8(script).map_err(|_| Error::unsupported("the completion script is not UTF-8"))?;
    Ok(text.into())
}
