//! Directories with small files that processes keep beside an output until it is committed, found in a store's listing.

use super::directory::RemoteStore;
use super::location::Location;
use super::problem::Problem;
use super::runtime;
use super::staging::{Staging, is_staging, remove};
use chrono::{DateTime, Utc};
use ckpt_api::{Error, Result};
use object_store::ObjectMeta;
use object_store::path::Path as Key;
use std::collections::BTreeMap;

/// How the name ends of a directory in which the Python package keeps plans, and the one in it with their items' receipts.
const PLANNED: &str = ".ckpt-staging";
const RECEIPTS: &str = "receipts";

/// A directory of small files, and what they are about.
pub(super) struct Abandoned {
    location: Location,
    written: DateTime<Utc>,
    /// Keys of its files, those of plans last.
    keys: Vec<Key>,
    store: RemoteStore,
    /// What the files are about; `None` for a plan and receipts.
    staging: Option<Staging>,
}

/// The directories whose outputs may have addresses that begin so, in the order of their addresses.
///
/// # Errors
/// [`ckpt_api::Kind::Io`].
pub(super) fn abandoned(store: &RemoteStore, location: &Location) -> Result<Vec<Abandoned>> {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for prefix in prefixes(&location.prefix()) {
        let see = |object: ObjectMeta| {
            if let Some(directory) = directory_of(object.location.as_ref()) {
                found.entry(directory.to_owned()).or_default().add(object);
            }
        };
        store.each_object(&prefix, see).map_err(|problem: Problem| {
            problem.error("cannot list the directory", &location.address(), location.scheme)
        })?;
    }
    found.into_iter().map(|(directory, found)| found.read(location, &directory)).collect()
}

/// What the keys begin with of directories that may belong to outputs whose keys begin with `prefix`: those below it, and hidden
/// ones beside or above.
fn prefixes(prefix: &str) -> Vec<String> {
    let above = prefix.match_indices('/').map(|(at, _)| &prefix[..=at]);
    let hidden = [""].into_iter().chain(above).map(|above| format!("{above}."));
    // What another prefix finds is not listed twice.
    let hidden = hidden.filter(|hidden| !hidden.starts_with(prefix));
    let mut prefixes: Vec<String> = hidden.collect();
    if !prefixes.iter().any(|hidden| prefix.starts_with(hidden)) {
        prefixes.push(prefix.to_owned());
    }
    prefixes
}

/// The directory that a key belongs to, if it is one of ours.
fn directory_of(key: &str) -> Option<&str> {
    let (directory, _) = key.rsplit_once('/')?;
    let planned = match directory.rsplit_once('/') {
        Some((above, RECEIPTS)) => above,
        _ => directory,
    };
    let is_own = is_staging(directory.rsplit('/').next().unwrap_or_default());
    if is_own { Some(directory) } else { planned.ends_with(PLANNED).then_some(planned) }
}

/// What the listing says of a directory.
#[derive(Default)]
struct Found {
    written: DateTime<Utc>,
    keys: Vec<Key>,
}

impl Found {
    fn add(&mut self, object: ObjectMeta) {
        self.written = self.written.max(object.last_modified);
        self.keys.push(object.location);
    }

    /// Reads what is known of it.
    fn read(mut self, location: &Location, directory: &str) -> Result<Abandoned> {
        let (above, name) = directory.rsplit_once('/').unwrap_or(("", directory));
        let store = RemoteStore::open(location.directory(above))?;
        let staging = match is_staging(name) {
            true => Some(Staging::found(&store, name)?),
            false => None,
        };
        // While a plan is there, what it is about can be discarded.
        self.keys.sort_by_key(|key| std::cmp::Reverse(key.as_ref().matches('/').count()));
        let Found { written, keys } = self;
        Ok(Abandoned { location: location.directory(directory), written, keys, store, staging })
    }
}

impl Abandoned {
    pub(super) fn address(&self) -> String {
        format!("{}/", self.location.address())
    }

    /// When something was last written into it.
    pub(super) fn written(&self) -> DateTime<Utc> {
        self.written
    }

    /// Whether an upload belongs to it.
    pub(super) fn has_upload(&self, key: &Key, id: &str) -> bool {
        let uploads = self.staging.iter().flat_map(Staging::uploads);
        uploads.into_iter().any(|(own, upload)| own == *key && upload == id)
    }

    /// Whether the address of its output, or its own, begins so.
    pub(super) fn is_below(&self, location: &Location) -> bool {
        let (prefix, own) = (location.prefix(), format!("{}/", self.location.path));
        let (above, name) = self.location.path.rsplit_once('/').unwrap_or(("", &self.location.path));
        let key = |name: &str| self.location.directory(above).key_of(name);
        let mut outputs: Vec<String> = self.staging.iter().flat_map(Staging::names).map(key).collect();
        outputs.extend(name.strip_prefix('.').and_then(|name| name.strip_suffix(PLANNED)).map(key));
        own.starts_with(&prefix)
            || (!outputs.is_empty() && outputs.iter().all(|output| output.starts_with(&prefix)))
    }

    /// Removes its files, and the uploads that belong to it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    pub(super) fn remove(&self) -> Result<()> {
        let left = match &self.staging {
            Some(staging) => staging.give_up(|_| false),
            None => runtime::wait(remove(self.store.writer()?, self.keys.clone()))?,
        };
        match left.first() {
            None => Ok(()),
            Some(left) => {
                let why = std::io::Error::other(left.as_str());
                Err(Error::io("cannot remove a staging directory", why).file(self.address()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_ours_are_known_by_their_names_and_those_of_their_files() {
        for (key, directory) in [
            ("run/.ckpt-0123456789abcdef/staging.json", Some("run/.ckpt-0123456789abcdef")),
            (".ckpt-0123456789abcdef/bytes-1-0", Some(".ckpt-0123456789abcdef")),
            ("run/.m.npz.ckpt-staging/plan-0123456789abcdef.gz", Some("run/.m.npz.ckpt-staging")),
            ("run/.m.npz.ckpt-staging/receipts/0123-00000000.receipt.json", Some("run/.m.npz.ckpt-staging")),
            ("work/m.npz-012345.ckpt-staging/plan-0.gz", Some("work/m.npz-012345.ckpt-staging")),
            ("run/.ckpt-0123456789abcdef", None),
            ("run/.ckpt-0123456789ABCDEF/staging.json", None),
            ("run/.ckpt-0123/staging.json", None),
            ("run/.ckpt-0123456789abcdef/below/x", None),
            ("run/.m.npz.ckpt-staging/below/x", None),
            ("run/.m.npz.ckpt-staging/receipts/below/x", None),
            ("run/receipts/0123-00000000.receipt.json", None),
            ("run/plan-0.gz", None),
        ] {
            assert_eq!(directory_of(key), directory, "{key}");
        }
    }

    #[test]
    fn hidden_directories_beside_and_above_an_output_are_listed_once() {
        assert_eq!(prefixes(""), [""]);
        assert_eq!(prefixes("run/"), [".", "run/"]);
        assert_eq!(prefixes("run/m"), [".", "run/.", "run/m"]);
        assert_eq!(prefixes("run/.ckpt-0"), [".", "run/."]);
    }
}
