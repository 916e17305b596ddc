//! Writing: parts in any order, names in order, nothing of what is given up.

use super::super::options::RemoteOptions;
use super::super::sender::SMALLEST_PART;
use super::super::{RemoteAddresses, RemoteStore};
use super::{bytes, content, directory};
use ckpt_api::{FileId, Kind, OutputFile, ReadStore, read_exact_at};
use ckpt_engine::store::{AddressOpener, Earlier, Stage, StageRequest, Store, remove_files};

fn store(name: &str) -> RemoteStore {
    directory(&format!("memory://{name}/out/"), RemoteOptions::new()).unwrap()
}

fn write(stage: &dyn Stage, file: usize, offset: u64, bytes: &[u8]) {
    stage.file(FileId(file)).unwrap().write_at(offset, bytes).unwrap();
}

fn names(store: &RemoteStore) -> Vec<String> {
    let mut names = store.list("", 99).unwrap();
    names.sort();
    names
}

#[test]
fn parts_are_written_by_several_threads_in_any_order_and_gaps_are_zeros() {
    for reread in [true, false] {
        let store = store(&format!("parts-{reread}"));
        let mut whole = bytes(2 * SMALLEST_PART as usize + 5000);
        let gap = SMALLEST_PART as usize + 100..SMALLEST_PART as usize + 200;
        whole[gap.clone()].fill(0);
        let files = [OutputFile::new("m", whole.len() as u64)];
        let stage = store.stage(&StageRequest::new("m", &files).reread(reread)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (stage, whole, gap) = (&*stage, &whole, gap.clone());
                scope.spawn(move || {
                    let starts: Vec<usize> = (0..whole.len()).step_by(1 << 20).collect();
                    for start in starts.into_iter().rev().filter(|start| (start >> 20) % 3 == thread) {
                        let end = whole.len().min(start + (1 << 20));
                        if start < gap.start && gap.end < end {
                            write(stage, 0, start as u64, &whole[start..gap.start]);
                            write(stage, 0, gap.end as u64, &whole[gap.end..end]);
                        } else {
                            write(stage, 0, start as u64, &whole[start..end]);
                        }
                    }
                });
            }
        });
        assert_eq!(stage.bytes().unwrap(), whole.len() as u64);
        assert!(names(&store).is_empty());
        stage.sync().unwrap();
        assert!(names(&store).is_empty());
        if reread {
            let mut back = vec![0; whole.len()];
            read_exact_at(&*stage.open(FileId(0)).unwrap(), 0, &mut back).unwrap();
            assert!(back == whole);
        }
        let committed = stage.commit(true).unwrap();
        assert_eq!(committed.names, [format!("memory://parts-{reread}/out/m")]);
        assert!(content(&store, "m").unwrap() == whole);
    }
}

#[test]
fn a_part_that_is_written_again_is_sent_again() {
    let store = store("again");
    let len = SMALLEST_PART as usize + 10;
    let files = [OutputFile::new("m", len as u64)];
    let stage = store.stage(&StageRequest::new("m", &files)).unwrap();
    write(&*stage, 0, 0, &vec![1; len]);
    stage.sync().unwrap();
    write(&*stage, 0, 3, b"header");
    stage.commit(true).unwrap();
    let found = content(&store, "m").unwrap();
    assert_eq!((&found[..10], found.len()), (&b"\x01\x01\x01header\x01"[..], len));
}

#[test]
fn nothing_is_left_of_what_is_not_committed() {
    let store = store("dropped");
    let files = [OutputFile::new("a", 2 * SMALLEST_PART), OutputFile::new("index", 3)];
    let stage = store.stage(&StageRequest::new("m", &files)).unwrap();
    write(&*stage, 0, 0, &bytes(SMALLEST_PART as usize));
    assert_eq!(stage.earlier(), Earlier::Nothing);
    drop(stage);
    let stage = store.stage(&StageRequest::new("m", &files)).unwrap();
    write(&*stage, 0, 0, &bytes(SMALLEST_PART as usize));
    assert!(stage.discard().is_empty());
    assert!(names(&store).is_empty());
}

#[test]
fn an_output_that_exists_is_replaced_only_where_that_is_asked_for() {
    let store = store("exists");
    store.replace("index", b"old").unwrap();
    let files = [OutputFile::new("a", 3), OutputFile::new("index", 3)];
    let request = StageRequest::new("m", &files);
    for refused in [store.check(&request).unwrap_err(), store.stage(&request).unwrap_err()] {
        assert_eq!(
            (refused.kind(), refused.context().file),
            (Kind::Usage, Some("memory://exists/out/index"))
        );
    }
    let stage = store.stage(&request.overwrite(true)).unwrap();
    write(&*stage, 0, 0, b"new");
    write(&*stage, 1, 0, b"new");
    assert_eq!(content(&store, "index").unwrap(), b"old");
    stage.commit(true).unwrap();
    store.forget();
    assert_eq!(
        (content(&store, "a").unwrap(), content(&store, "index").unwrap()),
        (b"new".into(), b"new".into())
    );
}

