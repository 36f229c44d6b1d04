//! Encryption with age (<https://age-encryption.org>): of objects with an identity that all machines
//! of a fleet have, and of copies to recipients whose identities they need not have.

use std::fmt;
use std::io::{self, Read, Write};

use age::stream::StreamWriter;
use age::x25519;
use age::{DecryptError, Decryptor, EncryptError, Encryptor};

/// The identity of the objects in stores. Objects are encrypted to its first key and decrypted with
/// any of its keys, so that a key can be replaced.
#[derive(Clone)]
pub struct Identity {
    first: x25519::Identity,
    others: Vec<x25519::Identity>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity([secret])")
    }
}

/// A key whose checksum is wrong. Does not contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the identity is not valid: a letter is wrong or missing")]
pub struct InvalidIdentity;

/// Why content cannot be decrypted.
#[derive(Debug)]
pub enum DecryptionError {
    /// It is encrypted to another identity, or the begin of it is damaged.
    OtherIdentity,
    /// It cannot be read, or is damaged.
    Content(io::Error),
}

impl Identity {
    /// The identity with these keys, which begin with `AGE-SECRET-KEY-1`.
    ///
    /// # Errors
    /// If one of them is not valid, or there is none.
    pub fn parse<'t>(keys: impl IntoIterator<Item = &'t str>) -> Result<Self, InvalidIdentity> {
        let keys = keys.into_iter().map(|key| key.parse().map_err(|_| InvalidIdentity));
        let mut keys = keys.collect::<Result<Vec<x25519::Identity>, _>>()?.into_iter();
        Ok(Self { first: keys.next().ok_or(InvalidIdentity)?, others: keys.collect() })
    }

    /// Encrypts what is written to the result, which must be finished, and writes it to `to`.
    ///
    /// # Errors
    /// If `to` cannot be written.
    pub fn encrypt<W: Write>(&self, to: W) -> io::Result<StreamWriter<W>> {
        encrypted(&[self.first.to_public()], to)
    }

    /// Decrypts `from`.
    ///
    /// # Errors
    /// If it is encrypted to another identity, is damaged or cannot be read.
    pub fn decrypt<R: Read>(&self, from: R) -> Result<impl Read + use<R>, DecryptionError> {
        let keys = std::iter::once(&self.first).chain(&self.others);
        let decryptor = Decryptor::new(from).map_err(of_content)?;
        decryptor.decrypt(keys.map(|key| key as &dyn age::Identity)).map_err(of_content)
    }
}

fn of_content(error: DecryptError) -> DecryptionError {
    match error {
        DecryptError::NoMatchingKeys => DecryptionError::OtherIdentity,
        DecryptError::Io(error) => DecryptionError::Content(error),
        error => DecryptionError::Content(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// Encrypts what is written to the result, which must be finished, so that only those who have an
/// identity of one of `recipients` can read it.
///
/// # Errors
/// If a recipient is not valid, or `to` cannot be written.
pub fn encrypt_to<W: Write>(recipients: &[String], to: W) -> io::Result<StreamWriter<W>> {
    let invalid =
        |error| io::Error::new(io::ErrorKind::InvalidInput, format!("encrypt_to: {error}"));
    let recipients = recipients.iter().map(|recipient| recipient.parse().map_err(invalid));
    encrypted(&recipients.collect::<Result<Vec<_>, _>>()?, to)
}

fn encrypted<W: Write>(recipients: &[x25519::Recipient], to: W) -> io::Result<StreamWriter<W>> {
    let recipients = recipients.iter().map(|recipient| recipient as &dyn age::Recipient);
    let encryptor = Encryptor::with_recipients(recipients).map_err(|error| match error {
        EncryptError::Io(error) => error,
        error => io::Error::other(error),
    })?;
    encryptor.wrap_output(to)
}

#[cfg(test)]
mod tests {
    use age::secrecy::ExposeSecret as _;
    use proptest::prelude::*;

    use super::*;

    fn key() -> String {
        x25519::Identity::generate().to_string().expose_secret().to_owned()
    }

    fn identity(keys: &[&String]) -> Identity {
        Identity::parse(keys.iter().map(|key| key.as_str())).unwrap()
    }

    fn encrypt(identity: &Identity, bytes: &[u8]) -> Vec<u8> {
        let mut writer = identity.encrypt(Vec::new()).unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    fn decrypt(identity: &Identity, bytes: &[u8]) -> Result<Vec<u8>, DecryptionError> {
        let mut read = Vec::new();
        let mut reader = identity.decrypt(bytes)?;
        reader.read_to_end(&mut read).map_err(DecryptionError::Content)?;
        Ok(read)
    }

    #[test]
    fn a_replaced_key_still_decrypts_and_the_first_one_encrypts() {
        let (old, new) = (key(), key());
        let both = identity(&[&new, &old]);
        let before = encrypt(&identity(&[&old]), b"vault");
        assert_eq!(decrypt(&both, &before).unwrap(), b"vault");
        let after = encrypt(&both, b"vault");
        assert_eq!(decrypt(&identity(&[&new]), &after).unwrap(), b"vault");
        let refused = decrypt(&identity(&[&old]), &after).unwrap_err();
        assert!(matches!(refused, DecryptionError::OtherIdentity));
    }

    #[test]
    fn a_copy_is_read_with_the_identity_of_each_recipient_and_with_no_other() {
        let keys = [key(), key(), key()];
        let recipients =
            keys.iter().take(2).map(|it| identity(&[it]).first.to_public().to_string());
        let mut writer = encrypt_to(&recipients.collect::<Vec<_>>(), Vec::new()).unwrap();
        writer.write_all(b"vault").unwrap();
        let copy = writer.finish().unwrap();
        let read = keys.each_ref().map(|it| decrypt(&identity(&[it]), &copy).is_ok());
        assert_eq!(read, [true, true, false]);
    }

    #[test]
    fn an_invalid_identity_and_its_debug_output_do_not_show_it() {
        let mut key = key();
        let shown = format!("{:?}", identity(&[&key]));
        assert_eq!(shown, "Identity([secret])");
        key.pop();
        let error = Identity::parse([key.as_str()]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(&key[16..]), "{error}");
        assert!(Identity::parse([]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn damaged_or_cut_content_is_never_read(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000), at in any::<prop::sample::Index>(), cut in any::<bool>(),
        ) {
            let identity = identity(&[&key()]);
            let whole = encrypt(&identity, &bytes);
            prop_assert_eq!(decrypt(&identity, &whole).unwrap(), bytes);
            let mut damaged = whole.clone();
            let at = at.index(whole.len());
            if cut { damaged.truncate(at) } else { damaged[at] ^= 1 }
            prop_assert!(decrypt(&identity, &damaged).is_err());
        }
    }
}
