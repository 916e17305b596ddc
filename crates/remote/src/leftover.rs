//! What processes that were killed left in a store: uploads in parts that nobody completes, and small files that processes keep
//! beside an output until it is committed. They cost money.

use super::abandoned::{Abandoned, abandoned};
use super::client::Uploading;
use super::directory::RemoteStore;
use super::location::{Location, Scheme};
use super::problem::{Failure, Problem};
use super::runtime;
use super::uploads::{Upload, uploads};
use chrono::{DateTime, Utc};
use ckpt_api::{Error, Result};
use object_store::path::Path as Key;
use std::sync::Arc;
use std::time::Duration;

/// Something that a process left, and nobody completed or gave up. Its process may still be running.
pub struct Leftover(Left);

enum Left {
    Upload(UploadLeft),
    Staging(Abandoned),
}

/// What sort of thing was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftoverKind {
    /// The parts of a file that were sent, or the upload that was begun for them.
    Upload,
    /// A directory with small files of an output that several processes write, and the uploads that belong to it.
    Staging,
}

/// What was found of what processes left.
#[derive(Debug)]
#[non_exhaustive]
pub struct Leftovers {
    /// In the order of their addresses; uploads first.
    pub found: Vec<Leftover>,
    /// What the store does not list, and how it goes away, for people.
    pub unlisted: Option<&'static str>,
}

impl std::fmt::Debug for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leftover")
            .field("address", &self.address())
            .field("changed", &self.changed())
            .finish()
    }
}

impl Leftover {
    /// What it is.
    pub fn kind(&self) -> LeftoverKind {
        match &self.0 {
            Left::Upload(_) => LeftoverKind::Upload,
            Left::Staging(_) => LeftoverKind::Staging,
        }
    }

    /// The address of the file that was being written, or of the directory; that ends in a slash.
    pub fn address(&self) -> String {
        match &self.0 {
            Left::Upload(left) => left.address(),
            Left::Staging(left) => left.address(),
        }
    }

    /// When the upload was begun, or something was last written into the directory, as the store says it:
    /// `2026-11-20T10:00:00.000Z`.
    pub fn changed(&self) -> String {
        match &self.0 {
            Left::Upload(left) => left.upload.initiated.clone(),
            Left::Staging(left) => left.written().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        }
    }

    /// How long ago that is; `None` if the store's time cannot be read.
    pub fn age(&self) -> Option<Duration> {
        let changed = match &self.0 {
            Left::Upload(left) => DateTime::parse_from_rfc3339(&left.upload.initiated).ok()?.to_utc(),
            Left::Staging(left) => left.written(),
        };
        // A clock that is behind the store's makes nothing older.
        Some(Utc::now().signed_duration_since(changed).to_std().unwrap_or_default())
    }

    /// Removes it: an upload with its parts, a directory with the uploads that belong to it. A process that is still writing
    /// the output fails.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    pub fn remove(&self) -> Result<()> {
        match &self.0 {
            Left::Upload(left) => left.remove(),
            Left::Staging(left) => left.remove(),
        }
    }
}

/// An upload that was begun, and neither completed nor given up.
struct UploadLeft {
    store: RemoteStore,
    writer: Arc<dyn Uploading>,
    key: Key,
    upload: Upload,
}

impl UploadLeft {
    fn address(&self) -> String {
        let Location { scheme, root, .. } = &self.store.0.location;
        format!("{}://{root}/{}", scheme.name(), self.upload.key)
    }

    fn remove(&self) -> Result<()> {
        let (writer, key, id) = (self.writer.clone(), self.key.clone(), self.upload.upload_id.clone());
        let removed =
            runtime::wait(async move { writer.abort_multipart(&key, &id).await.map_err(Problem::from) })?;
        match removed {
            // Somebody else was faster.
            Err(problem) if problem.failure == Failure::Missing => Ok(()),
            removed => removed.map_err(|problem| {
                let scheme = self.store.0.location.scheme;
                problem.error("cannot remove an unfinished upload", &self.address(), scheme)
            }),
        }
    }
}

/// What processes left of outputs whose addresses begin with `address`: staging directories, and unfinished uploads, for which
/// S3 alone can be asked. An upload that belongs to a staging directory is not named beside it, and is as old as it.
///
/// ```no_run
/// # fn main() -> ckpt::Result<()> {
/// for leftover in ckpt::store::leftovers("s3://bucket/run7/")?.found {
///     println!("{} {}", leftover.address(), leftover.changed());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for what is no address of a remote store, [`ckpt_api::Kind::Unsupported`] for a store that is only
/// read, [`ckpt_api::Kind::Io`].
pub fn leftovers(address: &str) -> Result<Leftovers> {
    let location = Location::parse(address)?.ok_or_else(|| {
        Error::usage("this is no address of a remote store")
            .file(address)
            .expected("an address such as s3://bucket/run7/")
            .help(
                "on a file system, the next conversion to the same output removes what a killed process left",
            )
    })?;
    let store = RemoteStore::open(location.split().0)?;
    let writer = store.writer()?;
    // Uploads that are begun meanwhile belong to no directory that was found: they are listed first.
    let listed = match store.0.client.signer.clone() {
        Some(signer) => {
            let prefix = location.prefix();
            runtime::wait(async move { uploads(&*signer, &prefix).await })?
        }
        None => Ok(Vec::new()),
    };
    let directories = abandoned(&store, &location)?;
    let keyed = |upload: Upload| {
        let key = Key::parse(&upload.key).map_err(|error| Problem::from(object_store::Error::from(error)))?;
        Ok(UploadLeft { store: store.clone(), writer: writer.clone(), key, upload })
    };
    let listed = listed.and_then(|listed| listed.into_iter().map(keyed).collect::<Result<Vec<_>, _>>());
    let listed = listed.map_err(|problem| {
        problem.error("cannot list unfinished uploads", &location.address(), location.scheme)
    })?;
    let is_staged =
        |left: &UploadLeft| directories.iter().any(|it| it.has_upload(&left.key, &left.upload.upload_id));
    let listed = listed.into_iter().filter(|left| !is_staged(left)).map(|left| Leftover(Left::Upload(left)));
    let mut found: Vec<Leftover> = listed.collect();
    let directories = directories.into_iter().filter(|directory| directory.is_below(&location));
    found.extend(directories.map(|directory| Leftover(Left::Staging(directory))));
    Ok(Leftovers { found, unlisted: unlisted(location.scheme) })
}

/// What a store does not list.
fn unlisted(scheme: Scheme) -> Option<&'static str> {
    match scheme {
        Scheme::Az => {
            Some("Azure does not list unfinished uploads, and removes what was not committed after a week")
        }
        Scheme::Gs => Some(
            "Google Cloud Storage does not list unfinished uploads: give the bucket a lifecycle rule with the action \
             AbortIncompleteMultipartUpload",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    #[test]
    fn a_store_that_is_only_read_and_a_path_are_refused() {
        assert_eq!(leftovers("models/m.npz").unwrap_err().kind(), Kind::Usage);
        assert_eq!(leftovers("https://host/m.npz").unwrap_err().kind(), Kind::Unsupported);
    }

    #[test]
    fn a_store_that_does_not_list_uploads_says_how_they_go_away() {
        let says =
            |scheme| unlisted(scheme).is_some_and(|text| text.contains("does not list unfinished uploads"));
        assert!(says(Scheme::Gs) && says(Scheme::Az) && !says(Scheme::S3));
    }
}
