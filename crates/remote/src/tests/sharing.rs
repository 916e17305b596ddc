//! Outputs that several processes write: here, stages of several stores of one address, which know nothing of each other.

use super::super::RemoteStore;
use super::super::client::Uploading;
use super::super::options::RemoteOptions;
use super::super::runtime;
use super::super::sender::SMALLEST_PART;
use super::{content, directory};
use crate::LeftoverKind;
use ckpt_api::{Error, FileId, Kind, OutputFile, ReadStore, Result};
use ckpt_engine::store::{Earlier, Stage, StageMode, StageRequest, Store};
use object_store::{ObjectStoreExt, PutPayload};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Bytes of a part.
const PART: usize = SMALLEST_PART as usize;

/// Bytes that differ from one another wherever they are.
fn bytes(len: usize) -> Vec<u8> {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| super::bytes(3 * PART))[..len].to_vec()
}

/// The store of one process.
fn process(name: &str) -> RemoteStore {
    directory(&format!("memory://shared-{name}/out/"), RemoteOptions::new()).unwrap()
}

fn request<'a>(files: &'a [OutputFile], mode: StageMode) -> StageRequest<'a> {
    StageRequest::new("m", files).key([7; 32]).mode(mode).reread(false)
}

fn shared(name: &str, files: &[OutputFile]) -> Box<dyn Stage> {
    process(name).stage(&request(files, StageMode::Shared)).unwrap()
}

fn existing(name: &str, files: &[OutputFile]) -> Result<Box<dyn Stage>> {
    process(name).stage(&request(files, StageMode::Existing))
}

fn write(stage: &dyn Stage, file: usize, whole: &[u8], range: Range<usize>) {
    stage.file(FileId(file)).unwrap().write_at(range.start as u64, &whole[range]).unwrap();
}

/// All keys of the store, those of stagings, too.
fn keys(name: &str) -> Vec<String> {
    let objects = process(name).0.client.objects.clone();
    let list = async move { futures_util::StreamExt::collect::<Vec<_>>(objects.list(None)).await };
    let mut keys: Vec<String> =
        runtime::wait(list).unwrap().into_iter().map(|meta| meta.unwrap().location.to_string()).collect();
    keys.sort();
    keys
}

/// The object of the staging with this name, or the one whose name begins so.
fn staged(name: &str, object: &str) -> String {
    let found = keys(name).into_iter().find(|key| key.starts_with("out/.ckpt-") && key.contains(object));
    found.unwrap().strip_prefix("out/").unwrap().to_owned()
}

fn remove(name: &str, object: &str) {
    let store = process(name);
    let (writer, key) = (store.writer().unwrap(), store.key(object).unwrap());
    runtime::wait(async move { writer.delete(&key).await }).unwrap().unwrap();
}

/// The uploads that the staging names.
fn uploads(name: &str) -> Vec<String> {
    let text = content(&process(name), &staged(name, "staging.json")).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let files = header["files"].as_array().unwrap().iter();
    files.filter_map(|file| file["upload"].as_str().map(str::to_owned)).collect()
}

/// Whether an upload takes parts.
fn is_open(name: &str, upload: &str) -> bool {
    let store = process(name);
    let (writer, key): (Arc<dyn Uploading>, _) = (store.writer().unwrap(), store.key("a").unwrap());
    let upload = upload.to_owned();
    runtime::wait(async move { writer.put_part(&key, &upload, 0, PutPayload::new()).await }).unwrap().is_ok()
}

/// Two parts and a half, and a small file.
fn output() -> ([OutputFile; 2], Vec<u8>) {
    let whole = bytes(2 * PART + PART / 2);
    ([OutputFile::new("a", whole.len() as u64), OutputFile::new("index", 5)], whole)
}

