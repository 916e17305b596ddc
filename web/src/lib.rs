//! `ckpt` in the browser: what the page's worker calls.
//!
//! The page sends a request as JSON and gets an answer as JSON ([`call`]). The bytes of checkpoints do not pass through
//! either: `files` reads the files that the person chose, piece by piece, and `output` writes those that the worker has
//! opened. All of it is synchronous, which a worker may be.

mod arrays;
mod files;
mod host;
mod output;
mod pages;
mod request;
mod session;
mod words;

use request::Request;
use session::Session;
use std::cell::RefCell;
use wasm_bindgen::prelude::wasm_bindgen;

thread_local! {
    static SESSION: RefCell<Session> = RefCell::new(Session::new());
}

/// Answers one request of the page: `{"ok": …}`, or `{"error": …}` with what an error says.
#[wasm_bindgen]
pub fn call(request: &str) -> String {
    std::panic::set_hook(Box::new(|panic| host::defect(&panic.to_string())));
    let answer = match serde_json::from_str::<Request>(request) {
        Ok(request) => SESSION.with_borrow_mut(|session| session.answer(request)),
        Err(error) => {
            Err(ckpt::Error::defect("the page sent a request that is not one").found(error.to_string()))
        }
    };
    match answer {
        Ok(value) => serde_json::json!({ "ok": value }).to_string(),
        Err(error) => serde_json::json!({ "error": words::error(error) }).to_string(),
    }
}
