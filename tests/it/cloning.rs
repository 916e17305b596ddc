//! An output shares blocks with its source on a file system that can: XFS, on an image that the test mounts.

use crate::common::workplace::Workplace;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Bytes of each of eight matrices.
const MATRIX: usize = 2 << 20;

/// XFS, mounted; `None`, said aloud, if that is not possible.
struct Xfs(Workplace);

impl Xfs {
    fn new() -> Option<Self> {
        let place = Workplace::new();
        fs::create_dir(place.path("mounted")).unwrap();
        let image = fs::File::create(place.path("image")).unwrap();
        // The smallest that mkfs.xfs makes; nothing but what is written takes room.
        image.set_len(320 << 20).unwrap();
        let done = |command: &str, arguments: &[&str]| {
            let paths = [place.path("image"), place.path("mounted")];
            let paths = if command == "mount" { &paths[..] } else { &paths[..1] };
            let output = Command::new(command).args(arguments).args(paths).output();
            output.is_ok_and(|output| output.status.success())
        };
        if !done("mkfs.xfs", &["-q"]) {
            eprintln!("skipped: there is no mkfs.xfs");
            return None;
        }
        if !done("mount", &["-o", "loop"]) {
            eprintln!("skipped: this process may not mount a file system");
            return None;
        }
        let xfs = Xfs(place);
        fs::write(xfs.path("in.safetensors"), safetensors("")).unwrap();
        Some(xfs)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path("mounted").join(name)
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt"));
        command.args(arguments).current_dir(self.path("")).output().unwrap()
    }

    /// Converts, and returns what the program says of it.
    fn convert(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["convert", "--format", "json"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Bytes that are in use.
    fn used(&self) -> u64 {
        assert!(Command::new("sync").status().unwrap().success());
        let output = Command::new("df").args(["--output=used", "-B1"]).arg(self.path("")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().nth(1).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Xfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path("mounted")).output();
    }
}

/// Eight matrices, in the order of their names; `more` makes the header longer.
fn safetensors(more: &str) -> Vec<u8> {
    let entry = |number: usize| {
        let offsets = [number * MATRIX, (number + 1) * MATRIX];
        (
            format!("layer.{number}"),
            json!({ "dtype": "F32", "shape": [512, MATRIX / 2048], "data_offsets": offsets }),
        )
    };
    let mut header: serde_json::Map<String, Value> = (0..8).map(entry).collect();
    header.insert("__metadata__".into(), json!({ "more": more }));
    let mut text = serde_json::to_vec(&header).unwrap();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes.extend((0..8 * MATRIX as u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 24) as u8));
    bytes
}

fn overwrite(path: &Path) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let zeros = vec![0; file.metadata().unwrap().len() as usize];
    file.write_all_at(&zeros, 0).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn an_output_shares_its_sources_blocks_takes_no_room_and_stays_when_the_source_is_overwritten() {
    let Some(xfs) = Xfs::new() else { return };
    let all = 8 * MATRIX as u64;
    for more in ["", "a header of another length, so that the data begin elsewhere"] {
        fs::write(xfs.path("in.safetensors"), safetensors(more)).unwrap();
        let outputs = [
            &["out.safetensors"][..],
            &["out.safetensors", "--no-check"],
            &["tf", "--to", "tf2"],
            &["out.npz", "--allow", "metadata-dropped"],
            &["out.pt", "--allow", "metadata-dropped"],
        ];
        for (number, arguments) in outputs.iter().enumerate() {
            let before = xfs.used();
            let report = xfs.convert(&[&["in.safetensors"], *arguments, &["--clone", "always"]].concat());
            let cloned = report["cloned"].as_u64().unwrap();
            assert!(cloned > all - all / 100, "{number}: {cloned}");
            let grown = xfs.used().saturating_sub(before);
            assert!(grown < all / 100, "{number}: {grown} bytes");
            // Compared with a copy that shares nothing, after the source is gone.
            xfs.convert(&["in.safetensors", "copy.npz", "--clone", "never"]);
            overwrite(&xfs.path("in.safetensors"));
            let output = if arguments[0] == "tf" { "tf.index" } else { arguments[0] };
            let compared = xfs.run(&["diff", output, "copy.npz"]);
            assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
            for file in fs::read_dir(xfs.path("")).unwrap().map(|entry| entry.unwrap().path()) {
                fs::remove_file(file).unwrap();
            }
            fs::write(xfs.path("in.safetensors"), safetensors(more)).unwrap();
        }
    }
}

#[test]
fn what_the_plan_promises_is_what_is_shared_and_never_shares_nothing() {
    let Some(xfs) = Xfs::new() else { return };
    let plan = xfs.run(&["plan", "in.safetensors", "tf", "--to", "tf2"]);
    let text = String::from_utf8(plan.stdout).unwrap();
    let promised =
        text.lines().find_map(|line| line.strip_prefix("of that, ")).unwrap_or_else(|| panic!("{text}"));
    let said =
        String::from_utf8(xfs.run(&["convert", "in.safetensors", "shared", "--to", "tf2"]).stderr).unwrap();
    assert!(said.contains(promised), "{said} instead of {promised}");
    let report = xfs.convert(&["in.safetensors", "tf", "--to", "tf2", "--clone", "never", "--verify"]);
    assert_eq!(report["cloned"], 0);
    let report = xfs.convert(&["tf.index", "back.safetensors", "--verify", "--receipt", "receipt.json"]);
    let receipt: Value = serde_json::from_slice(&fs::read(xfs.path("receipt.json")).unwrap()).unwrap();
    assert!(report["cloned"].as_u64().unwrap() > 0);
    assert_eq!(receipt["cloned"], report["cloned"]);
}

#[test]
fn a_tensor_that_cannot_be_shared_is_named_where_all_must_be() {
    let Some(xfs) = Xfs::new() else { return };
    let refused = |arguments: &[&str]| {
        let output = xfs.run(&[&["convert", "in.safetensors"], arguments, &["--clone", "always"]].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let changed = refused(&["half.safetensors", "--dtype", "f16"]);
    assert!(changed.contains("layer.0") && changed.contains("its bytes change"), "{changed}");
    let elsewhere = Workplace::new();
    let elsewhere = refused(&[elsewhere.path("o.safetensors").to_str().unwrap()]);
    assert!(elsewhere.contains("another one than the source's"), "{elsewhere}");
}
