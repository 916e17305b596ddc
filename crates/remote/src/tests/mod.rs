//! Remote stores, against memory and against a server of our own that misbehaves.

mod faults;
mod hub;
mod reading;
mod server;
mod sharing;
mod writing;

use super::client::Patience;
use super::directory::RemoteStore;
use super::location::Location;
use super::options::RemoteOptions;
use ckpt_api::{ReadAt, ReadStore, read_exact_at};
use object_store::{BackoffConfig, RetryConfig};
use std::time::Duration;

/// The directory at an address, with a client that is not patient.
fn directory(address: &str, options: RemoteOptions) -> ckpt_api::Result<RemoteStore> {
    let retries = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(5),
            max_backoff: Duration::from_millis(20),
            base: 2.0,
        },
        max_retries: 4,
        retry_timeout: Duration::from_secs(20),
    };
    let patience = Patience { retries, stall: Duration::from_millis(400) };
    let location = Location::parse(address)?.expect("it is an address").split().0;
    RemoteStore::with(location, options, patience)
}

/// All bytes of a file.
fn content(store: &RemoteStore, name: &str) -> ckpt_api::Result<Vec<u8>> {
    let file = store.open(name)?;
    let read = |file: &dyn ReadAt| {
        let mut bytes = vec![0; usize::try_from(file.size()?).unwrap()];
        read_exact_at(file, 0, &mut bytes).map(|()| bytes)
    };
    read(&*file).map_err(|error| ckpt_api::Error::io("reading", error))
}

/// Bytes that differ from one another wherever they are.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 + at % 251) as u8).collect()
}
