//! Objects of a store: a vault's file, compressed and perhaps encrypted.

use std::fs::File;
use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

use super::encryption::{DecryptionError, Identity};
use super::head::hex;

/// Packs `plain` into `to`, encrypted if there is an identity. Returns it with the digest and the
/// size of `plain`.
///
/// # Errors
/// If one of the files cannot be read or written.
pub fn pack(
    plain: &mut File,
    to: File,
    identity: Option<&Identity>,
) -> io::Result<(File, String, u64)> {
    match identity {
        None => compress(plain, to),
        Some(identity) => {
            let (writer, digest, size) = compress(plain, identity.encrypt(to)?)?;
            Ok((writer.finish()?, digest, size))
        }
    }
}

fn compress<W: Write>(plain: &mut File, to: W) -> io::Result<(W, String, u64)> {
    let mut encoder = zstd::stream::write::Encoder::new(to, zstd::DEFAULT_COMPRESSION_LEVEL)?;
    encoder.include_checksum(true)?;
    let (digest, size) = copy(plain, &mut encoder, u64::MAX).map_err(|error| match error {
        UnpackError::Object(error) | UnpackError::File(error) => error,
        UnpackError::OtherIdentity | UnpackError::TooLarge => io::ErrorKind::Other.into(),
    })?;
    Ok((encoder.finish()?, digest, size))
}

/// Why an object cannot be unpacked.
#[derive(Debug)]
pub enum UnpackError {
    /// It is damaged.
    Object(io::Error),
    /// It is encrypted to another identity.
    OtherIdentity,
    /// Its content has more bytes than it should have.
    TooLarge,
    /// The file cannot be written.
    File(io::Error),
}

/// Unpacks `packed` into `to`, at most `most` bytes. Returns the digest of the content. An object
/// that is encrypted needs an identity.
///
/// # Errors
/// [`UnpackError`].
pub fn unpack(
    packed: File,
    to: &mut File,
    identity: Option<&Identity>,
    most: u64,
) -> Result<String, UnpackError> {
    match identity {
        None => decompress(packed, to, most),
        Some(identity) => {
            let packed = identity.decrypt(packed).map_err(|error| match error {
                DecryptionError::OtherIdentity => UnpackError::OtherIdentity,
                DecryptionError::Content(error) => UnpackError::Object(error),
            })?;
            decompress(packed, to, most)
        }
    }
}

fn decompress(packed: impl Read, to: &mut File, most: u64) -> Result<String, UnpackError> {
    let mut decoder = zstd::stream::read::Decoder::new(packed).map_err(UnpackError::Object)?;
    Ok(copy(&mut decoder, to, most)?.0)
}

/// Copies at most `most` bytes. Returns their digest and number.
fn copy(
    from: &mut impl Read,
    to: &mut impl Write,
    most: u64,
) -> Result<(String, u64), UnpackError> {
    let mut digest = Sha256::new();
    let mut part = vec![0; 1 << 16];
    let mut size = 0;
    loop {
        let read = from.read(&mut part).map_err(UnpackError::Object)?;
        if read == 0 {
            return Ok((hex(&digest.finalize()), size));
        }
        size += read as u64;
        if size > most {
            return Err(UnpackError::TooLarge);
        }
        digest.update(&part[..read]);
        to.write_all(&part[..read]).map_err(UnpackError::File)?;
    }
}
