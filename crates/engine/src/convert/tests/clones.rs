//! Outputs that share blocks with their source.

use super::super::*;
use super::{Found, Place, resuming, to};
use crate::digest::digest;
use crate::plan::Cloning;
use crate::resources::Resources;
use crate::store::{Disk, LocalStore, MemoryStore, Os};
use ckpt_api::{DType, FileId, ReadAt};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// No tensor ends where a block does.
const BLOCK: u64 = 104;

/// A disk that shares blocks, by copying them.
#[derive(Debug, Default)]
struct Sharing {
    /// Whether it fails to, in spite of what it promised.
    fails: bool,
    /// Whether the bytes that it shares are others.
    lies: bool,
    /// Whether the next write goes wrong, and nobody notices.
    damages: AtomicBool,
    /// Bytes that were shared.
    shared: AtomicU64,
}

impl Disk for Sharing {
    fn clone_block(&self, _: &File, _: &Path) -> Option<NonZeroU64> {
        NonZeroU64::new(BLOCK)
    }

    fn clone_range(&self, source: &File, start: u64, file: &File, range: Range<u64>) -> io::Result<()> {
        if self.fails {
            return Err(io::ErrorKind::Unsupported.into());
        }
        for edge in [start, range.start, range.end] {
            assert_eq!(edge % BLOCK, 0, "only whole blocks can be shared");
        }
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
        ckpt_api::read_exact_at(source, start, &mut bytes)?;
        self.shared.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        bytes[0] ^= u8::from(self.lies);
        assert_eq!(Os.write_at(file, range.start, &bytes)?, bytes.len());
        Ok(())
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        // Not the journal, which is shorter.
        if file.metadata()?.len() > 16 << 10 && self.damages.swap(false, Ordering::SeqCst) {
            bytes[0] ^= 1;
        }
        Os.write_at(file, offset, &bytes)
    }
}

/// A source of matrices alone: they are side by side, in the order in which every format stores them.
fn matrices() -> Place {
    let place = Place::new();
    let conversion =
        to("tf2", &[("state", "true")]).include("**hidden**kernel**").clone_blocks(Cloning::Never);
    place.convert(&conversion, &|_| ()).unwrap();
    std::fs::remove_dir_all(place.0.path().join("in")).unwrap();
    std::fs::rename(place.out(), place.0.path().join("in")).unwrap();
    std::fs::create_dir(place.out()).unwrap();
    place
}

/// A conversion on such a disk.
fn planned(place: &Place, conversion: &Conversion, disk: &Arc<Sharing>) -> Result<Planned> {
    let store = LocalStore::on(disk.clone(), place.out());
    conversion.plan(&Registry::for_tests(), &place.source(), Destination::within(Arc::new(store), "o"))
}

fn convert(place: &Place, conversion: &Conversion, disk: &Arc<Sharing>) -> Result<Summary> {
    let execution = Execution { sync: false, ..Execution::default() };
    planned(place, conversion, disk)?.execute(&execution, &|_| ())
}

/// With one item for all tensors that are side by side.
fn whole(format: &str) -> Conversion {
    let resources = Resources { threads: 1, item_size: 1 << 20, ..Resources::default() };
    Conversion { resources, ..to(format, &[]) }
}

fn found_without_sharing(conversion: &Conversion) -> Found {
    let place = matrices();
    place.convert(&conversion.clone().clone_blocks(Cloning::Never), &|_| ()).unwrap();
    place.found()
}

#[test]
fn what_is_shared_is_what_the_plan_says_and_the_output_holds_the_same_tensors() {
    for conversion in [whole("safetensors"), to("safetensors", &[]), whole("tf2")] {
        let (place, disk) = (matrices(), Arc::new(Sharing::default()));
        let expected = planned(&place, &conversion, &disk).unwrap().plan().cloned_bytes();
        let summary = convert(&place, &conversion, &disk).unwrap();
        let shared = disk.shared.load(Ordering::SeqCst);
        assert!(shared > summary.bytes / 2, "{shared} of {}", summary.bytes);
        assert_eq!((shared, shared), (expected, summary.cloned));
        let output = Source::open(&Registry::for_tests(), place.out().join("o"), &OpenOptions::default());
        let copied = matrices();
        copied.convert(&conversion, &|_| ()).unwrap();
        let other = Source::open(&Registry::for_tests(), copied.out().join("o"), &OpenOptions::default());
        assert_eq!(digest(&output.unwrap(), 1).unwrap(), digest(&other.unwrap(), 1).unwrap());
    }
}

#[test]
fn tensors_that_follow_each_other_are_shared_as_one_run_that_the_header_leads_to() {
    let (place, disk) = (matrices(), Arc::new(Sharing::default()));
    let planned = planned(&place, &whole("safetensors"), &disk).unwrap();
    let (cloned, all) = (planned.plan().cloned_bytes(), planned.plan().bytes_written);
    assert!(cloned < all && all < cloned + 2 * BLOCK, "{cloned} of {all}");
    let plan: serde_json::Value = serde_json::from_str(&planned.plan().to_json().unwrap()).unwrap();
    assert_eq!(plan["estimate"]["cloned"], cloned);
}

#[test]
fn what_cannot_be_shared_after_all_is_copied_unless_it_must_be_shared() {
    let conversion = to("safetensors", &[]);
    let (place, disk) = (matrices(), Arc::new(Sharing::default()));
    convert(&place, &conversion, &disk).unwrap();
    let shared = place.found();
    let failing = Arc::new(Sharing { fails: true, ..Sharing::default() });
    let place = matrices();
    assert_eq!(convert(&place, &conversion, &failing).unwrap().cloned, 0);
    assert!(place.found() == shared);

    let place = matrices();
    let always = conversion.clone_blocks(Cloning::Always);
    let error = convert(&place, &always, &failing).unwrap_err();
    assert!(error.to_string().contains("share blocks"), "{error}");
    assert_eq!(place.found(), Found::new());
}

