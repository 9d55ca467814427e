//! Buckets of S3, Google Cloud Storage and Azure, with the credentials of the environment.

use std::env;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, Once, PoisonError};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3CopyIfNotExists};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};

use super::profile::Profile;
use crate::error::{ErrorKind, Result};
use crate::remote::environment::ProxyVariable;

/// A provider of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provider {
    S3,
    Google,
    Azure,
}

/// An object in a store: the bucket, and the key in it.
pub(super) struct Object {
    provider: Provider,
    bucket: String,
    pub(super) key: Path,
    /// The connections, and the process that they belong to.
    store: Mutex<Option<(u32, Arc<dyn ObjectStore>)>>,
}

/// How often a failed request is repeated.
const RETRIES: usize = 4;

/// Settings of connections: the end of the environment variable that changes it, and the default here.
const CLIENT: [(ClientConfigKey, &str, &str); 3] = [
    (ClientConfigKey::ConnectTimeout, "CONNECT_TIMEOUT", "10 seconds"),
    (ClientConfigKey::ReadTimeout, "READ_TIMEOUT", "30 seconds"),
    // Of a whole request with its body, which can be long and the network slow.
    (ClientConfigKey::Timeout, "TIMEOUT", "10 minutes"),
];

impl Object {
    /// Parses `s3://BUCKET/KEY`, `gs://BUCKET/KEY` or `az://CONTAINER/KEY`. A key is taken as it is: no character of it
    /// has a meaning.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let malformed = |instead: &str| ErrorKind::Unsupported {
            what: format!("open `{url}` as a URL"),
            instead: instead.to_owned(),
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| malformed("it has no scheme"))?;
        let provider = match scheme.to_ascii_lowercase().as_str() {
            "s3" => Provider::S3,
            "gs" => Provider::Google,
            "az" => Provider::Azure,
            _ => return Err(malformed("known are s3, gs and az").into()),
        };
        let form = format!("the form is {scheme}://{}/KEY", provider.bucket());
        let (bucket, key) = rest.split_once('/').ok_or_else(|| malformed(&form))?;
        if bucket.is_empty() || key.is_empty() || key.ends_with('/') {
            return Err(malformed(&form).into());
        }
        let key = parse_key(key).map_err(|error| malformed(&error))?;
        Ok(Self { provider, bucket: bucket.to_owned(), key, store: Mutex::new(None) })
    }

    /// Returns another object of the bucket.
    pub(super) fn with_key(&self, key: &str) -> Result<Self> {
        let key = parse_key(key).map_err(|error| ErrorKind::Unsupported {
            what: format!("use the key `{}`", key.escape_debug()),
            instead: error,
        })?;
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Self { provider: self.provider, bucket: self.bucket.clone(), key, store: Mutex::new(store) })
    }

    /// Returns the object of a name in the same folder. The name is one segment or more of a key.
    pub(super) fn sibling(&self, name: &str) -> Result<Self> {
        let key = self.key.as_ref();
        let folder = key.rfind('/').map_or("", |end| &key[..=end]);
        self.with_key(&format!("{folder}{name}"))
    }

    /// Returns the URL.
    pub(super) fn url(&self) -> String {
        let scheme = match self.provider {
            Provider::S3 => "s3",
            Provider::Google => "gs",
            Provider::Azure => "az",
        };
        format!("{scheme}://{}/{}", self.bucket, self.key)
    }

    /// Returns the store, with connections of this process.
    pub(super) fn store(&self) -> io::Result<Arc<dyn ObjectStore>> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some((owner, store)) = &*store
            && *owner == process
        {
            return Ok(Arc::clone(store));
        }
        install_tls();
        let new = match self.provider {
            Provider::S3 => s3(&self.bucket),
            Provider::Google => google(&self.bucket),
            Provider::Azure => azure(&self.bucket),
        };
        let new = new.map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        *store = Some((process, Arc::clone(&new)));
        Ok(new)
    }

    /// Returns advice for a request that was refused.
    pub(super) fn advice(&self) -> &'static str {
        match self.provider {
            Provider::S3 => {
                "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from the profile AWS_PROFILE in \
                 ~/.aws, or from the machine; a public bucket needs AWS_SKIP_SIGNATURE=true; the region is AWS_REGION"
            }
            Provider::Google => {
                "credentials come from GOOGLE_APPLICATION_CREDENTIALS, or from the machine; a public bucket needs \
                 GOOGLE_SKIP_SIGNATURE=true"
            }
            Provider::Azure => {
                "the account is AZURE_STORAGE_ACCOUNT_NAME, and its key AZURE_STORAGE_ACCOUNT_KEY or \
                 AZURE_STORAGE_SAS_TOKEN; a public container needs AZURE_SKIP_SIGNATURE=true"
            }
        }
    }
}

