//! Commands under small limits of the system.

use crate::common::workplace::Workplace;
use std::process::Command;

/// Runs a shell script that calls the program as `"$0"`, and expects it to succeed.
fn run_script(place: &Workplace, script: &str) {
    let output = Command::new("sh")
        .current_dir(place.directory())
        .args(["-c", script, env!("CARGO_BIN_EXE_ckpt")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn more_shards_than_files_may_be_open_are_written_and_read() {
    let place = Workplace::new();
    let value = |k: usize| (format!("t{k:04}"), k);
    let header: std::collections::BTreeMap<String, serde_json::Value> = (0..300)
        .map(value)
        .map(|(name, k)| {
            (name, serde_json::json!({ "dtype": "U8", "shape": [64], "data_offsets": [64 * k, 64 * k + 64] }))
        })
        .collect();
    let header = serde_json::to_vec(&header).unwrap();
    let data: Vec<u8> = (0..300 * 64).map(|k| (k % 251) as u8).collect();
    place.write("m.safetensors", [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat());
    let script = r#"ulimit -n 128 && "$0" convert m.safetensors s.safetensors --shard-size 64 -q &&
        "$0" convert s.safetensors.index.json back.safetensors -q && "$0" diff m.safetensors back.safetensors"#;
    run_script(&place, script);
    assert!(place.names().len() >= 300);
}

/// A safetensors set of 40 shards, `s.safetensors.index.json`.
#[cfg(target_os = "linux")]
fn write_shards(place: &Workplace) {
    let tensors: Vec<_> = (0..40).map(|k| (format!("t{k:02}"), vec![64], vec![k as f32; 64])).collect();
    place.checkpoint("m.safetensors", &tensors);
    place.says(&["convert", "m.safetensors", "s.safetensors", "--shard-size", "256", "-q"]);
}

#[cfg(target_os = "linux")]
#[test]
fn too_many_open_files_are_called_that_and_never_a_change_or_damage_of_the_source() {
    let place = Workplace::new();
    write_shards(&place);
    let (mut refused, mut done) = (0, 0);
    for limit in [4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 128] {
        let script =
            format!("ulimit -n {limit} && \"$0\" convert s.safetensors.index.json o.safetensors --force -j2");
        let output = Command::new("sh")
            .current_dir(place.directory())
            .args(["-c", &script, env!("CARGO_BIN_EXE_ckpt")])
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        // With fewer, the program's own libraries cannot be opened.
        if output.status.code() == Some(127) {
            continue;
        }
        if output.status.success() {
            done += 1;
            continue;
        }
        refused += 1;
        assert_eq!(output.status.code(), Some(1), "{limit}: {error}");
        assert!(error.contains("Too many open files"), "{limit}: {error}");
        let help = format!("ulimit -n 4096`; it is {limit} now");
        assert!(error.contains(&help) && !error.contains("changed"), "{limit}: {error}");
    }
    assert!(refused >= 3 && done >= 3, "{refused} refused, {done} done");
}

#[cfg(target_os = "linux")]
#[test]
fn a_small_stack_is_enough_for_every_command() {
    let place = Workplace::new();
    place.copy_digits("d");
    let script = r#"ulimit -s 64 && "$0" inspect d/ckpt-1 && "$0" --help && "$0" man &&
        "$0" convert d/ckpt-1 n.npz --set activations=relu,softmax --allow all --verify && "$0" hash n.npz &&
        "$0" verify d/ckpt-1 d/ckpt-1 --a-set activations=relu,softmax --b-set activations=relu,softmax"#;
    run_script(&place, script);
}

/// The address space of the debug build alone is 60 MB.
#[cfg(target_os = "linux")]
#[test]
fn a_header_that_does_not_fit_into_memory_is_an_error() {
    let place = Workplace::new();
    let len: u64 = 250 << 20;
    place.write("m.safetensors", len.to_le_bytes());
    let file = std::fs::OpenOptions::new().write(true).open(place.directory().join("m.safetensors")).unwrap();
    file.set_len(8 + len).unwrap();
    let output = Command::new("sh")
        .current_dir(place.directory())
        .args([
            "-c",
            "ulimit -v 200000 && \"$0\" inspect m.safetensors --from safetensors",
            env!("CARGO_BIN_EXE_ckpt"),
        ])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("not enough memory to read the file") && error.contains("ulimit -v"), "{error}");
}
