//! Small objects, and whether there are any.

use super::client::{Client, Purpose, Uploading};
use super::directory::RemoteStore;
use super::problem::{Failure, Problem};
use super::runtime;
use bytes::Bytes;
use ckpt_api::{Error, Result, text};
use ckpt_engine::settings;
use futures_util::StreamExt;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::sync::{Arc, PoisonError};

/// Objects that are looked up at once.
const LOOKING: usize = 16;

impl RemoteStore {
    /// A client that sends: one for all clones, since to make one takes as long as a request.
    pub(super) fn writer(&self) -> Result<Arc<dyn Uploading>> {
        let shared = &self.0;
        let mut made = shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = &*made {
            return Ok(writer.clone());
        }
        let cannot = |problem: Problem| self.failed(&problem, "cannot open the store", "");
        let client = Client::new(&shared.location, &shared.options, &shared.patience, Purpose::Write)
            .map_err(cannot)?;
        let writer = client.uploading.ok_or_else(|| {
            Error::unsupported("this kind of address can be read, but not written")
                .file(shared.location.address())
        })?;
        Ok(made.insert(writer).clone())
    }

    pub(super) fn key_of(&self, name: &str) -> Result<Key> {
        self.key(name).map_err(|problem| self.failed(&problem, "cannot write the file", name))
    }

    /// What the store has under some names now, in their order.
    pub(super) fn present(&self, names: &[String]) -> Result<Vec<Option<ObjectMeta>>> {
        let keys = names.iter().map(|name| self.key_of(name)).collect::<Result<Vec<_>>>()?;
        let objects = self.0.client.objects.clone();
        let heads = async move {
            let head = |key: Key| {
                let objects = objects.clone();
                async move {
                    match objects.head(&key).await {
                        Ok(meta) => Ok(Some(meta)),
                        Err(object_store::Error::NotFound { .. }) => Ok(None),
                        Err(error) => Err(Problem::from(error)),
                    }
                }
            };
            futures_util::stream::iter(keys).map(head).buffered(LOOKING).collect::<Vec<_>>().await
        };
        let found = runtime::wait(heads)?.into_iter().zip(names);
        found
            .map(|(found, name)| {
                found.map_err(|problem| self.failed(&problem, "cannot look for the output", name))
            })
            .collect()
    }
}

/// The error about an output that is there already.
pub(super) fn exists(shown: &str) -> Error {
    let help = text!["choose another name, or replace it with ", settings::OVERWRITE];
    Error::usage("the output exists").file(shown).help(help)
}

/// The error about a name that got something since the output was begun.
pub(super) fn taken(shown: &str) -> Error {
    Error::usage("the output exists")
        .file(shown)
        .help("another writer has created it in the meantime: choose another name, or convert again")
}

/// Removes an object; one that is not there is no problem.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] if no thread can be started.
pub(super) fn delete(writer: Arc<dyn Uploading>, key: Key) -> Result<Result<(), Problem>> {
    let deleted = runtime::wait(async move { writer.delete(&key).await.map_err(Problem::from) })?;
    Ok(match deleted {
        Err(problem) if problem.failure == Failure::Missing => Ok(()),
        deleted => deleted,
    })
}

/// Puts a small object, and accepts one that is there already with the same bytes: the answer to an earlier attempt may
/// have been lost.
pub(super) async fn put(
    writer: Arc<dyn Uploading>,
    key: Key,
    bytes: impl Into<Bytes>,
    mode: PutMode,
) -> Result<(), Problem> {
    let bytes = bytes.into();
    let payload = PutPayload::from(bytes.clone());
    let options = PutOptions::from(mode);
    let problem = match writer.put_opts(&key, payload, options).await {
        Ok(_) => return Ok(()),
        Err(error) => Problem::from(error),
    };
    if !matches!(problem.failure, Failure::Exists | Failure::Changed) {
        return Err(problem);
    }
    match writer.get(&key).await {
        Ok(found) if found.meta.size == bytes.len() as u64 => match found.bytes().await {
            Ok(found) if found[..] == bytes[..] => Ok(()),
            _ => Err(problem),
        },
        _ => Err(problem),
    }
}