/// Writes all of it by two stages, whose border is within a part.
fn write_all(name: &str) -> ([OutputFile; 2], Vec<u8>) {
    let (files, whole) = output();
    let stages = [shared(name, &files), shared(name, &files)];
    write(&*stages[0], 0, &whole, 0..PART + 100);
    write(&*stages[1], 0, &whole, PART + 100..whole.len());
    write(&*stages[1], 1, b"index", 0..5);
    stages.iter().for_each(|stage| stage.sync().unwrap());
    (files, whole)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn whatever_processes_write_in_whatever_order_the_bytes_are_those_of_one(
        cuts in prop::collection::vec(1..3 * PART, 1..12),
        owners in prop::collection::vec(0usize..3, 13),
        repeated in prop::collection::vec(any::<bool>(), 13),
        seed in any::<u64>(),
    ) {
        let name = format!("random-{seed}");
        let whole = bytes(3 * PART - 1000);
        let files = [OutputFile::new("a", whole.len() as u64)];
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).chain([0, whole.len()]).collect();
        cuts.sort_unstable();
        let ranges: Vec<Range<usize>> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
        std::thread::scope(|scope| {
            for process in 0..3 {
                let (name, files, whole, ranges) = (&name, &files, &whole, &ranges);
                let (owners, repeated) = (&owners, &repeated);
                scope.spawn(move || {
                    let stage = shared(name, files);
                    for (number, range) in ranges.iter().enumerate().rev() {
                        if owners[number] == process || (repeated[number] && process == 2) {
                            write(&*stage, 0, whole, range.clone());
                            if number % 2 == 0 {
                                stage.sync().unwrap();
                            }
                        }
                    }
                    stage.sync().unwrap();
                });
            }
        });
        let stage = existing(&name, &files).unwrap();
        prop_assert!(stage.holds(FileId(0), 0..whole.len() as u64));
        stage.commit(true).unwrap();
        prop_assert!(content(&process(&name), "a").unwrap() == whole);
        prop_assert_eq!(keys(&name), ["out/a"]);
    }
}

#[test]
fn what_a_commit_writes_lies_over_what_items_wrote_and_gaps_are_zeros() {
    let whole = bytes(PART + 1000);
    let files = [OutputFile::new("a", whole.len() as u64), OutputFile::new("s", 100)];
    let stage = shared("literals", &files);
    write(&*stage, 0, &whole, 8..PART - 10);
    write(&*stage, 0, &whole, PART + 10..PART + 1000);
    write(&*stage, 1, &whole, 10..20);
    stage.sync().unwrap();
    drop(stage);
    let stage = existing("literals", &files).unwrap();
    assert!(!stage.holds(FileId(0), 7..9) && stage.holds(FileId(0), 8..PART as u64 - 10));
    stage.file(FileId(0)).unwrap().write_at(0, b"header, longer").unwrap();
    stage.file(FileId(1)).unwrap().write_at(0, b"header").unwrap();
    stage.sync().unwrap();
    stage.commit(true).unwrap();
    let mut expected = whole.clone();
    expected[..14].copy_from_slice(b"header, longer");
    expected[PART - 10..PART + 10].fill(0);
    assert!(content(&process("literals"), "a").unwrap() == expected);
    let mut expected = vec![0; 100];
    expected[..6].copy_from_slice(b"header");
    expected[10..20].copy_from_slice(&whole[10..20]);
    assert_eq!(content(&process("literals"), "s").unwrap(), expected);
}

