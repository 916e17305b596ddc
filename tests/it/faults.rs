//! What goes wrong outside: killed processes, full disks, vanished directories, two at once. The names have what they
//! had or all that is new; nothing else is left.

use crate::common::workplace::Workplace;
use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes of a tensor, and how many there are: together more than the journal waits for.
const TENSOR: usize = 4 << 20;
const TENSORS: usize = 18;

/// A safetensors file that takes a while to be converted.
fn source() -> &'static Path {
    static SOURCE: OnceLock<TempDir> = OnceLock::new();
    let place = SOURCE.get_or_init(|| {
        let place = tempfile::tempdir().unwrap();
        let entry = |n: usize| {
            let (start, end) = (n * TENSOR, (n + 1) * TENSOR);
            format!(r#""t{n:02}":{{"dtype":"F32","shape":[1024,1024],"data_offsets":[{start},{end}]}}"#)
        };
        let header = format!("{{{}}}", (0..TENSORS).map(entry).collect::<Vec<_>>().join(","));
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.into_bytes());
        // No two elements alike, and none that another dtype has not.
        let elements = (0..(TENSORS * TENSOR / 4) as u32).flat_map(|n| (1.0 + n as f32 / 1e8).to_le_bytes());
        bytes.extend(elements);
        fs::write(place.path().join("in.safetensors"), bytes).unwrap();
        place
    });
    Path::new(place.path())
}

/// What is written: the last argument names it.
struct Job {
    arguments: &'static [&'static str],
    output: &'static str,
}

const JOBS: [Job; 3] = [
    Job { arguments: &["--to", "npz"], output: "o.npz" },
    Job { arguments: &["--dtype", "bf16"], output: "o.safetensors" },
    Job { arguments: &["--to", "tf2", "--shard-size", "20m"], output: "o" },
];

struct Place(Workplace);

impl Place {
    fn new() -> Self {
        Place(Workplace::new())
    }

