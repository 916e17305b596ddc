//! `convert`: the same as `ckpt convert`.

fn main() -> std::process::ExitCode {
    let arguments = std::env::args_os().skip(1);
    ckpt::cli::main(["ckpt".into(), "convert".into()].into_iter().chain(arguments))
}