#[test]
fn one_of_many_that_come_at_once_begins_the_output_and_the_others_join() {
    let (files, _) = output();
    let tokens: Vec<u64> = std::thread::scope(|scope| {
        let begin = || shared("race", &files).token();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    assert_eq!(keys("race").len(), 1);
    assert_eq!(shared("race", &files).earlier(), Earlier::Kept);
    assert!(is_open("race", &uploads("race")[0]));
    let uploads: Vec<u32> = uploads("race").iter().map(|upload| upload.parse().unwrap()).collect();
    let is_left = |upload: &u32| !uploads.contains(upload) && is_open("race", &upload.to_string());
    assert!(!(0..40).any(|upload| is_left(&upload)), "the losers' uploads are aborted");
}

#[test]
fn nothing_has_a_name_before_the_commit_and_nothing_is_left_after_it() {
    let (files, whole) = write_all("names");
    assert_eq!(process("names").list("", 9).unwrap(), [""; 0]);
    let committed = existing("names", &files).unwrap().commit(true).unwrap();
    assert_eq!(committed.names, ["memory://shared-names/out/a", "memory://shared-names/out/index"]);
    assert!(committed.left.is_empty());
    assert_eq!(keys("names"), ["out/a", "out/index"]);
    assert!(content(&process("names"), "a").unwrap() == whole);
    assert_eq!(existing("names", &files).unwrap_err().message(), "the output exists");
    let again = process("names").stage(&request(&files, StageMode::Shared)).unwrap_err();
    assert_eq!(again.message(), "the output exists");
}

#[test]
fn what_a_killed_process_did_not_tell_is_missing_until_another_writes_it() {
    let (files, whole) = output();
    let killed = shared("killed", &files);
    write(&*killed, 0, &whole, 0..PART + 100);
    drop(killed);
    let other = shared("killed", &files);
    write(&*other, 0, &whole, PART + 100..whole.len());
    write(&*other, 1, b"index", 0..5);
    other.sync().unwrap();
    let stage = existing("killed", &files).unwrap();
    assert!(!stage.holds(FileId(0), 0..10) && stage.holds(FileId(0), PART as u64 + 100..whole.len() as u64));
    drop(stage);
    write(&*other, 0, &whole, 0..PART + 100);
    other.sync().unwrap();
    existing("killed", &files).unwrap().commit(true).unwrap();
    assert!(content(&process("killed"), "a").unwrap() == whole);
}

#[test]
fn discarding_leaves_no_object_and_no_upload() {
    let (files, _) = write_all("discarded");
    let uploads = uploads("discarded");
    assert!(keys("discarded").len() > 3 && uploads.iter().all(|upload| is_open("discarded", upload)));
    assert_eq!(existing("discarded", &files).unwrap().discard(), [""; 0]);
    assert_eq!(keys("discarded"), [""; 0]);
    assert!(!uploads.iter().any(|upload| is_open("discarded", upload)));
}

#[test]
fn a_process_that_goes_on_after_the_output_was_discarded_is_refused_and_leaves_nothing() {
    let (files, _) = output();
    let stage = shared("late", &files);
    write(&*stage, 1, b"index", 0..5);
    existing("late", &files).unwrap().discard();
    let error = stage.sync().unwrap_err();
    assert_eq!(error.message(), "the output was committed or discarded while its items were being run");
    assert_eq!(keys("late"), [""; 0]);
    let anew = shared("late", &files);
    assert!(anew.token() != stage.token() && stage.sync().is_err());
    assert_eq!(keys("late").len(), 1);
}

#[test]
fn another_plan_of_the_same_output_is_refused() {
    let (files, _) = write_all("plans");
    let other = |mode| request(&files, mode).key([8; 32]);
    let error = process("plans").stage(&other(StageMode::Shared)).unwrap_err();
    assert_eq!(error.message(), "the items of another plan have written this output");
    let error = process("plans").stage(&other(StageMode::Existing)).unwrap_err();
    assert_eq!(error.message(), "no item of this plan has written anything yet");
    existing("plans", &files).unwrap().discard();
    process("plans").stage(&other(StageMode::Shared)).unwrap();
}

#[test]
fn a_commit_that_another_writer_stops_goes_on_when_the_name_is_free() {
    let (files, whole) = write_all("stopped");
    let stage = existing("stopped", &files).unwrap();
    stage.sync().unwrap();
    // Comes after the last look: `a` gets its name, the index does not.
    let writer = process("stopped");
    let (client, key) = (writer.writer().unwrap(), writer.key("index").unwrap());
    let header = content(&writer, &staged("stopped", "staging.json")).unwrap();
    let naming = "[null,null]";
    let path = staged("stopped", "staging.json").replace("staging", "naming");
    writer.replace(&path, naming.as_bytes()).unwrap();
    runtime::wait(async move { client.put(&key, PutPayload::from_static(b"other")).await }).unwrap().unwrap();
    let error = stage.commit(true).unwrap_err();
    assert_eq!(
        (error.kind(), error.context().file),
        (Kind::Usage, Some("memory://shared-stopped/out/index"))
    );
    assert!(keys("stopped").contains(&"out/a".to_owned()));
    writer.forget();
    assert!(content(&writer, &staged("stopped", "staging.json")).unwrap() == header);
    remove("stopped", "index");
    existing("stopped", &files).unwrap().commit(true).unwrap();
    assert_eq!(keys("stopped"), ["out/a", "out/index"]);
    assert!(content(&process("stopped"), "a").unwrap() == whole);
    assert_eq!(content(&process("stopped"), "index").unwrap(), b"index");
}

#[test]
fn what_an_interrupted_commit_named_is_taken_back_when_the_output_is_discarded() {
    let (files, _) = write_all("back");
    let path = staged("back", "staging.json").replace("staging", "naming");
    process("back").replace(&path, b"[null,null]").unwrap();
    process("back").replace("index", b"long index").unwrap();
    assert!(existing("back", &files).unwrap_err().context().help.unwrap().contains("another writer"));
    remove("back", "index");
    // As if it had been completed.
    process("back").replace("a", &bytes(2 * PART + PART / 2)).unwrap();
    existing("back", &files).unwrap().discard();
    assert_eq!(keys("back"), [""; 0]);
}

#[test]
fn a_commit_that_was_killed_while_it_cleaned_up_is_finished_by_the_next() {
    let (files, whole) = write_all("cleaning");
    let header = content(&process("cleaning"), &staged("cleaning", "staging.json")).unwrap();
    let path = staged("cleaning", "staging.json");
    existing("cleaning", &files).unwrap().commit(true).unwrap();
    process("cleaning").replace(&path, &header).unwrap();
    process("cleaning").replace(&path.replace("staging", "naming"), b"[null,null]").unwrap();
    let stage = existing("cleaning", &files).unwrap();
    assert!(stage.holds(FileId(0), 0..9));
    stage.file(FileId(0)).unwrap().write_at(0, b"header").unwrap();
    stage.sync().unwrap();
    stage.commit(true).unwrap();
    assert_eq!(keys("cleaning"), ["out/a", "out/index"]);
    assert!(content(&process("cleaning"), "a").unwrap() == whole);
}

#[test]
fn an_old_output_is_replaced_only_by_a_commit_that_may() {
    let (files, whole) = write_all("replaced");
    for name in ["a", "index"] {
        process("replaced").replace(name, b"old").unwrap();
    }
    assert_eq!(existing("replaced", &files).unwrap_err().message(), "the output exists");
    let overwriting = request(&files, StageMode::Existing).overwrite(true);
    process("replaced").stage(&overwriting).unwrap().commit(true).unwrap();
    assert!(content(&process("replaced"), "a").unwrap() == whole);
    assert_eq!(content(&process("replaced"), "index").unwrap(), b"index");
}

#[test]
fn an_output_of_several_processes_says_that_it_cannot_be_read_before_it_has_its_name() {
    let (files, _) = write_all("reread");
    let rereading = request(&files, StageMode::Existing).reread(true);
    assert!(!process("reread").stage(&rereading).unwrap().is_readable());
    let alone = rereading.mode(StageMode::Fresh);
    assert!(process("reread").stage(&alone).unwrap().is_readable());
    process("reread").replace("r.json", b"old").unwrap();
    let receipt = request(&files, StageMode::Existing).attachment("memory://shared-reread/out/r.json");
    assert_eq!(process("reread").stage(&receipt).unwrap_err().message(), "the receipt exists");
}

/// The directories that were left in the store of this name, and what of it is theirs.
fn left(address: &str) -> Vec<crate::Leftover> {
    crate::leftovers(address).unwrap().found
}

#[test]
fn a_staging_directory_that_nobody_commits_is_found_and_removed_with_its_uploads() {
    let (_, _) = write_all("left");
    let (files, _) = write_all("left-too");
    let uploads = uploads("left");
    let found = left("memory://shared-left/");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind(), LeftoverKind::Staging);
    assert_eq!(
        found[0].address(),
        format!("memory://shared-left/{}", keys("left")[0].rsplit_once('/').unwrap().0) + "/"
    );
    assert!(found[0].age().unwrap().as_secs() < 600 && found[0].changed().ends_with('Z'), "{found:?}");
    found[0].remove().unwrap();
    assert_eq!(keys("left"), [""; 0]);
    assert!(uploads.len() == 1 && !is_open("left", &uploads[0]));
    assert!(left("memory://shared-left/").is_empty());
    existing("left-too", &files).unwrap().commit(true).unwrap();
}

#[test]
fn a_staging_directory_is_left_of_outputs_whose_addresses_begin_as_given() {
    write_all("begins");
    let all = ["memory://shared-begins", "memory://shared-begins/out/", "memory://shared-begins/out/.ckpt-"];
    let none =
        ["memory://shared-begins/other/", "memory://shared-begins/out/a", "memory://shared-begins/ou/"];
    assert!(all.iter().all(|address| left(address).len() == 1));
    assert!(none.iter().all(|address| left(address).is_empty()));
    let files = [OutputFile::new("m.npz", 5)];
    shared("begins-as", &files);
    for (address, count) in [("m", 1), ("m.npz", 1), ("m.npz.x", 0), ("n", 0)] {
        assert_eq!(left(&format!("memory://shared-begins-as/out/{address}")).len(), count, "{address}");
    }
    // Nobody can tell any more what it is about.
    let header = staged("begins-as", "staging.json");
    process("begins-as").replace(&header, b"{}").unwrap();
    assert!(left("memory://shared-begins-as/out/m").is_empty());
    left("memory://shared-begins-as/out/")[0].remove().unwrap();
    assert_eq!(keys("begins-as"), [""; 0]);
}

#[test]
fn plans_and_receipts_of_conversions_from_python_are_left_too() {
    let store = process("planned");
    let receipt = |item: usize| format!(".m.npz.ckpt-staging/receipts/012345678901-{item:08}.receipt.json");
    store.replace(".m.npz.ckpt-staging/plan-0123456789abcdef.gz", b"plan").unwrap();
    (0..3).for_each(|item| store.replace(&receipt(item), b"{}").unwrap());
    store.replace("m.npz.notes", b"somebody's").unwrap();
    let found = left("memory://shared-planned/out/m");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].address(), "memory://shared-planned/out/.m.npz.ckpt-staging/");
    assert!(left("memory://shared-planned/out/n").is_empty());
    found[0].remove().unwrap();
    assert_eq!(keys("planned"), ["out/m.npz.notes"]);
}

