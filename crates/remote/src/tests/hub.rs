//! The Hugging Face Hub, as a server of our own.

use super::super::options::RemoteOptions;
use super::server::Server;
use super::{bytes, content, directory};
use ckpt_api::{Kind, ReadStore};

fn hub() -> (Server, RemoteOptions) {
    let tree =
        br#"[{"type":"directory","path":"sub"},{"type":"file","path":"model.safetensors","size":100000}]"#;
    let below = br#"[{"type":"file","path":"sub/a.json","size":2}]"#;
    let server = Server::start(&[
        ("api/models/owner/repo/revision/main", br#"{"sha":"abc123","private":false}"#.to_vec()),
        ("api/models/owner/repo/tree/abc123/", tree.to_vec()),
        ("api/models/owner/repo/tree/abc123/sub", below.to_vec()),
        ("owner/repo/resolve/abc123/model.safetensors", bytes(100_000)),
        ("owner/repo/resolve/abc123/sub/a.json", b"{}".to_vec()),
    ]);
    let options = RemoteOptions::new().set("endpoint", &server.address("")).unwrap();
    (server, options)
}

#[test]
fn a_revision_is_pinned_to_its_commit_and_its_files_are_read() {
    let (server, options) = hub();
    let store = directory("hf://owner/repo/", options).unwrap();
    assert!(content(&store, "model.safetensors").unwrap() == bytes(100_000));
    assert_eq!(store.list("", 9).unwrap(), ["model.safetensors"]);
    assert_eq!(store.list("sub", 9).unwrap(), ["a.json"]);
    assert!(store.has_directory("sub") && !store.has_directory("none") && store.has("sub/a.json"));
    assert_eq!(store.display("sub/a.json"), "hf://owner/repo/sub/a.json");
    let asked = server.requests();
    assert_eq!(asked.iter().filter(|(line, _)| line.contains("/revision/")).count(), 1);
}

#[test]
fn a_repository_that_is_not_there_is_an_error_that_names_it() {
    let (_server, options) = hub();
    let error = directory("hf://owner/other/", options).unwrap_err();
    assert_eq!((error.kind(), error.context().file), (Kind::Io, Some("hf://owner/other")));
}
