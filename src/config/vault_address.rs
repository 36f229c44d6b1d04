//! The address of a vault in an object store, such as `s3://bucket/prefix/main`.

use std::fmt;

use super::values::{ConfigValueError, fault, require_feature};

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreScheme {
    /// A folder.
    File,
    /// Amazon S3, or a service that speaks its protocol.
    S3,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Google,
}

impl StoreScheme {
    const ALL: [(&'static str, Self); 4] =
        [("s3", Self::S3), ("az", Self::Azure), ("gs", Self::Google), ("file", Self::File)];

    /// The name in an address, before `://`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, scheme)| *scheme == self).map_or("", |(name, _)| name)
    }
}

/// The address of a vault in an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultAddress {
    /// The kind of store.
    pub scheme: StoreScheme,
    /// The bucket or container; empty for a folder.
    pub bucket: String,
    /// The prefix of the names of the vault's objects, without a slash at either end; for a folder,
    /// its absolute path.
    pub path: String,
}

impl fmt::Display for VaultAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, bucket, path } = self;
        match scheme {
            StoreScheme::File => write!(f, "file://{path}"),
            _ => write!(f, "{}://{bucket}/{path}", scheme.name()),
        }
    }
}

/// Whether the value of `vault` is an address, not a path: it begins with `scheme://`.
pub(super) fn is_address(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    })
}

/// Parses the address of a vault in an object store. In a program that cannot use it, this is an
/// error.
pub(super) fn parse_vault_address(text: &str) -> Result<VaultAddress, ConfigValueError> {
    let address = parse(text)?;
    require_feature("is an address in an object store")?;
    Ok(address)
}

fn parse(text: &str) -> Result<VaultAddress, ConfigValueError> {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let known = StoreScheme::ALL.iter().find(|(name, _)| *name == scheme);
    let Some((_, scheme)) = known else {
        return fault(format!(
            "unknown kind of store `{scheme}://`; use s3://, az://, gs:// or file://"
        ));
    };
    let (bucket, path) = match scheme {
        StoreScheme::File if rest.starts_with('/') => ("", rest.trim_end_matches('/')),
        StoreScheme::File => {
            return fault("must be an absolute path, such as file:///srv/vaults/main");
        }
        _ => {
            let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
            (bucket, path.trim_end_matches('/'))
        }
    };
    if path.is_empty() || bucket.is_empty() && *scheme != StoreScheme::File {
        let name = scheme.name();
        return fault(format!(
            "must name a bucket and the vault in it: {name}://bucket/prefix/NAME"
        ));
    }
    // Letters that every store keeps as they are.
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.=".contains(letter);
    let segment = |part: &str| !part.is_empty() && part != "." && part != "..";
    let parts = match scheme {
        StoreScheme::File => path.trim_start_matches('/').split('/'),
        _ => path.split('/'),
    };
    let mut names = std::iter::once(bucket).filter(|it| !it.is_empty()).chain(parts.clone());
    if !parts.clone().all(segment) {
        return fault("has an empty name, `.` or `..` between two slashes");
    }
    if *scheme != StoreScheme::File && !names.all(|name| name.chars().all(allowed)) {
        return fault("has other characters than letters, digits, `-`, `_`, `.`, `=` and `/`");
    }
    Ok(VaultAddress { scheme: *scheme, bucket: bucket.to_owned(), path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_with_a_scheme_is_an_address() {
        for text in ["s3://b/main", "file:///srv/main", "ftp://x/y", "s3a+x://b"] {
            assert!(is_address(text), "{text}");
        }
        for text in ["/srv/main.db", "main.db", "~/vaults/main.db", "a b://c", "://x", "s3:/b"] {
            assert!(!is_address(text), "{text}");
        }
    }

    #[test]
    fn an_address_is_shown_as_it_was_written() {
        for text in ["s3://bucket/prefix/main", "az://c/main", "gs://b/a=1/main", "file:///srv/a b"]
        {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let address = parse("s3://bucket/prefix/main/").unwrap();
        assert_eq!((address.bucket.as_str(), address.path.as_str()), ("bucket", "prefix/main"));
    }

    #[test]
    fn each_wrong_address_is_refused_with_its_mistake() {
        let refused = [
            ("ftp://host/main", "unknown kind of store `ftp://`"),
            ("s3://bucket", "must name a bucket"),
            ("s3:///main", "must name a bucket"),
            ("file://srv/main", "must be an absolute path"),
            ("s3://bucket/../main", "has an empty name"),
            ("s3://bucket//main", "has an empty name"),
            ("s3://user:key@bucket/main", "has other characters"),
            ("s3://bucket/main?x=1", "has other characters"),
        ];
        for (text, message) in refused {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }

    #[test]
    fn a_program_without_the_feature_names_the_command_that_builds_it() {
        let parsed = parse_vault_address("s3://bucket/main");
        assert_eq!(parsed.is_ok(), cfg!(feature = "fleet"), "{parsed:?}");
        if let Err(error) = parsed {
            let expected = "is an address in an object store, for which this program was not built; \
                            `cargo install --path . --locked --features fleet` builds one that has it";
            assert_eq!(error.to_string(), expected);
        }
    }
}
