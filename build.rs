//! Records the commit that a release build is made from, for `ckpt --version`.
//!
//! A checkout has it in git, and a package from a registry in `.cargo_vcs_info.json`. Without either, no commit is recorded
//! and nothing fails. Neither is it in other builds, which would be compiled anew after each commit.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Digits of the commit that are shown.
const SHOWN: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    if env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let commit = packaged(&root).or_else(|| checked_out(&root));
    if let Some(commit) = commit.as_deref().and_then(shown) {
        println!("cargo::rustc-env=CKPT_COMMIT={commit}");
    }
}

/// The commit that `cargo package` wrote beside the manifest.
fn packaged(root: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(root).join(".cargo_vcs_info.json")).ok()?;
    let value = text.split_once("\"sha1\"")?.1.split_once('"')?.1;
    Some(value.split_once('"')?.0.to_owned())
}

/// The commit of the repository whose top is the manifest's directory: not of one that merely contains it.
fn checked_out(root: &str) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    let log = Path::new(root).join(log);
    if log.is_file() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "HEAD"])
}

/// The first digits of a commit, of what is one.
fn shown(commit: &str) -> Option<&str> {
    commit.get(..SHOWN).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
