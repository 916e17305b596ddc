//! Clients of stores: built from an address, the options, and the environment.

use super::hub::Repository;
use super::location::{Location, Scheme};
use super::options::RemoteOptions;
use super::problem::Problem;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::signer::Signer;
use object_store::{ClientConfigKey, ClientOptions, HeaderValue, ObjectStore, RetryConfig};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

/// A client that writes objects in parts.
pub(super) trait Uploading: ObjectStore + MultipartStore {}

impl<T: ObjectStore + MultipartStore> Uploading for T {}

/// What a client is for: time is counted differently.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A request may take as long as it gets bytes.
    Read,
    /// The time of a request includes that of sending its body.
    Write,
}

/// A client, in the forms that the store needs.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) uploading: Option<Arc<dyn Uploading>>,
    /// Signs requests for which the client has no function.
    pub(super) signer: Option<Arc<dyn Signer>>,
    pub(super) listing: Listing,
    /// Whether a request may name the version that it wants by its ETag.
    pub(super) has_conditions: bool,
}

/// How the files of a directory are found.
#[derive(Clone)]
pub(super) enum Listing {
    /// Page by page.
    Pages(Arc<dyn PaginatedListStore>),
    /// All at once.
    Whole,
    /// The Hub has an interface of its own.
    Hub(Arc<Repository>),
    /// A web server lists nothing.
    Nothing,
}

/// How patient a client is.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    /// How often, and for how long, a server is asked again that is not ready.
    pub(super) retries: RetryConfig,
    /// The longest time without a byte.
    pub(super) stall: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        // Servers that slow clients down say when to come back, and the client does not hear it: it comes more often.
        let retries = RetryConfig { max_retries: 20, ..RetryConfig::default() };
        Patience { retries, stall: Duration::from_secs(20) }
    }
}

/// The longest that a part may take to be sent.
const SENDING: &str = "30min";
/// What ends a request that gets bytes all the time.
const READING: &str = "1day";