#[test]
fn who_comes_second_to_a_name_is_refused_at_the_commit_and_takes_back_what_it_made() {
    let store = store("second");
    let files = [OutputFile::new("a", 3), OutputFile::new("index", 3)];
    for overwrite in [false, true] {
        let stage = store.stage(&StageRequest::new("m", &files).overwrite(overwrite)).unwrap();
        write(&*stage, 0, 0, b"two");
        write(&*stage, 1, 0, b"two");
        store.replace("index", b"one").unwrap();
        assert_eq!(stage.commit(true).unwrap_err().kind(), Kind::Usage);
        store.forget();
        assert_eq!(names(&store), ["index"]);
        assert_eq!(content(&store, "index").unwrap(), b"one");
        let client = &store.0.client.objects;
        let (client, key) = (client.clone(), store.key("index").unwrap());
        super::super::runtime::wait(
            async move { object_store::ObjectStoreExt::delete(&*client, &key).await },
        )
        .unwrap()
        .unwrap();
    }
}

#[test]
fn a_writer_of_the_same_bytes_at_the_same_time_is_no_other_writer() {
    let store = store("same");
    let files = [OutputFile::new("m", 3)];
    let request = StageRequest::new("m", &files).overwrite(true);
    let stages = [store.stage(&request).unwrap(), store.stage(&request).unwrap()];
    for stage in stages {
        write(&*stage, 0, 0, b"abc");
        stage.commit(true).unwrap();
    }
    assert_eq!(content(&store, "m").unwrap(), b"abc");
}

#[test]
fn a_receipt_lies_in_a_store_or_on_this_machine() {
    let store = store("receipts");
    let place = tempfile::tempdir().unwrap();
    let local = place.path().join("r.json").display().to_string();
    for (number, receipt) in ["memory://receipts/other/r.json", local.as_str()].into_iter().enumerate() {
        let name = format!("m{number}");
        let files = [OutputFile::new(name.as_str(), 3)];
        let request = StageRequest::new("m", &files).attachment(receipt);
        let mut stage = store.stage(&request).unwrap();
        write(&*stage, 0, 0, b"abc");
        let id = stage.attach(receipt).unwrap();
        stage.file(id).unwrap().write_at(0, b"{}").unwrap();
        assert_eq!(stage.commit(true).unwrap().names, [store.display(&name), receipt.to_owned()]);
        let files = [OutputFile::new("other", 3)];
        let request = StageRequest::new("m", &files).attachment(receipt);
        assert_eq!(store.check(&request).unwrap_err().kind(), Kind::Usage);
    }
    assert_eq!(std::fs::read(local).unwrap(), b"{}");
    let other = directory("memory://receipts/other/", RemoteOptions::new()).unwrap();
    assert_eq!(content(&other, "r.json").unwrap(), b"{}");
}

#[test]
fn a_store_that_is_only_read_refuses_an_output_before_anything_is_done() {
    for address in ["https://host/m.npz", "hf://owner/repo/m.npz"] {
        let error = RemoteAddresses.destination(address).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{address}");
    }
}

#[test]
fn a_store_at_an_address_removes_files_and_what_is_not_there_is_no_error() {
    let open = |address| RemoteAddresses.directory(address, false).unwrap().expect("it is an address");
    let store = open("memory://removal/out");
    store.replace("kept", b"kept").unwrap();
    store.remove("none").unwrap();
    for name in ["none", "d"] {
        remove_files(&*store, name).unwrap();
    }
    store.replace("gone", b"gone").unwrap();
    let opened = store.open("gone").unwrap();
    store.remove("gone").unwrap();
    assert!(!store.has("gone") && store.has("kept") && store.open("gone").is_err());
    assert_eq!(opened.size().unwrap(), 4, "what was opened stays");
    store.remove("gone").unwrap();
    for name in ["d/a", "d/b", "d/below/c"] {
        store.replace(name, b"text").unwrap();
    }
    store.remove("d").unwrap();
    assert!(store.has("d/a"), "a directory that has something in it stays");
    remove_files(&*store, "d").unwrap();
    assert!(!store.has("d/a") && !store.has("d/b") && store.has("d/below/c"));
    remove_files(&*store, "d/below").unwrap();
    remove_files(&*store, "d").unwrap();
    assert!(!store.has_directory("d"));
    let web = open("https://localhost/out");
    assert_eq!(web.remove("m").unwrap_err().kind(), Kind::Unsupported);
}
