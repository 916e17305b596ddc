//! What a disk may do while an output is written: take a part, be interrupted, be full, fail. The output is all there,
//! or the names have what they had.

use super::super::*;
use super::{Found, Place, to};
use crate::store::{Disk, LocalStore, Os};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use tempfile::{PathPersistError, TempPath};

/// What happens at calls of the operating system, numbered from 0.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Every write takes no more than a few bytes, and every second one is interrupted first.
    Parts,
    /// This call fails so; a write has written half by then.
    Once(u64, io::ErrorKind),
    /// This call fails so, and all that follow.
    From(u64, io::ErrorKind),
    /// From this removal on, so many fail.
    Removals(u64, u64),
    /// The file system has no locks, and says so.
    Locks,
}

#[derive(Debug)]
struct Faulty {
    fault: Fault,
    calls: AtomicU64,
    removals: AtomicU64,
}

impl Faulty {
    fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Faulty { fault, calls: AtomicU64::new(0), removals: AtomicU64::new(0) })
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn call(&self) -> io::Result<u64> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            Fault::Once(at, kind) if number == at => Err(kind.into()),
            Fault::From(at, kind) if number >= at => Err(kind.into()),
            _ => Ok(number),
        }
    }
}

impl Disk for Faulty {
    fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<File> {
        self.call()?;
        Os.open(path, options)
    }

    fn make_directories(&self, path: &Path) -> io::Result<()> {
        self.call()?;
        Os.make_directories(path)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.call()?;
        Os.set_len(file, len)
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        match (self.fault, self.call()) {
            (Fault::Parts, Ok(number)) if number % 2 == 0 => Err(io::ErrorKind::Interrupted.into()),
            (Fault::Parts, Ok(number)) => {
                let few = 1 + usize::try_from(number).unwrap() % 61;
                Os.write_at(file, offset, &bytes[..few.min(bytes.len())])
            }
            (_, Ok(_)) => Os.write_at(file, offset, bytes),
            (_, Err(error)) => {
                Os.write_at(file, offset, &bytes[..bytes.len() / 2])?;
                if error.kind() == io::ErrorKind::WriteZero { Ok(0) } else { Err(error) }
            }
        }
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        self.call().map(drop)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?;
        Os.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?;
        Os.hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let number = self.removals.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            Fault::Removals(at, count) if number >= at && number - at < count => {
                Err(io::ErrorKind::Other.into())
            }
            _ => Os.remove_file(path),
        }
    }

    fn try_lock(&self, file: &File, shared: bool) -> std::result::Result<(), TryLockError> {
        match self.fault {
            Fault::Locks => Err(TryLockError::Error(io::ErrorKind::Other.into())),
            _ => Os.try_lock(file, shared),
        }
    }

    fn persist(
        &self,
        file: TempPath,
        to: &Path,
        overwrite: bool,
    ) -> std::result::Result<(), PathPersistError> {
        match self.call() {
            Ok(_) => Os.persist(file, to, overwrite),
            Err(error) => Err(PathPersistError { error, path: file }),
        }
    }
}

/// Converts on such a disk; says how many calls that took.
fn convert(place: &Place, conversion: &Conversion, fault: Fault) -> (Result<Summary>, u64) {
    let (registry, faulty) = (Registry::for_tests(), Faulty::new(fault));
    let planned = {
        let store = LocalStore::on(faulty.clone(), place.out());
        conversion.plan(&registry, &place.source(), Destination::within(Arc::new(store), "o")).unwrap()
    };
    (planned.execute(&Execution::default(), &|_| ()), faulty.calls())
}

/// One file, several, one with a checksum of its own, and one with a receipt; in the place of old ones.
fn replacing(place: &Place) -> Vec<Conversion> {
    let receipt = Some(place.out().join("receipt"));
    let mut all = vec![to("safetensors", &[]), to("tf2", &[("shard_size", "4k")]), to("npz", &[])];
    all.push(Conversion { receipt: receipt.clone(), ..to("safetensors", &[]) });
    all.push(Conversion { receipt, ..to("tf2", &[("shard_size", "16k")]) });
    all.iter_mut().for_each(|conversion| conversion.overwrite = true);
    all
}

