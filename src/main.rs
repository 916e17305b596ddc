//! `ckpt`: converts neural-network checkpoints between formats.

fn main() -> std::process::ExitCode {
    ckpt::cli::main(std::env::args_os())
}
