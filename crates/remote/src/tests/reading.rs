//! Reading: sizes, versions, ranges, what is kept.

use super::super::listed::Listed;
use super::super::options::RemoteOptions;
use super::server::Server;
use super::{bytes, content, directory};
use ckpt_api::{Input, Kind, Limits, ReadStore, read_exact_at};
use ckpt_engine::store::Store;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn a_file_is_looked_up_by_its_first_64_kib_and_read_by_ranges() {
    let whole = bytes(300_000);
    let server = Server::start(&[("d/m", whole.clone())]);
    let store = directory(&server.address("d/"), RemoteOptions::new()).unwrap();
    assert!(store.has("m") && store.has("m"));
    assert_eq!(server.requests(), [("GET /d/m HTTP/1.1".to_owned(), "bytes=0-65535".to_owned())]);
    assert!(content(&store, "m").unwrap() == whole);
    assert!(server.requests().iter().all(|(line, range)| line.starts_with("GET") && !range.is_empty()));
}

#[test]
fn what_is_not_there_is_not_there_and_an_empty_file_is() {
    let server = Server::start(&[("d/empty", Vec::new())]);
    let store = directory(&server.address("d/"), RemoteOptions::new()).unwrap();
    assert!(!store.has("none"));
    assert_eq!(store.open("none").unwrap_err().kind(), Kind::Io);
    assert!(store.has("empty"));
    assert_eq!(content(&store, "empty").unwrap(), b"");
}

#[test]
fn a_server_without_ranges_sends_the_whole_file_once() {
    let whole = bytes(200_000);
    let server = Server::start(&[("m", whole.clone())]);
    server.shared.ignores_ranges.store(true, Ordering::SeqCst);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    assert!(store.has("m"));
    assert!(content(&store, "m").unwrap() == whole && content(&store, "m").unwrap() == whole);
    let is_whole = |(line, range): &&(String, String)| line.starts_with("GET") && range.is_empty();
    assert_eq!(server.requests().iter().filter(is_whole).count(), 1);
    assert!(store.open("m").unwrap().identity().is_some());
}

#[test]
fn files_that_are_announced_are_looked_up_at_once() {
    let names: Vec<String> = (0..8).map(|number| format!("shard{number}")).collect();
    let files: Vec<(&str, Vec<u8>)> = names.iter().map(|name| (name.as_str(), bytes(10))).collect();
    let server = Server::start(&files);
    *server.shared.delay.lock().unwrap() = Duration::from_millis(200);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    Input::within_store(std::sync::Arc::new(store.clone()), "").will_open(&names);
    assert!(names.iter().all(|name| store.open(name).is_ok()));
    assert_eq!(server.requests().len(), 8);
    assert!(server.shared.most_busy.load(Ordering::SeqCst) > 4);
}

#[test]
fn what_a_store_forgets_is_looked_up_again() {
    let server = Server::start(&[("m", bytes(10))]);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    let before = store.open("m").unwrap().identity();
    server.change("m");
    assert_eq!(store.open("m").unwrap().identity(), before);
    store.forget();
    assert_ne!(store.open("m").unwrap().identity(), before);
}

#[test]
fn what_is_read_ahead_is_right_and_within_the_bound() {
    let whole = bytes(6 << 20);
    let server = Server::start(&[("m", whole.clone())]);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    let reserved = store.reserve(0);
    let file = store.open("m").unwrap();
    file.will_read(&[0..1 << 20, (1 << 20)..(5 << 20), (5 << 20) + 7..u64::MAX]);
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let (file, whole, store) = (&file, &whole, &store);
            scope.spawn(move || {
                let mut buffer = vec![0; 100_000];
                for start in ((2 * thread) << 20..(2 * thread + 2) << 20).step_by(buffer.len()) {
                    let len = buffer.len().min(whole.len() - start);
                    read_exact_at(&**file, start as u64, &mut buffer[..len]).unwrap();
                    assert!(buffer[..len] == whole[start..start + len], "{start}");
                    assert!(store.0.blocks().held() <= reserved);
                }
            });
        }
    });
}

#[test]
fn what_is_announced_is_fetched_once_with_what_was_read_when_the_file_was_opened() {
    let whole = bytes(6 << 20);
    let server = Server::start(&[("m", whole.clone())]);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    store.reserve(0);
    let file = store.open("m").unwrap();
    file.will_read(&[1000..3 << 20, (3 << 20)..6 << 20]);
    let mut read = vec![0; (6 << 20) - 1000];
    for (number, piece) in read.chunks_mut(100_000).enumerate() {
        read_exact_at(&*file, 1000 + 100_000 * number as u64, piece).unwrap();
    }
    assert!(read == whole[1000..]);
    let ranges = server.requests().into_iter().map(|(_, range)| {
        let (first, last) = range.trim_start_matches("bytes=").split_once('-').unwrap();
        last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap()
    });
    assert_eq!(ranges.sum::<usize>(), whole.len());
}

