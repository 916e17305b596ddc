//! `convert`: the same as `ckpt convert`.

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    ckpt::cli::main([name, "convert".into()].into_iter().chain(arguments))
}
