//! What an address says: which store, which directory of it, which name there.

use super::redacted::shown;
use ckpt_api::{Error, Result};
use std::fmt;

/// The kinds of stores that addresses lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    S3,
    Gs,
    Az,
    Http,
    Https,
    Hub,
    Memory,
}

impl Scheme {
    const ALL: [Scheme; 7] =
        [Scheme::S3, Scheme::Gs, Scheme::Az, Scheme::Http, Scheme::Https, Scheme::Hub, Scheme::Memory];

    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::S3 => "s3",
            Scheme::Gs => "gs",
            Scheme::Az => "az",
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Hub => "hf",
            Scheme::Memory => "memory",
        }
    }

    pub(super) fn is_web(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    /// Whether outputs can be written there.
    fn is_writable(self) -> bool {
        matches!(self, Scheme::S3 | Scheme::Gs | Scheme::Az | Scheme::Memory)
    }
}

/// A place in a store.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) scheme: Scheme,
    /// The bucket, the container, the host, or the repository with its revision.
    pub(super) root: String,
    /// What follows it, without a slash at either end; empty for all of the store.
    pub(super) path: String,
    /// Whether the address ends in a slash.
    is_directory: bool,
    /// What follows the question mark of an address of the web. It may be a signature: nothing prints it.
    pub(super) query: Option<String>,
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address())
    }
}

impl Location {
    /// Reads an address; `None` for one of a scheme that is not a remote store's.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a malformed address, or one that contains a password.
    pub(super) fn parse(address: &str) -> Result<Option<Self>> {
        let Some((scheme, rest)) = address.split_once("://") else { return Ok(None) };
        let scheme = Scheme::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(scheme));
        let Some(scheme) = scheme else { return Ok(None) };
        let (rest, query) = match rest.split_once('?').filter(|_| scheme.is_web()) {
            Some((rest, query)) => (rest, Some(query.split('#').next().unwrap_or_default().to_owned())),
            None => (rest, None),
        };
        let (root, path) = split_root(scheme, rest);
        let location = Location {
            scheme,
            root: root.to_owned(),
            path: path.trim_end_matches('/').to_owned(),
            is_directory: path.is_empty() || path.ends_with('/'),
            query,
        };
        location.check(address)?;
        Ok(Some(location))
    }

    /// The directory to write into, and the name there; `None` for an address of a scheme that is not a remote store's.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a store that is only read; those of [`Location::parse`].
    pub(super) fn to_write(address: &str) -> Result<Option<(Location, String)>> {
        let Some(location) = Self::parse(address)? else { return Ok(None) };
        if !location.scheme.is_writable() {
            let help = match location.scheme {
                Scheme::Hub => {
                    "write to this machine first, then upload the output, such as with `hf upload`"
                }
                _ => "write to this machine first, then upload the output",
            };
            return Err(Error::unsupported("this kind of address can be read, but not written")
                .file(location.address())
                .expected("s3://, gs://, az://, or a path of this machine")
                .help(help));
        }
        let (directory, name) = location.split();
        if name.is_empty() {
            return Err(Error::usage("the output's address has no file name")
                .file(location.address())
                .help("add a file name to it"));
        }
        Ok(Some((directory, name)))
    }

    /// The directory with this key of the same store.
    pub(super) fn directory(&self, key: &str) -> Location {
        Location { path: key.to_owned(), is_directory: true, ..self.clone() }
    }

    /// What the keys begin with of everything whose address begins with this one.
    pub(super) fn prefix(&self) -> String {
        let slash = if self.is_directory && !self.path.is_empty() { "/" } else { "" };
        format!("{}{slash}", self.path)
    }

    fn check(&self, address: &str) -> Result<()> {
        let wrong = |message: &str| Error::usage(message).file(shown(address));
        if self.root.contains('@') && self.scheme != Scheme::Hub {
            return Err(Error::usage("the address contains a user name or password")
                .file(format!("{}://…", self.scheme.name()))
                .help("leave it out: credentials come from the environment"));
        }
        let (least, form) = match self.scheme {
            Scheme::Hub => (2, "hf://owner/repository[@revision]/path"),
            Scheme::Http | Scheme::Https => (1, "https://host/path"),
            Scheme::Az => (1, "az://container/path"),
            _ => (1, "a bucket and a path, such as s3://bucket/path"),
        };
        let is_plain = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-._:@%".contains(c))
        };
        let parts: Vec<&str> = self.root.split('/').collect();
        if parts.len() < least || !parts.iter().all(|part| is_plain(part)) {
            return Err(wrong("the address is incomplete, or has characters that none has").expected(form));
        }
        let is_name = |part: &str| {
            !matches!(part, "" | "." | "..") && !part.contains(|c: char| c.is_control() || c == '\\')
        };
        if !self.path.is_empty() && !self.path.split('/').all(is_name) {
            return Err(wrong("the address has a path that is no path of a store")
                .help("its parts cannot be empty, '.' or '..', and cannot contain a backslash"));
        }
        Ok(())
    }

    /// The directory that the address leads to or into, and the name in it: empty for the directory itself.
    pub(super) fn split(&self) -> (Location, String) {
        let (directory, name) = match self.path.rsplit_once('/') {
            _ if self.is_directory => (self.path.as_str(), ""),
            Some((directory, name)) => (directory, name),
            None => ("", self.path.as_str()),
        };
        (Location { path: directory.to_owned(), is_directory: true, ..self.clone() }, name.to_owned())
    }

    /// The address as people see it, and as plans keep it.
    pub(super) fn address(&self) -> String {
        let slash = if self.path.is_empty() { "" } else { "/" };
        format!("{}://{}{slash}{}", self.scheme.name(), self.root, self.path)
    }

    /// The address of a name below it.
    pub(super) fn address_of(&self, name: &str) -> String {
        match name {
            "" => self.address(),
            name => format!("{}/{name}", self.address()),
        }
    }

    /// The key of a name below it.
    pub(super) fn key_of(&self, name: &str) -> String {
        match (self.path.as_str(), name) {
            ("", name) => name.to_owned(),
            (path, "") => path.to_owned(),
            (path, name) => format!("{path}/{name}"),
        }
    }
}