#[test]
fn reads_that_follow_each_other_fetch_more_each_time() {
    let whole = bytes(4 << 20);
    let server = Server::start(&[("m", whole.clone())]);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    let file = store.open("m").unwrap();
    let mut buffer = [0; 4096];
    for start in (0..4 << 20).step_by(4096) {
        read_exact_at(&*file, start, &mut buffer).unwrap();
    }
    assert!(server.requests().len() < 12, "{:?}", server.requests());
    read_exact_at(&*store.open("m").unwrap(), 99, &mut buffer[..1]).unwrap();
}

#[test]
fn a_small_read_far_away_fetches_little() {
    let server = Server::start(&[("m", bytes(4 << 20))]);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    read_exact_at(&*store.open("m").unwrap(), 3 << 20, &mut [0; 8]).unwrap();
    let last = server.requests().pop().unwrap().1;
    assert_eq!(last, format!("bytes={}-{}", 3 << 20, (3 << 20) + (64 << 10) - 1));
}

#[test]
fn a_directory_that_was_listed_tells_which_files_there_are_until_that_is_forgotten() {
    let store = directory("memory://listed/d/", RemoteOptions::new()).unwrap();
    store.replace("m.index", b"index").unwrap();
    store.replace("sub/m.npz", b"npz").unwrap();
    let listed = Listed::new(store.clone());
    let cases = ["m.index", "sub/m.npz", "none", "sub/none", "none/m.npz", "none/sub/m.npz", "a b"];
    let has = || cases.map(|name| listed.has(name));
    let known = || cases.map(|name| listed.has_listed(name));
    assert_eq!(known(), [None; 7]);
    let there = [true, true, false, false, false, false, false];
    assert_eq!(has(), there);
    listed.list("", 9).unwrap();
    // Of the directory below, the listing shows that it is there.
    let (yes, no) = (Some(true), Some(false));
    assert_eq!((known(), has()), ([yes, None, no, None, no, no, None], there));
    listed.list("sub", 9).unwrap();
    assert_eq!((known(), has()), ([yes, yes, no, no, no, no, None], there));

    store.replace("none", b"no longer").unwrap();
    assert!(!listed.has("none"));
    listed.forget();
    assert!(listed.has("none"));
}

#[test]
fn an_input_is_a_file_a_directory_or_a_prefix_and_all_else_is_an_error() {
    use super::super::{RemoteAddresses, RemoteStore};
    use ckpt_engine::store::AddressOpener;
    let store = RemoteStore::at("memory://inputs/d/m.index").unwrap();
    store.store().replace("m.index", b"index").unwrap();
    store.store().replace("sub/m.npz", b"npz").unwrap();
    let open = |address: &str| {
        RemoteAddresses.input(address, &Limits::default()).map(|input| input.expect("it is an address"))
    };
    assert!(open("memory://inputs/d/m.index").unwrap().is_file());
    assert!(open("memory://inputs/d").unwrap().is_directory());
    assert!(open("memory://inputs/d/").unwrap().is_directory());
    let prefix = open("memory://inputs/d/m").unwrap();
    assert!(!prefix.is_file() && !prefix.is_directory() && prefix.has_file("m.index"));
    assert_eq!(open("memory://inputs/d").unwrap().list("").unwrap(), ["m.index"]);
    assert_eq!(open("memory://inputs/d/sub").unwrap().list("").unwrap(), ["m.npz"]);
    assert_eq!(
        open("memory://inputs/d/sub").unwrap().file("m.npz").unwrap().name(),
        "memory://inputs/d/sub/m.npz"
    );
    let error = open("memory://inputs/d/none").unwrap_err();
    assert_eq!((error.kind(), error.context().file), (Kind::Io, Some("memory://inputs/d/none")));
}

#[test]
fn many_readers_with_room_for_few_all_get_their_bytes() {
    const READERS: usize = 16;
    let whole = bytes(8 << 20);
    let server = Server::start(&[("m", whole.clone())]);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    store.reserve(0);
    let file = store.open("m").unwrap();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (file, whole) = (&file, &whole);
                scope.spawn(move || {
                    let mut piece = vec![0; 200_000];
                    for step in 0..8 {
                        let at = (reader * 977_777 + step * 1_234_567) % (whole.len() - piece.len());
                        read_exact_at(&**file, at as u64, &mut piece).unwrap();
                        assert!(piece == whole[at..at + piece.len()], "reader {reader}, step {step}");
                    }
                })
            })
            .collect();
        assert_eq!(readers.into_iter().map(|reader| reader.join().unwrap()).count(), READERS);
    });
}