#[test]
fn bytes_that_vanish_are_an_error_and_never_zeros() {
    let (files, _) = write_all("vanished");
    let object = staged("vanished", "bytes-");
    remove("vanished", &object);
    let error = existing("vanished", &files).unwrap().commit(true).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    process("vanished").replace(&object, b"short").unwrap();
    let error = existing("vanished", &files).unwrap().commit(true).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(process("vanished").list("", 9).unwrap().is_empty());
}

/// What comes of committing an output one of whose objects has this text instead.
fn committed_with(name: &str, object: &str, change: impl Fn(&str) -> String) -> Error {
    let (files, _) = write_all(name);
    let object = staged(name, object);
    let text = String::from_utf8(content(&process(name), &object).unwrap()).unwrap();
    process(name).replace(&object, change(&text).as_bytes()).unwrap();
    existing(name, &files).and_then(|stage| stage.commit(true)).unwrap_err()
}

#[test]
fn what_processes_told_each_other_is_checked() {
    let changes: [(&str, &str, &str); 9] = [
        ("staging.json", "{\"version\":1", "{\"version\":2"),
        ("staging.json", "\"files\":", "\"filez\":"),
        ("wrote-", "{\"version\":1", "{\"version\":7"),
        ("wrote-", "\"parts\":[", "\"parts\":[[0,99,\"x\"],"),
        ("wrote-", "\"parts\":[", "\"parts\":[[1,0,\"x\"],"),
        ("wrote-", "\"parts\":[", "\"parts\":[[18446744073709551615,18446744073709551615,\"x\"],"),
        ("wrote-", "\"packs\":[", "\"packs\":[[[0,18446744073709551615,3]],"),
        ("wrote-", "\"packs\":[", "\"packs\":[[[1,4,2]],"),
        ("wrote-", "\"packs\":[", "\"packs\":[[[9,0,1]],"),
    ];
    for (number, (object, from, to)) in changes.into_iter().enumerate() {
        let error = committed_with(&format!("told-{number}"), object, |text| {
            assert!(text.contains(from), "{text}");
            text.replacen(from, to, 1)
        });
        assert_eq!(error.kind(), Kind::Corrupt, "{to}: {error}");
        assert!(error.context().file.is_some_and(|file| file.contains(object)), "{error}");
    }
    let (files, _) = write_all("told-names");
    let path = staged("told-names", "staging.json").replace("staging", "naming");
    process("told-names").replace(&path, b"[null]").unwrap();
    assert_eq!(existing("told-names", &files).unwrap_err().kind(), Kind::Corrupt);
}
