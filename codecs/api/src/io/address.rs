//! Addresses of other machines, given where a path of this machine belongs.

use crate::Error;
use std::path::Path;

/// An address, such as `s3://bucket/model`, that was given for a path.
///
/// ```
/// use ckpt_api::Address;
/// let address = Address::of("s3://bucket/model.safetensors".as_ref()).expect("it is an address");
/// assert!(address.unreadable().context().help.is_some_and(|help| help.contains("aws s3 cp")));
/// assert!(Address::of("models/s3/model.safetensors".as_ref()).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    whole: &'a str,
    scheme: &'a str,
    rest: &'a str,
}

impl<'a> Address<'a> {
    /// The address that a path looks like: `SCHEME://…`. `None` for others.
    pub fn of(path: &'a Path) -> Option<Self> {
        let whole = path.to_str()?;
        let (scheme, rest) = whole.split_once("://")?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        is_scheme.then_some(Address { whole, scheme, rest })
    }

    /// The path as people should see it: of an address of the web, without what follows a question mark, which may be a
    /// signature.
    ///
    /// ```
    /// use ckpt_api::Address;
    /// assert_eq!(Address::display("https://host/m.npz?sig=secret".as_ref()), "https://host/m.npz");
    /// assert_eq!(Address::display("models/what?.npz".as_ref()), "models/what?.npz");
    /// ```
    pub fn display(path: &Path) -> String {
        Address::of(path).map_or_else(|| path.display().to_string(), |address| address.shown().to_owned())
    }

    /// The error for an address that cannot be read: how to get the files, or reach them as files.
    pub fn unreadable(&self) -> Error {
        let help = match self.store() {
            Store::Here => format!("write the path alone: {}", self.rest),
            Store::Bucket { copy, mount } => format!(
                "copy the checkpoint to this machine first, with all its files, such as with `{copy}`; or mount the bucket, \
                 such as with {mount}"
            ),
            Store::Hub => format!(
                "download it first, such as with `hf download {}`",
                self.rest.splitn(3, '/').take(2).collect::<Vec<_>>().join("/")
            ),
            Store::Web => "download it first, with all its files, such as with `curl -LO URL`".to_owned(),
            Store::Other => "copy it to this machine first".to_owned(),
        };
        let help = help + if self.is_remote() { READS } else { "" };
        Error::unsupported("an address cannot be read, only files of this machine")
            .file(self.shown())
            .help(help)
    }

    /// The error for an address that cannot be written to.
    pub fn unwritable(&self) -> Error {
        let help = match self.store() {
            Store::Here => format!("write the path alone: {}", self.rest),
            Store::Bucket { copy, .. } => {
                format!("write to this machine first, then copy the output, such as with `{copy}`")
            }
            Store::Hub => {
                "write to this machine first, then upload the output, such as with `hf upload`".to_owned()
            }
            Store::Web | Store::Other => "write to this machine first, then upload the output".to_owned(),
        };
        let is_written = matches!(self.store(), Store::Bucket { .. }) && self.is_remote();
        let help = help + if is_written { WRITES } else { "" };
        Error::unsupported("an address cannot be written, only files of this machine")
            .file(self.shown())
            .help(help)
    }

    /// The address without what follows a question mark, which may be a signature.
    fn shown(&self) -> &'a str {
        let is_web = matches!(self.store(), Store::Web);
        self.whole.split_once('?').filter(|_| is_web).map_or(self.whole, |(shown, _)| shown)
    }

    /// Whether the feature `remote` knows the scheme.
    fn is_remote(&self) -> bool {
        const SCHEMES: [&str; 6] = ["s3", "gs", "az", "hf", "http", "https"];
        SCHEMES.iter().any(|scheme| self.scheme.eq_ignore_ascii_case(scheme))
    }

    fn store(&self) -> Store {
        let bucket = |copy, mount| Store::Bucket { copy, mount };
        match self.scheme.to_ascii_lowercase().as_str() {
            "file" => Store::Here,
            "s3" | "s3a" => bucket("aws s3 cp", "mount-s3"),
            "gs" | "gcs" => bucket("gcloud storage cp", "gcsfuse"),
            "az" | "abfs" | "abfss" => bucket("azcopy copy", "blobfuse2"),
            "hf" => Store::Hub,
            "http" | "https" | "ftp" => Store::Web,
            _ => Store::Other,
        }
    }
}

/// What a build of ckpt can do that this one, or this place in it, cannot.
const READS: &str = "; a ckpt with the Cargo feature `remote` reads checkpoints at such addresses";
const WRITES: &str = "; a ckpt with the Cargo feature `remote` writes to such addresses";

/// What an address leads to.
enum Store {
    Here,
    /// Object storage: the commands that copy and that mount.
    Bucket {
        copy: &'static str,
        mount: &'static str,
    },
    Hub,
    Web,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_how_its_files_get_here_and_back() {
        for (address, read, write) in [
            ("s3://b/m.index", "`aws s3 cp`", "`aws s3 cp`"),
            ("GS://b/m", "gcsfuse", "gcloud storage cp"),
            ("az://b/m", "blobfuse2", "azcopy copy"),
            ("hf://google/vit/model.safetensors", "`hf download google/vit`", "hf upload"),
            ("https://host/m.npz", "curl -LO", "then upload"),
            ("sftp://host/m.npz", "copy it to this machine", "then upload"),
            ("file:///home/m.npz", "the path alone: /home/m.npz", "the path alone: /home/m.npz"),
        ] {
            let address = Address::of(Path::new(address)).unwrap();
            for (error, says) in [(address.unreadable(), read), (address.unwritable(), write)] {
                assert!(error.context().help.is_some_and(|help| help.contains(says)), "{says}: {error}");
            }
        }
    }

    #[test]
    fn the_error_names_the_feature_that_is_missing_and_no_signature() {
        let address = Address::of(Path::new("https://host/m.npz?X-Amz-Signature=secret")).unwrap();
        let error = address.unreadable().to_string();
        assert!(error.contains("feature `remote`") && !error.contains("secret"), "{error}");
        let error = Address::of(Path::new("sftp://host/m.npz")).unwrap().unreadable().to_string();
        assert!(!error.contains("feature"), "{error}");
    }

    #[test]
    fn what_only_resembles_an_address_is_a_path() {
        for path in ["m.npz", "C:\\m.npz", "a/b://c", "://m", "3://m", "/s3://b/m", "m:/n"] {
            assert_eq!(Address::of(Path::new(path)), None, "{path}");
        }
    }
}