#[test]
fn never_is_what_a_file_system_does_that_shares_nothing() {
    let conversion = to("safetensors", &[]).clone_blocks(Cloning::Never);
    let (place, disk) = (matrices(), Arc::new(Sharing::default()));
    assert_eq!(convert(&place, &conversion, &disk).unwrap().cloned, 0);
    assert!(place.found() == found_without_sharing(&conversion));
}

#[test]
fn always_refuses_the_first_tensor_that_cannot_be_shared_and_a_place_that_shares_nothing() {
    let (place, disk) = (matrices(), Arc::new(Sharing::default()));
    let narrow = to("safetensors", &[]).dtype(DType::F16).clone_blocks(Cloning::Always);
    let error = planned(&place, &narrow, &disk).unwrap_err();
    assert!(error.context().tensor.is_some(), "{error}");
    assert!(error.to_string().contains("its bytes change"), "{error}");

    let elsewhere = MemoryStore::new();
    let always = to("safetensors", &[]).clone_blocks(Cloning::Always);
    let error = always.plan(&Registry::for_tests(), &place.source(), elsewhere.at("o")).unwrap_err();
    assert!(error.to_string().contains("XFS"), "{error}");
}

#[test]
fn checksums_are_compared_unless_they_are_to_be_left_alone() {
    for (disk, shares) in [(Sharing::default(), true), (Sharing { fails: true, ..Sharing::default() }, false)]
    {
        let (place, disk) = (matrices(), Arc::new(disk));
        let sound = found_without_sharing(&whole("safetensors"));
        damage_data(&place);
        let conversion = whole("safetensors");
        assert_eq!(convert(&place, &conversion, &disk).unwrap_err().kind(), Kind::Corrupt);
        let summary = convert(&place, &conversion.unchecked(true), &disk).unwrap();
        assert_eq!((summary.unchecked, summary.cloned > 0), (true, shares));
        assert_eq!(place.found().len(), sound.len());
    }
}

/// Changes a byte of a tensor of the source.
fn damage_data(place: &Place) {
    let source = place.source();
    let large = source.contents().placements.iter().flat_map(|placement| &placement.extents);
    let extent = large.max_by_key(|extent| extent.len).unwrap();
    let FileId(file) = extent.file;
    let path = place.0.path().join("in").join(&source.contents().files[file]);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let at = extent.offset + extent.len / 2;
    let mut byte = [0];
    ckpt_api::read_exact_at(&file, at, &mut byte).unwrap();
    assert_eq!(Os.write_at(&file, at, &[byte[0] ^ 1]).unwrap(), 1);
    assert!(file.as_file().is_some());
}

#[test]
fn a_killed_conversion_goes_on_with_shared_blocks_and_gives_the_same_bytes() {
    let conversion = to("safetensors", &[]);
    let (place, disk) = (matrices(), Arc::new(Sharing::default()));
    let left = std::sync::Mutex::new(Vec::new());
    let summary = planned(&place, &conversion, &disk)
        .unwrap()
        .execute(&Execution { sync: false, ..Execution::default() }, &|_| {
            left.lock().unwrap().push(place.found());
        })
        .unwrap();
    let (complete, left) = (place.found(), left.into_inner().unwrap());
    assert!(left.len() >= 3, "{}", left.len());
    for files in &left {
        place.put(files);
        let resumed = convert(&place, &resuming(&conversion), &disk).unwrap();
        assert!(place.found() == complete);
        assert_eq!((resumed.resumed.unwrap().anew, resumed.cloned), (None, summary.cloned));
    }
}

#[test]
fn an_unchecked_conversion_keeps_nothing_of_a_killed_one() {
    let conversion = to("safetensors", &[]).unchecked(true);
    let place = matrices();
    let (left, complete, _) = place.killed(&conversion);
    place.put(left.last().unwrap());
    let resumed = place.convert(&resuming(&conversion), &|_| ()).unwrap();
    assert_eq!(resumed.resumed.unwrap().tensors, 0);
    assert!(place.found() == complete);
}

#[test]
fn verifying_finds_blocks_that_are_not_the_sources() {
    for format in ["safetensors", "tf2"] {
        let (place, disk) = (matrices(), Arc::new(Sharing { lies: true, ..Sharing::default() }));
        let error = convert(&place, &whole(format).verify(true), &disk).unwrap_err();
        assert!(matches!(error.kind(), Kind::Mismatch | Kind::Corrupt), "{format}: {error}");
        assert_eq!(place.found(), Found::new());
    }
}

#[test]
fn verifying_finds_a_byte_that_was_written_wrongly_shared_blocks_or_not() {
    for cloning in [Cloning::Auto, Cloning::Never] {
        for format in ["safetensors", "tf2"] {
            let conversion = whole(format).verify(true).clone_blocks(cloning);
            let (place, disk) = (matrices(), Arc::new(Sharing::default()));
            let summary = convert(&place, &conversion, &disk).unwrap();
            let verification = summary.verification.unwrap();
            assert_eq!(verification.equal, summary.tensors);
            let place = matrices();
            let damaging = Sharing { damages: AtomicBool::new(true), ..Sharing::default() };
            let error = convert(&place, &conversion, &Arc::new(damaging)).unwrap_err();
            // A format that has checksums finds it itself.
            assert!(matches!(error.kind(), Kind::Mismatch | Kind::Corrupt), "{cloning:?} {format}: {error}");
            assert!(error.context().tensor.is_some(), "{error}");
            assert_eq!(place.found(), Found::new());
        }
    }
}
