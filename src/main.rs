//! `ckpt`: converts neural-network checkpoints between formats.

fn main() -> std::process::ExitCode {
    ckpt::cli::run(&ckpt::Registry::builtin(), std::env::args_os())
}