    fn command(&self, job: &Job, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt"));
        command.arg("convert").arg(source().join("in.safetensors")).arg(self.0.directory().join(job.output));
        command.args(job.arguments).args(["--no-sync", "-j", "2"]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, job: &Job, more: &[&str]) -> Output {
        self.command(job, more).output().unwrap()
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let read = |name: String| (name.clone(), fs::read(self.0.directory().join(name)).unwrap());
        self.names().into_iter().map(read).collect()
    }

    /// A conversion that was stopped while it was writing.
    fn stopped(&self, job: &Job) -> Child {
        for _ in 0..50 {
            let mut child = self.command(job, &["--force"]).spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                if self.names().iter().any(|name| name.ends_with(".ckpt-tmp")) {
                    signal(&child, "STOP");
                    stands(&child);
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            if child.try_wait().unwrap().is_none()
                && self.names().iter().any(|name| name.ends_with(".ckpt-tmp"))
            {
                return child;
            }
            signal(&child, "CONT");
            child.wait().unwrap();
        }
        panic!("it is always done before it can be stopped");
    }
}

fn signal(child: &Child, name: &str) {
    // One that has ended needs none.
    let _ = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).output().unwrap();
}

/// Waits until every thread has come to a stop: the signal itself returns before.
fn stands(child: &Child) {
    let stopped = |task: PathBuf| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        matches!(state, None | Some('T' | 'Z' | 'X'))
    };
    let tasks = || fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten();
    while !tasks().all(|task| task.is_ok_and(|task| stopped(task.path()))) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A number below `end`, another one each time.
fn random(end: u64) -> u64 {
    RandomState::new().hash_one(0) % end.max(1)
}

/// What a job gives, and how long that takes.
fn undisturbed(job: &Job) -> (BTreeMap<String, Vec<u8>>, Duration) {
    let (place, started) = (Place::new(), Instant::now());
    let output = place.run(job, &[]);
    assert!(output.status.success(), "{}", said(&output));
    (place.files(), started.elapsed())
}

/// `CKPT_KILLS` says how many processes are killed, 30 if it is not set.
#[test]
fn killed_at_any_moment_it_leaves_the_old_or_the_new_and_the_next_run_leaves_nothing_else() {
    let kills = std::env::var("CKPT_KILLS").ok().map_or(30, |text| text.parse().unwrap());
    let expected = JOBS.each_ref().map(undisturbed);
    let (mut done, mut kept) = (0, 0);
    for round in 0.. {
        let (job, (new, time)) = (&JOBS[round % JOBS.len()], &expected[round % JOBS.len()]);
        let (replaces, resumes) = (round.is_multiple_of(2), (round / JOBS.len()).is_multiple_of(2));
        let place = Place::new();
        if replaces {
            new.keys().for_each(|name| fs::write(place.0.directory().join(name), "old").unwrap());
        }
        let force = if replaces { &["--force"][..] } else { &[] };
        let resume = if resumes { &["--resume"][..] } else { &[] };
        let options = [force, resume].concat();
        for _ in 0..=random(2) {
            let mut child = place.command(job, &options).spawn().unwrap();
            std::thread::sleep(Duration::from_micros(random(time.as_micros() as u64 * 11 / 10)));
            child.kill().unwrap();
            child.wait().unwrap();
            done += 1;
            old_or_new(&place, new, replaces);
        }
        let output = place.run(job, &options);
        let complete = !replaces && said(&output).contains("the output exists");
        assert!(output.status.success() || complete, "{}", said(&output));
        assert!(place.files() == *new, "{:?} after {}", place.names(), said(&output));
        kept += usize::from(said(&output).contains("resumed: "));
        if done >= kills {
            break;
        }
    }
    eprintln!("{done} processes killed; {kept} times the next one went on");
}

fn old_or_new(place: &Place, new: &BTreeMap<String, Vec<u8>>, replaces: bool) {
    let found: Vec<Option<Vec<u8>>> =
        new.keys().map(|name| fs::read(place.0.directory().join(name)).ok()).collect();
    let is_old =
        |bytes: &Option<Vec<u8>>| if replaces { bytes.as_deref() == Some(b"old") } else { bytes.is_none() };
    let old = found.iter().filter(|bytes| is_old(bytes)).count();
    let is_new = |(bytes, new): (&Option<Vec<u8>>, &Vec<u8>)| bytes.as_ref() == Some(new);
    let renewed = found.iter().zip(new.values()).filter(|pair| is_new(*pair)).count();
    // While several files get their names, the one that leads to the others (an index, the last in order) is not there.
    let index = place.0.directory().join(new.keys().last().unwrap());
    let naming = new.len() > 1 && !index.exists();
    assert!(old == new.len() || renewed == new.len() || naming, "{old} old, {renewed} new of {}", new.len());
}

#[test]
fn a_signal_ends_it_with_its_code_and_nothing_is_left() {
    let signals = SIGNALS.into_iter().chain(if cfg!(target_os = "linux") { REAL_TIME } else { [0; 2] });
    let mut sent = 0;
    for (number, name) in signals.filter(|number| *number != 0 && !is_ignored(*number)).enumerate() {
        // Every job with those that people send, one with each of the others.
        let jobs = if [1, 2, 15].contains(&name) { &JOBS[..] } else { &JOBS[number % JOBS.len()..][..1] };
        let code = 128 + name;
        sent += 1;
        for job in jobs {
            let place = Place::new();
            let child = place.stopped(job);
            signal(&child, &name.to_string());
            signal(&child, "CONT");
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{name}: {}", said(&output));
            assert!(said(&output).contains("interrupted"), "{}", said(&output));
            assert!(said(&output).contains("the output was not made"), "{}", said(&output));
            assert!(place.names().is_empty(), "{name}: {:?}", place.names());
        }
    }
    assert!(sent > 3, "{sent}");
}

/// A scheduler sends one to the process and one to its group.
#[test]
fn two_signals_at_once_leave_nothing_either() {
    if is_ignored(2) || is_ignored(15) {
        eprintln!("skipped: started to ignore SIGINT or SIGTERM");
        return;
    }
    for job in &JOBS {
        let place = Place::new();
        let child = place.stopped(job);
        ["TERM", "INT", "CONT"].into_iter().for_each(|name| signal(&child, name));
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(130 | 143)), "{:?}: {}", output.status, said(&output));
        assert!(place.names().is_empty(), "{:?}", place.names());
    }
}

/// HUP, INT, QUIT, TRAP, ABRT, ALRM, TERM, XCPU, VTALRM, PROF: they have these numbers everywhere.
const SIGNALS: [i32; 10] = [1, 2, 3, 5, 6, 14, 15, 24, 26, 27];
/// The first and the last that programs have for themselves.
const REAL_TIME: [i32; 2] = [34, 64];

/// Whether this process, and with it every child, was started to ignore a signal.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1)
}