fn undisturbed(place: &Place, conversion: &Conversion) -> (Found, u64) {
    place.put(&Vec::new());
    let (result, calls) = convert(place, conversion, Fault::None);
    result.unwrap();
    (place.found(), calls)
}

#[test]
fn bytes_that_are_taken_in_parts_are_written_as_those_that_are_taken_at_once() {
    let place = Place::new();
    for conversion in replacing(&place) {
        let (complete, calls) = undisturbed(&place, &conversion);
        place.put(&Vec::new());
        let (result, more) = convert(&place, &conversion, Fault::Parts);
        result.unwrap();
        assert!(place.found() == complete, "{:?}", conversion.to);
        assert!(more > 2 * calls, "{more} calls instead of {calls}");
    }
}

#[test]
fn a_call_that_fails_leaves_the_old_or_the_new_and_nothing_else_whichever_call_it_is() {
    const KINDS: [io::ErrorKind; 3] =
        [io::ErrorKind::Other, io::ErrorKind::StorageFull, io::ErrorKind::WriteZero];
    let place = Place::new();
    for conversion in replacing(&place) {
        let (complete, calls) = undisturbed(&place, &conversion);
        let old: Found = complete.iter().map(|(name, _)| (name.clone(), b"old".to_vec())).collect();
        let (mut refused, mut done) = (0, 0);
        for at in 0..calls {
            let kind = KINDS[at as usize % KINDS.len()];
            let (once, from) = (Fault::Once(at, kind), Fault::From(at, kind));
            for (fault, before) in [(once, &Found::new()), (once, &old), (from, &old)] {
                place.put(before);
                let (result, _) = convert(&place, &conversion, fault);
                let told = format!("{:?}, {fault:?}: {result:?}", conversion.to);
                let (found, names) = (place.found(), names(&place));
                match result {
                    // What is lost of the journal is only missed by one who would go on.
                    Ok(_) => assert!(found == complete, "{told}: {names:?}"),
                    Err(error) => {
                        assert!(found == *before, "{told}: {names:?}");
                        assert_eq!(error.kind(), ckpt_api::Kind::Io, "{told}");
                        let full = error.to_string().contains("the disk is full");
                        assert_eq!(full, kind == io::ErrorKind::StorageFull, "{told}");
                        refused += 1;
                        continue;
                    }
                }
                done += 1;
            }
        }
        assert!(refused > 20 && refused > done, "{:?}: {refused} refused, {done} done", conversion.to);
    }
}

#[test]
fn a_removal_that_fails_once_is_tried_again_and_one_that_always_fails_is_reported_and_done_by_the_next() {
    let place = Place::new();
    for conversion in replacing(&place) {
        let (complete, calls) = undisturbed(&place, &conversion);
        let old: Found = complete.iter().map(|(name, _)| (name.clone(), b"old".to_vec())).collect();
        for at in 0..8 {
            place.put(&old);
            assert_eq!(convert(&place, &conversion, Fault::Removals(at, 1)).0.unwrap().left, [""; 0]);
            assert!(place.found() == complete, "{:?}, removal {at}: {:?}", conversion.to, names(&place));
        }
        for before in [&Found::new(), &old] {
            place.put(before);
            let left = convert(&place, &conversion, Fault::Removals(0, u64::MAX)).0.unwrap().left;
            let own = |name: &String| name.starts_with('.');
            let unnamed: Vec<String> = names(&place).into_iter().filter(own).collect();
            assert!(!unnamed.is_empty());
            // The journal stays by intent where another file does.
            let told = |name: &&String| left.iter().any(|left| left.contains(*name));
            let silent: Vec<&String> = unnamed.iter().filter(|name| !told(name)).collect();
            assert!(silent.is_empty() || (silent.len() == 1 && silent[0].ends_with("journal")), "{left:?}");
            let found: Found = place.found().into_iter().filter(|(name, _)| !own(name)).collect();
            assert!(found == complete, "{:?}: {:?}", conversion.to, names(&place));
            convert(&place, &conversion, Fault::None).0.unwrap();
            assert!(place.found() == complete, "{:?}: {:?}", conversion.to, names(&place));
        }
        assert!(calls > 0);
    }
}

