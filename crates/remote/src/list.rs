//! The files of a directory.

use super::client::Listing;
use super::directory::RemoteStore;
use super::hub::Directory;
use super::problem::{Failure, Problem};
use super::runtime;
use futures_util::{StreamExt, TryStreamExt};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{ListResult, ObjectMeta};
use std::sync::Arc;

/// Names of a page.
pub(super) const PAGE: usize = 1000;

impl RemoteStore {
    /// The names of the files directly in a directory; at most a page more than `most`.
    pub(super) fn list_files(&self, directory: &str, most: u64) -> Result<Vec<String>, Problem> {
        Ok(self.list_entries(directory, most)?.files)
    }

    /// The names of the directories directly in a directory; at most a page more than `most`.
    pub(super) fn list_directories(&self, directory: &str, most: u64) -> Result<Vec<String>, Problem> {
        Ok(self.list_entries(directory, most)?.directories)
    }

    /// The entries of a directory; at most a page more than `most` of each kind.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    pub(super) fn entries(&self, directory: &str, most: u64) -> ckpt_api::Result<Directory> {
        self.list_entries(directory, most)
            .map_err(|problem| self.failed(&problem, "cannot list the directory", directory))
    }

    /// Whether listing a directory asks for a page of its names.
    pub(super) fn lists_pages(&self) -> bool {
        matches!(self.0.client.listing, Listing::Pages(_))
    }

    fn list_entries(&self, directory: &str, most: u64) -> Result<Directory, Problem> {
        let key = self.0.location.key_of(directory);
        match &self.0.client.listing {
            Listing::Nothing => Ok(Directory::default()),
            Listing::Hub(repository) => repository.list(&key, most),
            Listing::Pages(pages) => waited(pages_of(pages.clone(), below(&key), most)),
            Listing::Whole => {
                let (objects, key) = (self.0.client.objects.clone(), self.key(directory)?);
                waited(async move {
                    let prefix = Some(key).filter(|key| !key.as_ref().is_empty());
                    let mut listed = Directory::default();
                    listed.add(&objects.list_with_delimiter(prefix.as_ref()).await?);
                    Ok(listed)
                })
            }
        }
    }

    /// Whether names of files begin with a directory.
    pub(super) fn is_directory(&self, name: &str) -> Result<bool, Problem> {
        match &self.0.client.listing {
            Listing::Nothing => Ok(false),
            Listing::Hub(repository) => {
                let Directory { exists, .. } = repository.list(&self.0.location.key_of(name), 0)?;
                Ok(exists)
            }
            Listing::Pages(_) => self.has_prefix(&format!("{name}/")),
            Listing::Whole => {
                let (objects, key) = (self.0.client.objects.clone(), self.key(name)?);
                waited(async move { Ok(objects.list(Some(&key)).next().await.transpose()?.is_some()) })
            }
        }
    }

    /// Shows every object whose key begins so, in whatever directory.
    pub(super) fn each_object(&self, prefix: &str, mut see: impl FnMut(ObjectMeta)) -> Result<(), Problem> {
        let Listing::Pages(pages) = &self.0.client.listing else {
            let objects = self.0.client.objects.clone();
            let found = waited(async move { Ok(objects.list(None).try_collect::<Vec<_>>().await?) })?;
            found.into_iter().filter(|found| found.location.as_ref().starts_with(prefix)).for_each(see);
            return Ok(());
        };
        let mut token = None;
        loop {
            let (pages, prefix) =
                (pages.clone(), Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty()));
            let options = PaginatedListOptions {
                max_keys: Some(PAGE),
                page_token: token.clone(),
                ..PaginatedListOptions::default()
            };
            let page = waited(async move { Ok(pages.list_paginated(prefix.as_deref(), options).await?) })?;
            page.result.objects.into_iter().for_each(&mut see);
            match page.page_token {
                None => return Ok(()),
                // It would never end.
                again if again == token => {
                    return Err(Problem::new(Failure::Other, "the server lists the same objects again"));
                }
                next => token = next,
            }
        }
    }

    /// Whether the name of a file begins so.
    pub(super) fn has_prefix(&self, prefix: &str) -> Result<bool, Problem> {
        match &self.0.client.listing {
            Listing::Pages(pages) => {
                let (pages, key) = (pages.clone(), self.0.location.key_of(prefix));
                waited(async move {
                    let options =
                        PaginatedListOptions { max_keys: Some(1), ..PaginatedListOptions::default() };
                    Ok(!pages.list_paginated(Some(&key), options).await?.result.objects.is_empty())
                })
            }
            _ => Ok(self.list_files("", u64::MAX)?.iter().any(|name| name.starts_with(prefix))),
        }
    }
}

fn waited<T: Send + 'static>(
    listing: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    runtime::wait(listing).map_err(|error| Problem::new(Failure::Other, error.to_string()))?
}

/// What the keys of a directory begin with; `None` for all of a bucket.
fn below(key: &str) -> Option<String> {
    (!key.is_empty()).then(|| format!("{key}/"))
}

async fn pages_of(
    pages: Arc<dyn PaginatedListStore>,
    prefix: Option<String>,
    most: u64,
) -> Result<Directory, Problem> {
    let (mut listed, mut token) = (Directory::default(), None);
    loop {
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(PAGE),
            page_token: token,
            ..PaginatedListOptions::default()
        };
        let page = pages.list_paginated(prefix.as_deref(), options).await?;
        listed.add(&page.result);
        token = page.page_token;
        let most_listed = listed.files.len().max(listed.directories.len());
        if token.is_none() || most_listed as u64 > most {
            return Ok(listed);
        }
    }
}

impl Directory {
    fn add(&mut self, listed: &ListResult) {
        self.files.extend(listed.objects.iter().filter_map(|object| name(&object.location)));
        self.directories.extend(listed.common_prefixes.iter().filter_map(name));
        self.exists |= !self.files.is_empty() || !self.directories.is_empty();
    }
}

fn name(key: &Key) -> Option<String> {
    key.filename().map(str::to_owned)
}
