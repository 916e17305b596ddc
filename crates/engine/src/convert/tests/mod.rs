//! A conversion that was killed goes on, whenever that was, and gives what it would have given.

mod clones;
mod faulty_writes;
#[cfg(unix)]
mod power_loss;

use super::*;
use crate::execute::Progress;
use crate::resources::Resources;
use crate::source::OpenOptions;
use crate::store::{MemoryStore, Store};
use ckpt_api::{DType, Limits};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A copy of the example checkpoint, and a place for what becomes of it.
pub(super) struct Place(TempDir);

pub(super) type Found = Vec<(String, Vec<u8>)>;

impl Place {
    pub(super) fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.0.path().join("in")).unwrap();
        fs::create_dir(place.0.path().join("out")).unwrap();
        let digits = "examples/data/digits";
        for entry in fs::read_dir(digits).unwrap().map(|entry| entry.unwrap()) {
            fs::copy(entry.path(), place.0.path().join("in").join(entry.file_name())).unwrap();
        }
        place
    }

    pub(super) fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    pub(super) fn source(&self) -> Source {
        let path = self.0.path().join("in");
        Source::open(&Registry::for_tests(), path, &OpenOptions::default()).unwrap()
    }

    fn convert(&self, conversion: &Conversion, progress: Progress) -> Result<Summary> {
        let planned = conversion.plan(&Registry::for_tests(), &self.source(), self.out().join("o"))?;
        planned.execute(&Execution { sync: false, ..Execution::default() }, progress)
    }

    pub(super) fn found(&self) -> Found {
        let entries = fs::read_dir(self.out()).unwrap().map(|entry| entry.unwrap());
        let mut found: Found = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect();
        found.sort();
        found
    }

    pub(super) fn put(&self, files: &Found) {
        fs::remove_dir_all(self.out()).unwrap();
        fs::create_dir(self.out()).unwrap();
        files.iter().for_each(|(name, bytes)| fs::write(self.out().join(name), bytes).unwrap());
    }

    /// What a process would have left that was killed when the n-th piece had been written; and what comes out.
    fn killed(&self, conversion: &Conversion) -> (Vec<Found>, Found, Summary) {
        let left = Mutex::new(Vec::new());
        let summary = self.convert(conversion, &|_| left.lock().unwrap().push(self.found())).unwrap();
        (left.into_inner().unwrap(), self.found(), summary)
    }
}

pub(super) fn to(format: &str, options: &[(&str, &str)]) -> Conversion {
    Conversion {
        to: Some(format.into()),
        options: options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        // An item for every tensor.
        resources: Resources { threads: 1, item_size: 1, ..Resources::default() },
        exclude: vec!["_CHECKPOINTABLE_OBJECT_GRAPH".into()],
        ..Conversion::default()
    }
}

/// Targets with checksums of their own, and without; in one file, and in several; changed, in blocks, and as they were.
fn conversions() -> Vec<Conversion> {
    let narrow = Conversion { dtype: Some(DType::F16), ..to("safetensors", &[]) };
    let quantized = to("gguf", &[("type", "q8_0")]).allow(LossKind::Quantized).allow(LossKind::Narrowed);
    vec![
        to("safetensors", &[]),
        narrow,
        quantized,
        to("npz", &[]),
        to("tf2", &[("shard_size", "4k")]),
        to("tf2", &[]),
    ]
}

pub(super) fn resuming(conversion: &Conversion) -> Conversion {
    Conversion { resume: true, ..conversion.clone() }
}

#[test]
fn whenever_it_was_killed_it_goes_on_and_gives_the_same_bytes_and_nothing_else() {
    for conversion in conversions() {
        let place = Place::new();
        let (left, complete, summary) = place.killed(&conversion);
        assert!(left.len() >= 10, "{}", left.len());
        let mut kept = Vec::new();
        for files in &left {
            place.put(files);
            let resumed = place.convert(&resuming(&conversion), &|_| ()).unwrap();
            assert!(place.found() == complete, "{:?}", conversion.to);
            assert_eq!(resumed.rounding, summary.rounding);
            let resumed = resumed.resumed.unwrap();
            assert_eq!(resumed.anew, None);
            kept.push(resumed.tensors);
        }
        // A tensor is noted after its last piece.
        assert_eq!(kept.first(), Some(&0), "{kept:?}");
        assert!(kept.is_sorted() && *kept.last().unwrap() >= summary.tensors - 3, "{kept:?}");
    }
}

