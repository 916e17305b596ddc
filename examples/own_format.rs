//! Every command of `ckpt`, with one more format: `cargo run --example own_format [ARGUMENTS]`.
//!
//! Without arguments, it shows the formats and a file, and converts that.

#[path = "../tests/it/toy/mod.rs"]
mod toy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut registry = ckpt::Registry::builtin();
    if let Err(error) = registry.add(toy::Toy) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    if std::env::args_os().len() > 1 {
        return ckpt::cli::run(&registry, std::env::args_os());
    }
    demonstrate(&registry)
}

/// Runs a few commands, up to the first that fails.
fn demonstrate(registry: &ckpt::Registry) -> ExitCode {
    let Ok(scratch) = tempfile::tempdir() else { return ExitCode::FAILURE };
    let [input, output] =
        ["m.toy", "m.safetensors"].map(|name| scratch.path().join(name).display().to_string());
    if std::fs::write(&input, toy::file(&[("weights", &[2, 3])])).is_err() {
        return ExitCode::FAILURE;
    }
    let commands = [vec!["formats"], vec!["inspect", &input], vec!["convert", &input, &output]];
    for command in commands {
        let code = ckpt::cli::run(registry, ["own_format"].iter().chain(&command).map(Into::into));
        if code != ExitCode::SUCCESS {
            return code;
        }
    }
    ExitCode::SUCCESS
}