/// Parses a key, and takes nothing away from it: `/a` and `a/` are other objects than `a`.
fn parse_key(key: &str) -> Result<Path, String> {
    let parsed = Path::parse(key).map_err(|error| error.to_string())?;
    if parsed.as_ref() != key {
        return Err("a key that begins or ends with a slash is not supported".to_owned());
    }
    Ok(parsed)
}

impl Provider {
    /// Returns the word for a bucket.
    fn bucket(self) -> &'static str {
        if self == Self::Azure { "CONTAINER" } else { "BUCKET" }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Object").field(&self.url()).finish()
    }
}

// `object_store` leaves it to the package that uses it to turn on TLS: without that feature, there is no such type.
const _: Option<reqwest::Certificate> = None;

/// Sets the cryptography of TLS for this process, unless the program has.
fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that the program has chosen one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

fn retry() -> RetryConfig {
    RetryConfig { max_retries: RETRIES, ..RetryConfig::default() }
}

/// Fails if the proxy for a store cannot be used: its client would connect without it. `endpoint` is a URL, and `host`
/// is that of the provider.
fn check_proxy(endpoint: Option<String>, host: &str) -> Result<(), String> {
    let endpoint = endpoint.unwrap_or_default();
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("https", host));
    let is_https = !scheme.eq_ignore_ascii_case("http");
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (authority, None),
    };
    let port = port.unwrap_or(if is_https { 443 } else { 80 });
    ProxyVariable::of(is_https, host, port, &|name| env::var(name).ok()).map(drop)
}

type Built = Result<Arc<dyn ObjectStore>, String>;

/// Returns the settings of connections that no environment variable with this prefix changes.
fn client_settings(prefix: &str) -> impl Iterator<Item = (ClientConfigKey, &'static str)> {
    let is_default = move |end: &str| env::var_os(format!("{prefix}_{end}")).is_none();
    CLIENT.into_iter().filter(move |(_, end, _)| is_default(end)).map(|(key, _, value)| (key, value))
}

fn s3(bucket: &str) -> Built {
    /// Variables with credentials of a machine instead of a user.
    const FROM_MACHINE: [&str; 3] =
        ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"];
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry());
    for (key, value) in client_settings("AWS") {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    let get = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
    let needs_keys = get(AmazonS3ConfigKey::AccessKeyId).is_none()
        && get(AmazonS3ConfigKey::SkipSignature).is_none_or(|skips| skips != "true")
        && !FROM_MACHINE.into_iter().any(|variable| env::var_os(variable).is_some());
    let (has_region, has_endpoint) = (
        get(AmazonS3ConfigKey::Region).is_some(),
        get(AmazonS3ConfigKey::Endpoint).or(get(AmazonS3ConfigKey::S3Endpoint)).is_some(),
    );
    let copies = get(AmazonS3ConfigKey::CopyIfNotExists).is_some();

    let profile = Profile::load(needs_keys)?;
    if needs_keys && let Some((id, secret)) = profile.keys {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        if let Some(token) = profile.token {
            builder = builder.with_token(token);
        }
    }
    if !has_region && let Some(region) = profile.region {
        builder = builder.with_region(region);
    }
    if !has_endpoint && let Some(endpoint) = profile.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if !copies {
        builder = builder.with_copy_if_not_exists(S3CopyIfNotExists::Multipart);
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    check_proxy(endpoint.or(builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint)), "s3.amazonaws.com")?;
    builder.build().map(|store| Arc::new(store) as _).map_err(|error| error.to_string())
}

fn google(bucket: &str) -> Built {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry());
    for (key, value) in client_settings("GOOGLE") {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    check_proxy(None, "storage.googleapis.com")?;
    builder.build().map(|store| Arc::new(store) as _).map_err(|error| error.to_string())
}

fn azure(container: &str) -> Built {
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(container).with_retry(retry());
    for (key, value) in client_settings("AZURE") {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    check_proxy(builder.get_config_value(&AzureConfigKey::Endpoint), "blob.core.windows.net")?;
    builder.build().map(|store| Arc::new(store) as _).map_err(|error| error.to_string())
}