#[test]
fn a_byte_that_is_not_what_was_written_is_written_again() {
    for conversion in conversions() {
        let place = Place::new();
        let (left, complete, summary) = place.killed(&conversion);
        let last = left.last().unwrap();
        place.put(last);
        let undamaged = place.convert(&resuming(&conversion), &|_| ()).unwrap().resumed.unwrap().tensors;
        let mut found = 0;
        for (number, (_, bytes)) in
            last.iter().enumerate().filter(|(_, (name, _))| name.ends_with(".ckpt-tmp"))
        {
            for at in (0..bytes.len()).step_by(bytes.len() / 7 + 1) {
                let mut damaged = last.clone();
                damaged[number].1[at] ^= 0x10;
                place.put(&damaged);
                let resumed = place.convert(&resuming(&conversion), &|_| ()).unwrap();
                assert!(place.found() == complete, "{:?} at {at}", conversion.to);
                found += usize::from(resumed.resumed.unwrap().tensors < undamaged);
            }
        }
        assert!(found > 0 && undamaged < summary.tensors, "{found} {undamaged}");
    }
}

#[test]
fn files_that_are_missing_or_cut_short_are_written_again() {
    let place = Place::new();
    let conversion = to("tf2", &[("shard_size", "4k")]);
    let (left, complete, _) = place.killed(&conversion);
    let last = left.last().unwrap();
    let temporary: Vec<usize> = (0..last.len()).filter(|n| last[*n].0.ends_with(".ckpt-tmp")).collect();
    assert!(temporary.len() > 2);
    for number in temporary {
        let mut without = last.clone();
        without.remove(number);
        place.put(&without);
        place.convert(&resuming(&conversion), &|_| ()).unwrap();
        assert!(place.found() == complete);
        let mut short = last.clone();
        let half = short[number].1.len() / 2;
        short[number].1.truncate(half);
        place.put(&short);
        place.convert(&resuming(&conversion), &|_| ()).unwrap();
        assert!(place.found() == complete);
    }
}

#[test]
fn a_source_that_changed_is_never_mixed_with_what_was_written_before() {
    let conversion = to("safetensors", &[]);
    let place = Place::new();
    let (left, complete, _) = place.killed(&conversion);
    let data = place.0.path().join("in/ckpt-1.data-00000-of-00001");
    place.put(left.last().unwrap());
    // The same bytes, in another file: nobody can tell without reading both.
    let copy = data.with_extension("copy");
    fs::copy(&data, &copy).unwrap();
    fs::rename(&copy, &data).unwrap();
    let resumed = place.convert(&resuming(&conversion), &|_| ()).unwrap().resumed.unwrap();
    assert_eq!((resumed.tensors, resumed.anew.is_some()), (0, true));
    assert!(place.found() == complete);
}

#[test]
fn another_conversion_to_the_same_output_begins_anew() {
    let place = Place::new();
    let (left, _, _) = place.killed(&to("safetensors", &[]));
    let mut others = conversions();
    others[0].exclude.push("adam/*".into());
    for other in others {
        place.put(&Vec::new());
        place.convert(&other, &|_| ()).unwrap();
        let complete = place.found();
        place.put(left.last().unwrap());
        let resumed = place.convert(&resuming(&other), &|_| ()).unwrap().resumed.unwrap();
        assert_eq!((resumed.tensors, resumed.anew.is_some()), (0, true));
        assert!(place.found() == complete, "{:?}", other.to);
    }
}

#[test]
fn without_being_asked_to_go_on_it_begins_anew_and_leaves_nothing_else() {
    for conversion in conversions() {
        let place = Place::new();
        let (left, complete, _) = place.killed(&conversion);
        for files in &left {
            place.put(files);
            let summary = place.convert(&conversion, &|_| ()).unwrap();
            assert_eq!(summary.resumed, None);
            assert!(place.found() == complete, "{:?}", conversion.to);
        }
    }
}

#[test]
fn where_nothing_was_killed_there_is_nothing_to_go_on_with() {
    let place = Place::new();
    let resumed = place.convert(&resuming(&to("npz", &[])), &|_| ()).unwrap().resumed.unwrap();
    assert_eq!((resumed.tensors, resumed.bytes), (0, 0));
    assert!(resumed.anew.is_some());
}

