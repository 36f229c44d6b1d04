//! The objects of a vault in the bucket of a service: Amazon S3 and compatible, Azure Blob Storage,
//! Google Cloud Storage. Credentials and endpoint are those of the service's own tools, from
//! environment variables.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, ClientOptions, Error, GetOptions, ObjectStore, ObjectStoreExt as _, PutMode,
    PutOptions, PutPayload, RetryConfig, UpdateVersion, WriteMultipart,
};
use tokio::runtime::{Builder, Runtime};

use super::error::{StoreError, StoreErrorKind};
use super::object_tag::{ConditionalPut, ObjectTag};
use crate::config::{StoreScheme, VaultAddress};

/// The objects of one vault in a bucket.
#[derive(Debug)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    runtime: Runtime,
}

/// The size of a part of an object that is sent in several.
const PART: usize = 8 << 20;

/// The largest number of parts that are sent at the same time.
const PARTS_AT_ONCE: usize = 2;

/// Requests are repeated for this time when the service is busy or does not answer.
const RETRY: RetryConfig = RetryConfig {
    backoff: BackoffConfig {
        init_backoff: Duration::from_millis(200),
        max_backoff: Duration::from_secs(5),
        base: 2.0,
    },
    max_retries: 4,
    retry_timeout: Duration::from_secs(30),
};

impl Bucket {
    /// The objects at `address`, in the store that the environment variables describe.
    ///
    /// # Errors
    /// If these are invalid.
    pub fn open(address: &VaultAddress) -> Result<Self, StoreError> {
        // A process has one provider; it may have been installed for another vault.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = ClientOptions::new()
            .with_connect_timeout(Duration::from_secs(10))
            .with_timeout_disabled()
            .with_read_timeout(Duration::from_secs(60));
        let bucket = address.bucket.as_str();
        // An endpoint that is written as `http://` is meant.
        let plain = |names: &[&str]| {
            let values = names.iter().filter_map(|name| std::env::var(name).ok());
            values.into_iter().any(|value| value.starts_with("http://"))
        };
        let store: Result<Arc<dyn ObjectStore>, Error> = match address.scheme {
            StoreScheme::Azure => MicrosoftAzureBuilder::from_env()
                .with_client_options(options)
                .with_container_name(bucket)
                .with_allow_http(plain(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]))
                .with_retry(RETRY)
                .build()
                .map(|store| Arc::new(store) as _),
            StoreScheme::Google => GoogleCloudStorageBuilder::from_env()
                .with_client_options(options.with_allow_http(plain(&["GOOGLE_BASE_URL"])))
                .with_bucket_name(bucket)
                .with_retry(RETRY)
                .build()
                .map(|store| Arc::new(store) as _),
            StoreScheme::S3 | StoreScheme::File => AmazonS3Builder::from_env()
                .with_client_options(options)
                .with_bucket_name(bucket)
                .with_allow_http(plain(&[
                    "AWS_ENDPOINT_URL",
                    "AWS_ENDPOINT_URL_S3",
                    "AWS_ENDPOINT",
                ]))
                .with_disable_bulk_delete(true)
                .with_retry(RETRY)
                .build()
                .map(|store| Arc::new(store) as _),
        };
        let store = store.map_err(|error| failed("the store", &error))?;
        Self::new(store, &address.path)
    }

    /// The objects of `store` whose names begin with `prefix`.
    ///
    /// # Errors
    /// If `prefix` is not a valid name, or the system has no threads or sockets left.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, StoreError> {
        let prefix = ObjectPath::parse(prefix).map_err(|error| failed(prefix, &error.into()))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| StoreError::new(StoreErrorKind::Unavailable, error.to_string()))?;
        Ok(Self { store, prefix, runtime })
    }

    fn path(&self, name: &str) -> ObjectPath {
        self.prefix.clone().join(name)
    }

    /// As [`super::objects::Objects::read`].
    ///
    /// # Errors
    /// If the store cannot be read, or the object is larger than `most` bytes.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<(Vec<u8>, ObjectTag)>, StoreError> {
        let read = self.runtime.block_on(async {
            let found = self.store.get_opts(&self.path(name), GetOptions::default()).await?;
            let tag =
                ObjectTag { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            if found.meta.size > most {
                return Ok(None);
            }
            Ok(Some((found.bytes().await?.to_vec(), tag)))
        });
        match read {
            Ok(Some(read)) => Ok(Some(read)),
            Ok(None) => Err(StoreError::too_large(name, most)),
            Err(error) if is_missing_object(&error) => Ok(None),
            Err(error) => Err(failed(name, &error)),
        }
    }

    /// As [`super::objects::Objects::download`].
    ///
    /// # Errors
    /// If the store cannot be read, the object is larger, or `to` cannot be written.
    pub fn download(&self, name: &str, to: &mut File, most: u64) -> Result<bool, StoreError> {
        self.runtime.block_on(async {
            let found = match self.store.get(&self.path(name)).await {
                Ok(found) => found,
                Err(error) if is_missing_object(&error) => return Ok(false),
                Err(error) => return Err(failed(name, &error)),
            };
            if found.meta.size > most {
                return Err(StoreError::too_large(name, most));
            }
            let mut parts = found.into_stream();
            let mut left = most;
            while let Some(part) = parts.next().await {
                let part = part.map_err(|error| failed(name, &error))?;
                left = left
                    .checked_sub(part.len() as u64)
                    .ok_or_else(|| StoreError::too_large(name, most))?;
                to.write_all(&part).map_err(|error| local(&error))?;
            }
            Ok(true)
        })
    }

    /// As [`super::objects::Objects::upload`]. An object of more than one part is sent in parts.
    ///
    /// # Errors
    /// If the store cannot be written, or `from` cannot be read.
    pub fn upload(&self, name: &str, from: &mut File) -> Result<(), StoreError> {
        let path = self.path(name);
        let fail = |error: Error| failed(name, &error);
        self.runtime.block_on(async {
            let first = part(from)?;
            if first.len() < PART {
                let put = self.store.put(&path, PutPayload::from(first));
                return put.await.map(drop).map_err(fail);
            }
            let upload = self.store.put_multipart(&path).await.map_err(fail)?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
            let mut next = Ok(first);
            loop {
                match next {
                    Ok(part) if part.is_empty() => {
                        return upload.finish().await.map(drop).map_err(fail);
                    }
                    Ok(part) => upload.write(&part),
                    Err(error) => {
                        // Parts of an object that is not finished take space.
                        let _ = upload.abort().await;
                        return Err(error);
                    }
                }
                next = match upload.wait_for_capacity(PARTS_AT_ONCE).await {
                    Ok(()) => part(from),
                    Err(error) => Err(fail(error)),
                };
            }
        })
    }

    /// As [`super::objects::Objects::put_if`].
    ///
    /// # Errors
    /// If the store cannot be written, or its answer is lost.
    pub fn put_if(
        &self,
        name: &str,
        bytes: &[u8],
        expected: Option<&ObjectTag>,
    ) -> Result<ConditionalPut, StoreError> {
        let mode = expected.map_or(PutMode::Create, |tag| {
            let ObjectTag { e_tag, version } = tag.clone();
            PutMode::Update(UpdateVersion { e_tag, version })
        });
        let options = PutOptions::from(mode);
        let payload = PutPayload::from(bytes.to_vec());
        match self.runtime.block_on(self.store.put_opts(&self.path(name), payload, options)) {
            Ok(put) => {
                Ok(ConditionalPut::Written(ObjectTag { e_tag: put.e_tag, version: put.version }))
            }
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                Ok(ConditionalPut::Refused)
            }
            Err(error) => Err(failed(name, &error)),
        }
    }

    /// As [`super::objects::Objects::remove`].
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        match self.runtime.block_on(self.store.delete(&self.path(name))) {
            Err(Error::NotFound { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(failed(name, &error)),
        }
    }
}

