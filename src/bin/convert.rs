//! `convert`: the same as `ckpt convert`.
//!
//! It starts the `ckpt` that is installed beside it. A second program with the whole library in it would take as long to build, and
//! as much disk, as the first.

use std::env;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let error = match beside_this_program() {
        Ok(mut ckpt) => match run(ckpt.arg("convert").args(env::args_os().skip(1))) {
            Ok(code) => return code,
            Err(error) => format!("cannot start '{}': {error}", Path::new(ckpt.get_program()).display()),
        },
        Err(error) => format!("cannot find the folder of this program: {error}"),
    };
    eprintln!("error: {error}\n  help      'convert' needs the program 'ckpt' beside it: install both");
    ExitCode::FAILURE
}

fn beside_this_program() -> io::Result<Command> {
    let program = env::current_exe()?.with_file_name(format!("ckpt{}", env::consts::EXE_SUFFIX));
    Ok(Command::new(program))
}

/// Becomes the command: signals and the exit code are its own.
#[cfg(unix)]
fn run(command: &mut Command) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;

    Err(command.exec())
}

/// Runs the command, and returns its exit code.
#[cfg(not(unix))]
fn run(command: &mut Command) -> io::Result<ExitCode> {
    let code = command.status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