#[test]
fn an_interruption_while_going_on_leaves_nothing() {
    let place = Place::new();
    let conversion = to("safetensors", &[]);
    let (left, _, _) = place.killed(&conversion);
    place.put(left.last().unwrap());
    let registry = Registry::for_tests();
    let source = Source::open(&registry, place.0.path().join("in"), &OpenOptions::default()).unwrap();
    let planned = resuming(&conversion).plan(&registry, &source, place.out().join("o")).unwrap();
    let execution = Execution { canceled: Arc::new(AtomicBool::new(true)), ..Execution::default() };
    assert!(planned.execute(&execution, &|_| ()).unwrap_err().to_string().contains("interrupted"));
    assert!(place.found().is_empty(), "{:?}", place.found().iter().map(|(name, _)| name).collect::<Vec<_>>());
}

#[test]
fn a_commit_that_is_interrupted_leaves_what_was_written_for_the_next() {
    let (place, conversion) = (Place::new(), to("safetensors", &[]));
    place.convert(&conversion, &|_| ()).unwrap();
    let complete = place.found();
    place.put(&Vec::new());
    let planned = conversion.plan(&Registry::for_tests(), &place.source(), place.out().join("o")).unwrap();
    let execution = Execution { sync: false, ..Execution::default() };
    let receipts = Mutex::new(Vec::new());
    let keep = |receipt: &ItemReceipt| {
        receipts.lock().unwrap().push(receipt.clone());
        Ok(())
    };
    planned.run_items(0..planned.plan().items().len(), &[], &execution, &|_| (), &keep).unwrap();
    let receipts = receipts.into_inner().unwrap();
    let canceled = Execution { canceled: Arc::new(AtomicBool::new(true)), ..Execution::default() };
    let error = planned.commit(&receipts, &Commit::default(), &canceled).unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    planned.commit(&receipts, &Commit::default(), &execution).unwrap();
    assert!(place.found() == complete);
}

#[test]
fn receipts_of_items_lie_in_any_store() {
    let (place, conversion) = (Place::new(), to("safetensors", &[]));
    let output = MemoryStore::new().at("o");
    let planned = conversion.plan(&Registry::for_tests(), &place.source(), output).unwrap();
    let (execution, store) = (Execution::default(), MemoryStore::new());
    let items = planned.plan().items().len();
    planned.run_items(0..items, &[], &execution, &|_| (), &|receipt| receipt.save(&store)).unwrap();
    assert_eq!(store.names().len(), items);
    let plan = planned.plan().sha256().unwrap();
    let load = |plan| ItemReceipt::load_all(Arc::new(store.clone()), plan, &Limits::default());
    let receipts = load(&plan).unwrap();
    assert!(receipts.iter().map(|receipt| receipt.item).eq(0..items));
    assert_eq!(load(&[0; 32]).unwrap(), []);
    let malformed = ItemReceipt { plan: receipts[0].plan.to_uppercase(), ..receipts[0].clone() };
    store.replace(&receipts[0].file_name(), &serde_json::to_vec(&malformed).unwrap()).unwrap();
    assert_eq!(load(&plan).unwrap_err().kind(), ckpt_api::Kind::Corrupt);
    planned.commit(&receipts, &Commit::default(), &execution).unwrap();
}

#[test]
fn a_source_that_is_changed_while_it_is_read_leaves_nothing() {
    let data = "ckpt-1.data-00000-of-00001";
    let write: fn(&Path) = |path| {
        let bytes = fs::read(path).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(path, bytes).unwrap();
    };
    let replace: fn(&Path) = |path| {
        let other = path.with_extension("other");
        fs::copy(path, &other).unwrap();
        fs::rename(other, path).unwrap();
    };
    let remove: fn(&Path) = |path| fs::remove_file(path).unwrap();
    for change in [write, replace, remove] {
        let place = Place::new();
        let once = std::sync::Once::new();
        let path = place.0.path().join("in").join(data);
        let error =
            place.convert(&to("safetensors", &[]), &|_| once.call_once(|| change(&path))).unwrap_err();
        assert_eq!(error.kind(), ckpt_api::Kind::Io);
        assert!(error.to_string().contains("changed while it was being read"), "{error}");
        assert_eq!(place.found(), []);
    }
}