#[test]
fn files_that_an_interrupted_conversion_cannot_remove_are_named_by_its_error() {
    let (place, registry) = (Place::new(), Registry::for_tests());
    let conversion = to("tf2", &[("shard_size", "4k")]);
    let store = LocalStore::on(Faulty::new(Fault::Removals(0, u64::MAX)), place.out());
    let planned =
        conversion.plan(&registry, &place.source(), Destination::within(Arc::new(store), "o")).unwrap();
    let execution = Execution::default();
    execution.canceled.store(true, Ordering::Relaxed);
    let error = planned.execute(&execution, &|_| ()).unwrap_err().to_string();
    let left: Vec<String> = names(&place).into_iter().filter(|name| name.ends_with(".ckpt-tmp")).collect();
    assert!(error.contains("interrupted") && left.len() > 2, "{error}");
    assert!(left.iter().all(|name| error.contains(name)), "{left:?} in {error}");
    convert(&place, &conversion, Fault::None).0.unwrap();
    assert!(names(&place).iter().all(|name| !name.starts_with('.')), "{:?}", names(&place));
}

#[test]
fn a_file_system_that_refuses_locks_is_reported_and_nothing_is_left() {
    let place = Place::new();
    for conversion in replacing(&place) {
        place.put(&Vec::new());
        let error = convert(&place, &conversion, Fault::Locks).0.unwrap_err();
        assert_eq!(error.message(), "cannot lock the conversion's journal");
        assert!(place.found().is_empty(), "{:?}", names(&place));
    }
}

#[test]
fn a_commit_whose_call_fails_leaves_all_for_the_next_whichever_call_it_is() {
    let (place, registry) = (Place::new(), Registry::for_tests());
    let planned = |conversion: &Conversion, disk: Arc<dyn Disk>| {
        let output = Destination::within(Arc::new(LocalStore::on(disk, place.out())), "o");
        conversion.plan(&registry, &place.source(), output).unwrap()
    };
    for conversion in replacing(&place) {
        let commit = Commit { receipt: conversion.receipt.clone(), ..Commit::default() };
        let (complete, _) = undisturbed(&place, &conversion);
        let old: Found = complete.iter().map(|(name, _)| (name.clone(), b"old".to_vec())).collect();
        let execution = Execution { sync: false, ..Execution::default() };
        let good = planned(&conversion, Arc::new(Os));
        let staged = || {
            let receipts = Mutex::new(Vec::new());
            let keep = |receipt: &ItemReceipt| {
                receipts.lock().unwrap().push(receipt.clone());
                Ok(())
            };
            good.run_items(0..good.plan().items().len(), &[], &execution, &|_| (), &keep).unwrap();
            receipts.into_inner().unwrap()
        };
        let (mut at, mut refused) = (0, 0);
        for before in [&Found::new(), &old].into_iter().cycle() {
            place.put(before);
            let receipts = staged();
            let faulty = Faulty::new(Fault::Once(at / 2, io::ErrorKind::Other));
            let result =
                planned(&conversion, faulty.clone()).commit(&receipts, &commit, &Execution::default());
            if faulty.calls() <= at / 2 {
                result.unwrap();
                break;
            }
            at += 1;
            if result.is_err() {
                refused += 1;
                let told = format!("{:?}, call {at}: {result:?}", conversion.to);
                let given = place.found().into_iter().filter(|(name, _)| !name.starts_with('.'));
                assert!(given.eq(before.iter().cloned()), "{told}");
                let again = good.commit(&receipts, &commit, &execution);
                assert!(again.is_ok(), "{told}; {again:?}");
            }
            assert!(place.found() == complete, "{:?}, call {at}: {:?}", conversion.to, names(&place));
        }
        assert!(refused > 8, "{:?}: {refused} of {at}", conversion.to);
    }
}

fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.out()).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.into_string().unwrap()).collect()
}
