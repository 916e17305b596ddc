//! Compiles what includes `kernels.cu` as host C++.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file in `tests/host`, compiled to `name` in a folder for tests. `None`, and a message, if there is no C++
/// compiler and `CKPT_REQUIRE_CXX` is not set.
pub fn compile(source: &str, name: &str, options: &[&str]) -> Option<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("host");
    std::fs::create_dir_all(&folder).unwrap();
    // Under a name of its own first, because other tests may run what is there.
    let (built, target) = (folder.join(format!("{name}.{}", std::process::id())), folder.join(name));
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    let status = Command::new(&compiler)
        .args(["-std=c++14", "-O1", "-g", "-ffp-contract=off"])
        .args(["-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror"])
        .args(options)
        .arg("-I")
        .arg(package.join("kernels"))
        .arg("-o")
        .arg(&built)
        .arg(package.join("tests/host").join(source))
        .status();
    match status {
        Ok(status) => {
            assert!(status.success(), "{compiler} did not compile kernels.cu");
            std::fs::rename(&built, &target).unwrap();
            Some(target)
        }
        Err(error) => {
            assert!(
                std::env::var_os("CKPT_REQUIRE_CXX").is_none(),
                "CKPT_REQUIRE_CXX is set, and {compiler} is not here: {error}"
            );
            println!("skipped: no {compiler} here ({error}), so the kernels do not run as host C++");
            None
        }
    }
}
