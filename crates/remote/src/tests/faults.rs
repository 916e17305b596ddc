//! Servers that misbehave.

use super::super::options::RemoteOptions;
use super::server::{Fault, Server};
use super::{bytes, content, directory};
use ckpt_api::{Kind, ReadStore, read_exact_at};
use std::sync::atomic::Ordering;

/// What comes of reading 300,000 bytes, of which the request after the first goes wrong so.
fn read_after(faults: impl IntoIterator<Item = Fault>) -> (ckpt_api::Result<Vec<u8>>, Vec<u8>) {
    let whole = bytes(300_000);
    let server = Server::start(&[("m", whole.clone())]);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    assert!(store.has("m"));
    server.fail_next(faults);
    (content(&store, "m"), whole)
}

#[test]
fn an_answer_that_is_short_and_looks_complete_is_asked_for_again() {
    let (read, whole) = read_after([Fault::Short(1)]);
    assert!(read.unwrap() == whole);
}

#[test]
fn an_answer_that_is_cut_off_is_asked_for_again() {
    let (read, whole) = read_after([Fault::Cut, Fault::Cut]);
    assert!(read.unwrap() == whole);
}

#[test]
fn a_server_that_is_not_ready_is_asked_again() {
    let (read, whole) = read_after([Fault::Status(503, "slow down"), Fault::Status(429, "")]);
    assert!(read.unwrap() == whole);
}

#[test]
fn an_answer_that_stalls_is_asked_for_again() {
    let (read, whole) = read_after([Fault::Stall]);
    assert!(read.unwrap() == whole);
}

#[test]
fn a_first_answer_that_goes_wrong_is_asked_for_again() {
    let whole = bytes(100_000);
    let server = Server::start(&[("m", whole.clone())]);
    server.fail_next([Fault::Short(3), Fault::Status(500, ""), Fault::Stall, Fault::Cut]);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    assert!(content(&store, "m").unwrap() == whole);
}

#[test]
fn a_server_that_is_never_ready_is_an_error_with_its_cause_and_the_next_read_tries_again() {
    let faults = std::iter::repeat_n(Fault::Status(503, "come back later"), 5);
    let whole = bytes(100);
    let server = Server::start(&[("m", whole.clone())]);
    // A look-up that fails asks for the size alone, too.
    server.fail_next(faults.chain(std::iter::repeat_n(Fault::Status(503, ""), 5)));
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    let error = store.open("m").unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    assert!(error.to_string().contains("503") && error.to_string().contains(&server.address("m")), "{error}");
    assert!(content(&store, "m").unwrap() == whole);
}

#[test]
fn a_file_that_changes_between_two_reads_is_refused() {
    for ignores_conditions in [false, true] {
        let server = Server::start(&[("m", bytes(300_000))]);
        server.shared.ignores_conditions.store(ignores_conditions, Ordering::SeqCst);
        let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
        let file = ckpt_api::File::new(store.open("m").unwrap(), "m").unwrap();
        server.change("m");
        let error = file.bytes(200_000, 10).unwrap_err();
        assert_eq!(error.message(), "the file changed while it was being read");
    }
}

#[test]
fn a_refusal_is_an_error_that_names_the_address_and_shows_no_signature() {
    let server = Server::start(&[]);
    server.fail_next([Fault::Status(403, "<Error><Code>Bad</Code><Key>secret</Key></Error>")]);
    let address = server.address("m?X-Amz-Signature=secret");
    let store = directory(&address, RemoteOptions::new()).unwrap();
    let error = store.open("m").unwrap_err();
    let text = format!("{error} {error:?} {store:?}");
    assert!(text.contains(&server.address("m")) && !text.contains("secret"), "{text}");
    assert!(store.location().is_none(), "a plan does not keep an address without its signature");
    let (line, _) = server.requests().pop().unwrap();
    assert!(line.contains("X-Amz-Signature=secret"), "{line}");
}

#[test]
fn a_read_that_failed_does_not_spoil_the_next_one() {
    let whole = bytes(300_000);
    let server = Server::start(&[("m", whole.clone())]);
    let store = directory(&server.address(""), RemoteOptions::new()).unwrap();
    let file = store.open("m").unwrap();
    server.fail_next([Fault::Status(404, "")]);
    let mut buffer = [0; 10];
    assert!(read_exact_at(&*file, 200_000, &mut buffer).is_err());
    read_exact_at(&*file, 200_000, &mut buffer).unwrap();
    assert_eq!(buffer, whole[200_000..200_010]);
}
