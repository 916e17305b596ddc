//! `convert`: the same as `ckpt convert`.

fn main() -> std::process::ExitCode {
    let arguments = std::env::args_os().skip(1);
    let arguments = ["ckpt".into(), "convert".into()].into_iter().chain(arguments);
    ckpt::cli::run(&ckpt::Registry::builtin(), arguments)
}