impl Client {
    /// # Errors
    /// What the client refuses: a wrong option, a machine without certificates.
    pub(super) fn new(
        location: &Location,
        options: &RemoteOptions,
        patience: &Patience,
        purpose: Purpose,
    ) -> Result<Self, Problem> {
        static CRYPTO: Once = Once::new();
        CRYPTO.call_once(|| {
            // An error says that the program has chosen another one before.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let settings = Settings { location, options, patience, purpose };
        match location.scheme {
            Scheme::S3 => settings.s3(),
            Scheme::Gs => settings.gs(),
            Scheme::Az => settings.az(),
            Scheme::Http | Scheme::Https => settings.web(),
            Scheme::Hub => settings.hub(),
            Scheme::Memory => Ok(Self::of_memory(&location.root)),
        }
    }

    /// The store in memory of this name: one for the whole process.
    fn of_memory(name: &str) -> Self {
        static STORES: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        let store = stores.entry(name.to_owned()).or_default().clone();
        Self::of(store.clone(), Some(store), Listing::Whole)
    }

    fn of(objects: Arc<dyn ObjectStore>, uploading: Option<Arc<dyn Uploading>>, listing: Listing) -> Self {
        Client { objects, uploading, signer: None, listing, has_conditions: true }
    }

    fn of_bucket<T: Uploading + PaginatedListStore>(store: Arc<T>) -> Self {
        Self::of(store.clone(), Some(store.clone()), Listing::Pages(store))
    }
}

struct Settings<'a> {
    location: &'a Location,
    options: &'a RemoteOptions,
    patience: &'a Patience,
    purpose: Purpose,
}

impl Settings<'_> {
    /// Settings of every client, by their keys.
    fn of_every_client(&self, endpoint: Option<&str>) -> Vec<(ClientConfigKey, String)> {
        let mut settings =
            vec![(ClientConfigKey::UserAgent, concat!("ckpt/", env!("CARGO_PKG_VERSION")).to_owned())];
        if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
            settings.push((ClientConfigKey::AllowHttp, "true".to_owned()));
        }
        match self.purpose {
            Purpose::Read => {
                settings.push((ClientConfigKey::Timeout, READING.to_owned()));
                let stall = format!("{}ms", self.patience.stall.as_millis());
                settings.push((ClientConfigKey::ReadTimeout, stall));
            }
            Purpose::Write => settings.push((ClientConfigKey::Timeout, SENDING.to_owned())),
        }
        settings
    }

    /// The endpoint of the options, or of the environment.
    fn endpoint(&self, variables: &[&str]) -> Option<String> {
        let named =
            || variables.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        self.options.endpoint().map(str::to_owned).or_else(named)
    }

    /// The given options whose keys are of this kind.
    fn own<K: FromStr>(&self) -> impl Iterator<Item = (K, String)> {
        let options = self.options.of(self.location.scheme);
        options.filter_map(|(key, value)| Some((key.parse().ok()?, value.to_owned())))
    }

    /// Builds a client, without the system's certificates if it has none and none are needed.
    fn build<B: Clone, T>(
        &self,
        endpoint: Option<&str>,
        builder: B,
        set: impl Fn(B, ClientConfigKey, String) -> B,
        build: impl Fn(B) -> object_store::Result<T>,
    ) -> Result<T, Problem> {
        let settings = self.of_every_client(endpoint).into_iter();
        let builder = settings.fold(builder, |builder, (key, value)| set(builder, key, value));
        let builder = self.own().fold(builder, |builder, (key, value)| set(builder, key, value));
        match build(builder.clone()).map_err(Problem::from) {
            Err(problem)
                if problem.text.contains("No CA certificates")
                    && endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) =>
            {
                let builder = set(builder, ClientConfigKey::NoSystemCertificates, "true".to_owned());
                build(builder).map_err(Problem::from)
            }
            built => built,
        }
    }

    fn s3(&self) -> Result<Client, Problem> {
        let endpoint = self.endpoint(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
        let mut builder = super::profile::with_profile(AmazonS3Builder::from_env())
            .with_bucket_name(&self.location.root)
            .with_retry(self.patience.retries.clone());
        if let Some(endpoint) = &endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let builder = self.own().fold(builder, |builder, (key, value)| builder.with_config(key, value));
        let set =
            |builder: AmazonS3Builder, key, value| builder.with_config(AmazonS3ConfigKey::Client(key), value);
        let store = Arc::new(self.build(endpoint.as_deref(), builder, set, AmazonS3Builder::build)?);
        Ok(Client { signer: Some(store.clone()), ..Client::of_bucket(store) })
    }

    fn gs(&self) -> Result<Client, Problem> {
        let endpoint = self.endpoint(&[]);
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(&self.location.root)
            .with_retry(self.patience.retries.clone());
        if let Some(endpoint) = &endpoint {
            builder = builder.with_base_url(endpoint);
        }
        let builder = self.own().fold(builder, |builder, (key, value)| builder.with_config(key, value));
        let set = |builder: GoogleCloudStorageBuilder, key, value| {
            builder.with_config(GoogleConfigKey::Client(key), value)
        };
        self.build(endpoint.as_deref(), builder, set, GoogleCloudStorageBuilder::build)
            .map(|store| Client::of_bucket(Arc::new(store)))
    }

    fn az(&self) -> Result<Client, Problem> {
        let endpoint = self.endpoint(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]);
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_container_name(&self.location.root)
            .with_retry(self.patience.retries.clone());
        // The names that Azure's command line reads.
        for (name, key) in [
            ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
            ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
        ] {
            if let (None, Ok(value)) = (builder.get_config_value(&key), std::env::var(name)) {
                builder = builder.with_config(key, value);
            }
        }
        if let Some(endpoint) = &endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        let builder = self.own().fold(builder, |builder, (key, value)| builder.with_config(key, value));
        let set = |builder: MicrosoftAzureBuilder, key, value| {
            builder.with_config(AzureConfigKey::Client(key), value)
        };
        self.build(endpoint.as_deref(), builder, set, MicrosoftAzureBuilder::build)
            .map(|store| Client::of_bucket(Arc::new(store)))
    }

    fn web(&self) -> Result<Client, Problem> {
        let Location { scheme, root, query, .. } = self.location;
        let query = query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let url = format!("{}://{root}/{query}", scheme.name());
        self.http(&url, ClientOptions::new(), Listing::Nothing)
    }

    fn hub(&self) -> Result<Client, Problem> {
        let repository = Repository::open(&self.location.root, self.options.endpoint())?;
        let mut headers = object_store::HeaderMap::new();
        if let Some(token) = repository.token()
            && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {token}"))
        {
            value.set_sensitive(true);
            headers.insert(reqwest::header::AUTHORIZATION, value);
        }
        let url = repository.files();
        let options = ClientOptions::new().with_default_headers(headers);
        let client = self.http(&url, options, Listing::Hub(Arc::new(repository)))?;
        // A revision that is pinned does not change, and whoever redirects knows no ETag of the file.
        Ok(Client { has_conditions: false, ..client })
    }

    fn http(&self, url: &str, options: ClientOptions, listing: Listing) -> Result<Client, Problem> {
        let builder = HttpBuilder::new()
            .with_url(url)
            .with_client_options(options)
            .with_retry(self.patience.retries.clone());
        let store = self.build(
            Some(url),
            builder,
            |builder, key, value| builder.with_config(key, value),
            HttpBuilder::build,
        )?;
        Ok(Client::of(Arc::new(store), None, listing))
    }
}
