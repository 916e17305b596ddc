//! The program in little address space: what it maps is limited by `ulimit -v`, so that it cannot hold more.
//!
//! The limit counts what a process maps whether it uses it or not: code, stacks, buffers. It is therefore given as the
//! least in which the program does anything at all, and what it may map beyond that.

use std::process::{Command, Output};
use std::sync::OnceLock;

pub const MIB: u64 = 1 << 20;

/// Runs `ckpt` with `beyond` bytes of address space beyond the least.
pub fn ckpt(beyond: u64, arguments: &[&str]) -> Output {
    limited(base() + beyond.div_ceil(1024), arguments)
}

/// The least address space, in KiB, in which the program lists its formats; to 64 KiB.
pub fn base() -> u64 {
    static BASE: OnceLock<u64> = OnceLock::new();
    *BASE.get_or_init(|| {
        let (mut fails, mut works) = (0, 16 << 10);
        while (works - fails) > 1 {
            let middle = (fails + works) / 2;
            match limited(64 * middle, &["formats"]).status.success() {
                true => works = middle,
                false => fails = middle,
            }
        }
        assert!(works < 16 << 10, "not even 1 GiB of address space suffices to list the formats");
        64 * works
    })
}

fn limited(kib: u64, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_ckpt");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &kib.to_string(), program]).args(arguments);
    command.output().unwrap()
}

/// What the program says on its error output.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
