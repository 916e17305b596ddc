//! A codec that ends the process leaves the name of the step.

use crate::chest::{Chest, Mistake, sample};
use ckpt_api::{
    Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Match, Options, OutputLayout, Result,
};
use ckpt_conformance::check;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The environment variable that makes a test of this file the child, and names its death.
const DEATH: &str = "CKPT_KIT_DEATH";

/// Ends the process on a tensor count of 3, which is what the sample has after one bit changed.
struct Deadly(String);

impl Codec for Deadly {
    fn info(&self) -> &FormatInfo {
        CHEST.info()
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        CHEST.probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        if input.main()?.bytes(0, 8).is_ok_and(|head| head == *b"CHST\0\0\0\x03") {
            match &*self.0 {
                "abort" => std::process::abort(),
                "stack" => drop(black_box(deeper(u64::MAX))),
                "memory" => drop(black_box(Vec::<u8>::with_capacity(isize::MAX as usize))),
                _ => {}
            }
        }
        CHEST.read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        CHEST.place(checkpoint, name, options)
    }
}

static CHEST: Chest = Chest(Mistake::None);

fn deeper(levels: u64) -> u64 {
    let room = black_box([levels; 64]);
    if levels == 0 { 0 } else { deeper(room[0] - 1) + room[1] }
}

/// Runs the child in a process of its own with a temporary directory of its own.
fn run(death: &str, directory: &Path) -> (Output, Vec<PathBuf>) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "deaths::a_child_dies_if_it_is_told_to"])
        .env(DEATH, death)
        .env("TMPDIR", directory)
        .output()
        .unwrap();
    let left = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    (child, left)
}

#[test]
fn a_child_dies_if_it_is_told_to() {
    if let Ok(death) = std::env::var(DEATH) {
        check(&Deadly(death), &[sample()]);
    }
}

#[test]
#[cfg(unix)]
fn a_process_that_dies_leaves_the_sample_and_the_byte() {
    for death in ["abort", "stack", "memory"] {
        let directory = tempfile::tempdir().unwrap();
        let (child, left) = run(death, directory.path());
        assert!(!child.status.success(), "{death}: the child lives");
        let [left] = &left[..] else { panic!("{death}: {left:?}") };
        let printed = String::from_utf8_lossy(&child.stderr);
        assert!(printed.contains(left.to_str().unwrap()), "{death}: the path is not printed: {printed}");
        let step = std::fs::read_to_string(left).unwrap();
        assert_eq!(step.trim_end(), "two tensors: byte 7 of m.chest changed from 0x02 to 0x03", "{death}");
    }
}

#[test]
#[cfg(unix)]
fn a_process_that_lives_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let (child, left) = run("none", directory.path());
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert_eq!(left, Vec::<PathBuf>::new());
}
