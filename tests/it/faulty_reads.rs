//! What a disk may do while a checkpoint is read: answer in parts, be interrupted, fail, end too early. The result is
//! the undisturbed one, or an error that says where.

use crate::common::corpus::{Case, manifest, root};
use ckpt::{Conversion, Execution, Policy, Registry, Resources, Source};
use ckpt_api::{Input, Kind, ReadAt, Result};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The codecs, and how many files of each are read.
const CODECS: [(&str, usize); 6] =
    [("bullet", 13), ("cnn2", 15), ("nn", 13), ("npz", 21), ("safetensors", 19), ("tf2", 38)];

/// What happens at calls of the operating system, numbered from 0.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Every read gives no more than so many bytes, as a function of its number.
    Short(fn(u64) -> u64),
    /// Every second read is interrupted.
    Interrupted,
    /// This call fails.
    Once(u64),
    /// This call fails, and all that follow.
    From(u64),
    /// From this read on, files have nothing more.
    End(u64),
}

const EIO: i32 = 5;

/// Counts the calls, and makes them fail.
#[derive(Debug)]
struct Disk {
    fault: Fault,
    calls: AtomicU64,
    /// Counts the reads of a disk that interrupts them.
    reads: AtomicU64,
    /// The file and the offset of the first call that met the fault.
    met: OnceLock<(String, Option<u64>)>,
}

impl Disk {
    fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Disk { fault, calls: AtomicU64::new(0), reads: AtomicU64::new(0), met: OnceLock::new() })
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// How many bytes a call may give.
    fn call(&self, file: &str, offset: Option<u64>) -> io::Result<u64> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let meets = || drop(self.met.set((file.to_owned(), offset)));
        match self.fault {
            Fault::Once(at) if number != at => Ok(u64::MAX),
            Fault::From(at) if number < at => Ok(u64::MAX),
            Fault::Once(_) | Fault::From(_) => {
                meets();
                Err(io::Error::from_raw_os_error(EIO))
            }
            Fault::End(at) if number >= at && offset.is_some() => {
                meets();
                Ok(0)
            }
            Fault::Short(most) if offset.is_some() => Ok(most(number)),
            Fault::Interrupted
                if offset.is_some() && self.reads.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) =>
            {
                Err(io::ErrorKind::Interrupted.into())
            }
            _ => Ok(u64::MAX),
        }
    }
}

#[derive(Debug)]
struct FaultyFile {
    name: String,
    bytes: Arc<Vec<u8>>,
    disk: Arc<Disk>,
}

impl ReadAt for FaultyFile {
    fn size(&self) -> io::Result<u64> {
        self.disk.call(&self.name, None)?;
        self.bytes.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self.disk.call(&self.name, Some(offset))?;
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(buffer.len());
        self.bytes.read_at(offset, &mut buffer[..most])
    }
}

/// A case of the corpus whose files are on such a disk.
struct Stored<'a> {
    case: &'a Case,
    entry: String,
    files: BTreeMap<String, Arc<Vec<u8>>>,
}

impl<'a> Stored<'a> {
    fn new(case: &'a Case) -> Self {
        let path = root().join(&case.path);
        let read = |path: &Path| Arc::new(fs::read(path).unwrap());
        let (entry, files) = match &case.entry {
            Some(entry) => {
                let files = case.sha256.keys().map(|name| (name.clone(), read(&path.join(name))));
                (entry.clone(), files.collect())
            }
            None => {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name.clone(), BTreeMap::from([(name, read(&path))]))
            }
        };
        Stored { case, entry, files }
    }

    fn open(&self, disk: &Arc<Disk>) -> Result<Source> {
        let faulty = |(name, bytes): (&String, &Arc<Vec<u8>>)| {
            let file = FaultyFile { name: name.clone(), bytes: bytes.clone(), disk: disk.clone() };
            (name.clone(), Arc::new(file) as Arc<dyn ReadAt>)
        };
        let input = Input::of(&self.entry, self.files.iter().map(faulty).collect());
        Source::open(&Registry::builtin(), input, &self.case.opening())
    }

    /// Finds the format, and reads all there is.
    fn digest(&self, disk: &Arc<Disk>) -> Result<String> {
        Ok(ckpt::digest::digest(&self.open(disk)?, 1)?.sha256)
    }

    /// How many calls reading takes where nothing disturbs it.
    fn calls(&self) -> u64 {
        let disk = Disk::new(Fault::None);
        let _ = self.digest(&disk);
        disk.calls()
    }
}

/// Calls `check` with every case of this outcome, and says how many it saw.
fn every(codec: &str, outcome: &str, mut check: impl FnMut(&Stored)) -> usize {
    let cases = manifest();
    let cases = cases.iter().filter(|case| case.codec == codec && case.outcome == outcome);
    cases.map(|case| check(&Stored::new(case))).count()
}