#[test]
fn a_signal_that_it_was_started_to_ignore_is_ignored() {
    let (place, job) = (Place::new(), &JOBS[0]);
    let (command, mut shell) = (place.command(job, &[]), Command::new("sh"));
    shell.args(["-c", "trap '' HUP USR1; exec \"$0\" \"$@\""]).arg(command.get_program());
    shell.args(command.get_args()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let begun = || place.names().iter().any(|name| name.ends_with(".ckpt-tmp"));
    while child.try_wait().unwrap().is_none() && !begun() {
        std::thread::sleep(Duration::from_millis(1));
    }
    ["HUP", "USR1"].into_iter().for_each(|name| signal(&child, name));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn of_two_that_write_the_same_output_the_second_is_told() {
    for (job, more) in JOBS.iter().zip([&["--force"][..], &["--force", "--resume"], &[]]) {
        let place = Place::new();
        let first = place.stopped(job);
        let second = place.run(job, more);
        assert_eq!(second.status.code(), Some(2), "{}", said(&second));
        assert!(said(&second).contains("another conversion is writing this output"), "{}", said(&second));
        signal(&first, "CONT");
        let first = first.wait_with_output().unwrap();
        assert!(first.status.success(), "{}", said(&first));
        assert!(place.files() == undisturbed(job).0);
    }
}

#[test]
fn what_one_that_was_killed_had_written_is_told_when_it_is_kept() {
    let job = &JOBS[0];
    let place = Place::new();
    let mut child = place.command(job, &[]).spawn().unwrap();
    let journal = place.0.directory().join(".o.npz.ckpt-journal");
    let noted = || fs::metadata(&journal).is_ok_and(|meta| meta.len() > 500);
    while child.try_wait().unwrap().is_none() && !noted() {
        std::thread::sleep(Duration::from_micros(200));
    }
    child.kill().unwrap();
    if child.wait().unwrap().success() || !noted() {
        eprintln!("skipped: it was done before it could be killed");
        return;
    }
    // The first record names the files; one for each item follows.
    let noted = records(&fs::read(&journal).unwrap()) - 1;
    let output = place.run(job, &["--resume", "--format", "json"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let tensors = told["resumed"]["tensors"].as_u64().unwrap();
    // A tensor is done when both of its items are; each of two threads may have left one half done.
    assert!(tensors > 0 && tensors <= noted && noted <= 2 * (tensors + 2), "{noted} noted: {told}");
    assert_eq!(told["resumed"]["bytes"], tensors * TENSOR as u64);
    assert!(place.files() == undisturbed(job).0);
    let again = place.run(job, &["--resume", "--force"]);
    assert!(said(&again).contains("nothing to resume"), "{}", said(&again));
}

/// Complete records in a journal: each has its length, and a checksum, before it.
fn records(mut journal: &[u8]) -> u64 {
    let mut count = 0;
    while let Some((length, rest)) = journal.split_first_chunk::<4>() {
        let Some(rest) = rest.get(4 + u32::from_le_bytes(*length) as usize..) else { break };
        (journal, count) = (rest, count + 1);
    }
    count
}

#[test]
fn a_directory_that_vanishes_is_an_error_and_is_not_made_again() {
    for job in &JOBS {
        let place = Place::new();
        let child = place.stopped(job);
        fs::remove_dir_all(place.0.directory()).unwrap();
        signal(&child, "CONT");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).starts_with("error: cannot "), "{}", said(&output));
        assert!(!place.0.directory().exists());
    }
}

#[test]
fn a_file_that_may_not_become_so_large_is_an_error_that_leaves_nothing() {
    for job in &JOBS {
        let place = Place::new();
        let (command, mut shell) = (place.command(job, &[]), Command::new("sh"));
        shell.args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\""]).arg(command.get_program());
        let output = shell.args(command.get_args()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).starts_with("error: cannot "), "{}", said(&output));
        assert!(place.names().is_empty(), "{:?}", place.names());
    }
}

#[test]
fn a_full_disk_is_an_error_that_says_so_and_leaves_nothing() {
    let Some(disk) = Tmpfs::new() else {
        eprintln!("skipped: this process may not mount a file system");
        return;
    };
    for job in &JOBS {
        let output = disk.0.run(job, &[]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("the disk is full: the output was not made"), "{}", said(&output));
        assert!(disk.0.names().is_empty(), "{:?}", disk.0.names());
    }
}

/// A file system of eight megabytes.
struct Tmpfs(Place);

impl Tmpfs {
    fn new() -> Option<Self> {
        let place = Place::new();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(place.0.directory());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Tmpfs(place))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.0.directory()).output();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_takes_no_files_is_named() {
    // Nobody makes files there, whoever runs this.
    let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt"));
    command.arg("convert").arg(source().join("in.safetensors")).arg("/proc/o.npz");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("cannot make a file in the output's directory"), "{}", said(&output));
    assert!(said(&output).contains("/proc"), "{}", said(&output));
}

#[test]
fn a_directory_behind_a_link_is_written_to() {
    let (place, real) = (Place::new(), Place::new());
    std::os::unix::fs::symlink(real.0.directory(), place.0.directory().join("link")).unwrap();
    for job in &JOBS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt"));
        let output: PathBuf = place.0.directory().join("link").join(job.output);
        command.arg("convert").arg(source().join("in.safetensors")).arg(output).args(job.arguments);
        assert!(command.output().unwrap().status.success());
    }
    let expected: Vec<String> = JOBS.iter().flat_map(|job| undisturbed(job).0.into_keys()).collect();
    assert_eq!(real.names().len(), expected.len());
    assert!(expected.iter().all(|name| real.names().contains(name)), "{:?}", real.names());
}