/// Splits what follows the scheme into root and path.
fn split_root(scheme: Scheme, rest: &str) -> (&str, &str) {
    let slashes = match scheme {
        Scheme::Hub if rest.starts_with("datasets/") || rest.starts_with("spaces/") => 3,
        Scheme::Hub => 2,
        _ => 1,
    };
    match rest.match_indices('/').nth(slashes - 1) {
        Some((at, _)) => (&rest[..at], &rest[at + 1..]),
        None => (rest, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    fn parsed(address: &str) -> Location {
        Location::parse(address).unwrap().unwrap()
    }

    #[test]
    fn an_address_names_a_directory_and_what_is_in_it() {
        for (address, root, directory, name) in [
            ("s3://bucket/a/b/m.index", "bucket", "a/b", "m.index"),
            ("S3://bucket/m.npz", "bucket", "", "m.npz"),
            ("gs://bucket/a/", "bucket", "a", ""),
            ("az://container", "container", "", ""),
            ("http://host:80/a/m.npz", "host:80", "a", "m.npz"),
            ("hf://owner/repo/m.safetensors", "owner/repo", "", "m.safetensors"),
            ("hf://owner/repo@refs%2Fpr%2F1/a/m", "owner/repo@refs%2Fpr%2F1", "a", "m"),
            ("hf://datasets/owner/repo/a/m", "datasets/owner/repo", "a", "m"),
            ("hf://owner/repo", "owner/repo", "", ""),
            ("memory://x/a b?c", "x", "", "a b?c"),
        ] {
            let (place, entry) = parsed(address).split();
            assert_eq!((place.root.as_str(), place.path.as_str(), entry.as_str()), (root, directory, name));
        }
    }

    #[test]
    fn a_query_belongs_to_the_address_and_is_never_shown() {
        let location = parsed("https://host/m.npz?X-Amz-Signature=secret&x=1");
        assert_eq!(location.query.as_deref(), Some("X-Amz-Signature=secret&x=1"));
        assert_eq!(location.address(), "https://host/m.npz");
        assert!(!format!("{location:?}").contains("secret"));
    }

    #[test]
    fn an_address_that_is_incomplete_or_leaves_the_store_is_refused() {
        for address in [
            "s3://",
            "s3:///m",
            "s3://b c/m",
            "s3://b/a//m",
            "s3://b/../m",
            "gs://b/./m",
            "hf://owner",
            "s3://b/a\\b",
        ] {
            assert_eq!(Location::parse(address).unwrap_err().kind(), Kind::Usage, "{address}");
        }
        for address in ["m.npz", "sftp://host/m", "a/b"] {
            assert_eq!(Location::parse(address).unwrap(), None, "{address}");
        }
    }

    #[test]
    fn an_address_with_a_password_is_refused_without_repeating_it() {
        let error = Location::parse("https://me:secret@host/m.npz").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