/// The result must be an error of the disk that says where it failed.
fn names_the_place<T>(result: Result<T>, disk: &Disk, case: &Case) {
    let path = &case.path;
    let (file, offset) = disk.met.get().unwrap_or_else(|| panic!("{path}: no call met {:?}", disk.fault));
    let Err(error) = result else { panic!("{path}: {file} failed at {offset:?}, and nobody was told") };
    assert_eq!(error.kind(), Kind::Io, "{path}: {file} at {offset:?}: {error}");
    let context = error.context();
    assert_eq!(context.file, Some(file.as_str()), "{path}: {error}");
    assert_eq!(context.offset, *offset, "{path}: {error}");
}

#[test]
fn bytes_that_come_in_parts_are_read_as_those_that_come_at_once() {
    let one: fn(u64) -> u64 = |_| 1;
    let few: fn(u64) -> u64 = |number| 1 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 13;
    for (codec, files) in CODECS {
        let seen = every(codec, "accept", |stored| {
            for fault in [Fault::Short(one), Fault::Short(few), Fault::Interrupted] {
                let disk = Disk::new(fault);
                let digest =
                    stored.digest(&disk).unwrap_or_else(|error| panic!("{}: {error}", stored.case.path));
                assert_eq!(Some(digest), stored.case.digest, "{}", stored.case.path);
                assert!(disk.calls() > stored.calls(), "{}: {fault:?} disturbs nothing", stored.case.path);
            }
        });
        assert_eq!(seen, files, "{codec}");
    }
}

#[test]
fn a_read_that_fails_is_an_error_that_names_file_and_offset_whichever_read_it_is() {
    for (codec, files) in CODECS {
        let mut failed = 0;
        let seen = every(codec, "accept", |stored| {
            for at in 0..stored.calls() {
                for fault in [Fault::Once(at), Fault::From(at)] {
                    let disk = Disk::new(fault);
                    names_the_place(stored.digest(&disk), &disk, stored.case);
                    failed += 1;
                }
            }
        });
        assert!(seen == files && failed > 10 * files, "{codec}: {seen} files, {failed} failed calls");
    }
}

#[test]
fn a_read_that_fails_never_makes_a_refused_file_acceptable() {
    for (codec, _) in CODECS {
        let mut failed = 0;
        let seen = every(codec, "reject", |stored| {
            for at in 0..stored.calls() {
                let disk = Disk::new(Fault::Once(at));
                names_the_place(stored.digest(&disk), &disk, stored.case);
                failed += 1;
            }
        });
        assert!(seen > 30 && failed > seen, "{codec}: {seen} files, {failed} failed calls");
    }
}

#[test]
fn a_file_that_ends_while_it_is_read_is_refused_whenever_that_is() {
    for (codec, files) in CODECS {
        let mut ended = 0;
        let seen = every(codec, "accept", |stored| {
            for at in 0..stored.calls() {
                let disk = Disk::new(Fault::End(at));
                let result = stored.digest(&disk);
                if disk.met.get().is_some() {
                    let kind = result.map(drop).expect_err(&stored.case.path).kind();
                    let path = &stored.case.path;
                    assert!(matches!(kind, Kind::Corrupt | Kind::Unsupported), "{path}: {kind:?}");
                    ended += 1;
                }
            }
        });
        assert!(seen == files && ended > 5 * files, "{codec}: {seen} files, {ended} ended");
    }
}

/// Converts to several files if there are any, in the place of old ones where `replaces`.
fn convert(stored: &Stored, disk: &Arc<Disk>, directory: &Path, replaces: bool) -> Result<()> {
    let registry = Registry::builtin();
    let conversion = Conversion::new()
        .to("tf2")
        .set("shard_size", "64")
        .policy(Policy::new().allow_all(true))
        .resources(Resources::new().threads(1))
        .overwrite(replaces);
    let planned = conversion.plan(&registry, &stored.open(disk)?, directory.join("o"))?;
    planned.execute(&Execution::new().sync(false), &|_| ()).map(drop)
}

fn found(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

#[test]
fn a_conversion_whose_source_fails_leaves_nothing_new_and_what_was_there_before() {
    for (codec, _) in CODECS {
        let (mut converted, mut failed) = (0, 0);
        every(codec, "accept", |stored| {
            let (new, disk) = (tempfile::tempdir().unwrap(), Disk::new(Fault::None));
            if converted == 2 || convert(stored, &disk, new.path(), false).is_err() {
                return;
            }
            converted += 1;
            let old = tempfile::tempdir().unwrap();
            found(new.path()).keys().for_each(|name| fs::write(old.path().join(name), "old").unwrap());
            let (before, empty) = (found(old.path()), tempfile::tempdir().unwrap());
            for at in 0..disk.calls() {
                for (directory, replaces) in [(&empty, false), (&old, true)] {
                    let disk = Disk::new(Fault::Once(at));
                    let result = convert(stored, &disk, directory.path(), replaces);
                    names_the_place(result, &disk, stored.case);
                    failed += 1;
                }
                assert!(found(empty.path()).is_empty(), "{}: {at}", stored.case.path);
                assert_eq!(found(old.path()), before, "{}: {at}", stored.case.path);
            }
        });
        assert!(converted == 2 && failed > 20, "{codec}: {converted} converted, {failed} failed calls");
    }
}