impl Bucket {
    /// As [`super::objects::Objects::names`].
    ///
    /// # Errors
    /// If the store cannot be read, or refuses to list.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let listed = self.store.list_with_delimiter(Some(&self.prefix));
        let listed = self.runtime.block_on(listed).map_err(|error| failed("the list", &error))?;
        let names = listed.objects.iter().filter_map(|it| it.location.filename());
        Ok(names.map(str::to_owned).collect())
    }
}

/// The next part of a file; empty at its end.
fn part(from: &mut File) -> Result<Vec<u8>, StoreError> {
    let mut part = Vec::new();
    from.take(PART as u64).read_to_end(&mut part).map_err(|error| local(&error))?;
    Ok(part)
}

fn local(error: &std::io::Error) -> StoreError {
    StoreError::new(StoreErrorKind::Local, error.to_string())
}

/// Whether the object is missing, not the bucket.
fn is_missing_object(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. }) && !is_missing_bucket(&error.to_string())
}

/// The names of the error in Amazon S3, Azure and Google Cloud Storage.
fn is_missing_bucket(text: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"]
        .iter()
        .any(|name| text.contains(name))
}

/// Whether the time of the request is too far from that of the service: the errors of Amazon S3,
/// Azure, and Google Cloud Storage.
fn is_wrong_clock(text: &str) -> bool {
    ["RequestTimeTooSkewed", "Request date header too old", "reasonable timeframe"]
        .iter()
        .any(|name| text.contains(name))
}

/// The error with its kind and its cause in one line.
fn failed(name: &str, error: &Error) -> StoreError {
    let text = error.to_string();
    let kind = match error {
        _ if is_missing_bucket(&text) => StoreErrorKind::NoBucket,
        _ if is_wrong_clock(&text) => StoreErrorKind::Clock,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => StoreErrorKind::Refused,
        Error::NotImplemented { .. } | Error::NotSupported { .. } => StoreErrorKind::NoConditions,
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::new(kind, format!("{name}: {}", cause(error, &text)))
}

/// The error that the service gave in its answer, or else the first cause.
fn cause(error: &Error, text: &str) -> String {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.trim().to_owned())
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => return format!("{message} ({code})"),
        (Some(one), None) | (None, Some(one)) => return one,
        (None, None) => {}
    }
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let text = last.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
