//! Options of stores that are opened by address.

use super::location::Scheme;
use ckpt_api::{Error, Result};
use object_store::ClientConfigKey;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use std::fmt;
use std::sync::{PoisonError, RwLock};

/// Options for stores that are opened by address, such as the endpoint of a server that speaks S3's protocol.
///
/// Credentials are no options: they come from where each vendor's tools find them. Neither plans nor receipts keep
/// options.
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let options = ckpt::store::RemoteOptions::new().set("endpoint", "http://127.0.0.1:9000")?;
/// assert!(ckpt::store::RemoteOptions::new().set("secret_access_key", "…").is_err());
/// # drop(options);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RemoteOptions {
    pairs: Vec<(String, String)>,
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.pairs.iter().map(|(key, _)| key)).finish()
    }
}

/// What every process that runs may read on the command line of another.
const SECRETS: [&str; 12] = [
    "secret",
    "token",
    "password",
    "access_key_id",
    "access_key",
    "account_key",
    "master_key",
    "sas",
    "service_account_key",
    "customer_key",
    "encryption_key",
    "credential",
];

/// Keys of files and addresses, whose names contain those of secrets.
const NO_SECRETS: [&str; 7] = [
    "application_credentials",
    "container_credentials_relative_uri",
    "container_credentials_full_uri",
    "container_authorization_token_file",
    "web_identity_token_file",
    "federated_token_file",
    "credential_type",
];

impl RemoteOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option, in the place of an earlier one of this key. The stores that know the key take it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a key that no store knows, and for a secret.
    pub fn set(mut self, key: &str, value: &str) -> Result<Self> {
        let is_secret = SECRETS.iter().any(|secret| key.contains(secret)) && !NO_SECRETS.contains(&key);
        if is_secret {
            return Err(Error::usage(
                "a secret cannot be an option of a store: others may read the command line",
            )
            .field(key)
            .help("set the environment variable that the vendor's own tools read"));
        }
        if !(key == ENDPOINT || KNOWN.iter().any(|scheme| knows(*scheme, key))) {
            return Err(Error::usage("no store has this option").field(key).help(
                "the guide's page \"Checkpoints at URLs\" lists the options; a common one is endpoint",
            ));
        }
        self.pairs.retain(|(other, _)| other != key);
        self.pairs.push((key.to_owned(), value.to_owned()));
        Ok(self)
    }

    /// Makes these the options of all stores that this process opens by address from now on, as environment variables
    /// would be.
    pub fn use_everywhere(self) {
        *EVERYWHERE.write().unwrap_or_else(PoisonError::into_inner) = Some(self);
    }

    /// The options of the process.
    pub(super) fn everywhere() -> Self {
        EVERYWHERE.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }

    /// The options that a store of this scheme knows.
    pub(super) fn of(&self, scheme: Scheme) -> impl Iterator<Item = (&str, &str)> {
        let own = self.pairs.iter().filter(move |(key, _)| key != ENDPOINT && knows(scheme, key));
        own.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The server to ask in the place of the usual one.
    pub(super) fn endpoint(&self) -> Option<&str> {
        let mut pairs = self.pairs.iter();
        pairs.find(|(key, _)| key == ENDPOINT).map(|(_, value)| value.trim_end_matches('/'))
    }
}

const ENDPOINT: &str = "endpoint";
const KNOWN: [Scheme; 4] = [Scheme::S3, Scheme::Gs, Scheme::Az, Scheme::Https];

static EVERYWHERE: RwLock<Option<RemoteOptions>> = RwLock::new(None);

fn knows(scheme: Scheme, key: &str) -> bool {
    match scheme {
        Scheme::S3 => key.parse::<AmazonS3ConfigKey>().is_ok(),
        Scheme::Gs => key.parse::<GoogleConfigKey>().is_ok(),
        Scheme::Az => key.parse::<AzureConfigKey>().is_ok(),
        Scheme::Http | Scheme::Https | Scheme::Hub => key.parse::<ClientConfigKey>().is_ok(),
        Scheme::Memory => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    #[test]
    fn an_option_goes_to_the_stores_that_know_it() {
        let options = RemoteOptions::new().set("region", "eu").unwrap().set("allow_http", "true").unwrap();
        let options = options.set("endpoint", "http://host/").unwrap();
        let of = |scheme| options.of(scheme).map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(of(Scheme::S3), ["region", "allow_http"]);
        assert_eq!(of(Scheme::Gs), ["allow_http"]);
        assert_eq!(options.endpoint(), Some("http://host"));
    }

    #[test]
    fn a_secret_and_an_option_that_no_store_has_are_refused() {
        for key in [
            "secret_access_key",
            "aws_session_token",
            "access_key_id",
            "sas_token",
            "bearer_token",
            "endpiont",
        ] {
            let error = RemoteOptions::new().set(key, "value-of-it").unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{key}");
            assert!(!error.to_string().contains("value-of-it"));
        }
        assert!(RemoteOptions::new().set("application_credentials", "key.json").is_ok());
    }

    #[test]
    fn options_show_their_keys_and_never_their_values() {
        let options = RemoteOptions::new().set("proxy_url", "http://me:word@host").unwrap();
        assert_eq!(format!("{options:?}"), "{\"proxy_url\"}");
    }
}
