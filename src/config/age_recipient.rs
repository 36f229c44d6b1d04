//! Checks the recipients of encrypted copies: public keys of age, in the notation Bech32.

use super::values::{ConfigValueError, fault};

const PREFIX: &str = "age1";

/// The 32 letters of Bech32, by their value.
const LETTERS: &str = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// The length of a recipient: the prefix, 256 bits and the checksum of 30 bits.
const LENGTH: usize = 4 + 52 + 6;

/// Checks a recipient. The error does not show it: it may be a secret.
///
/// # Errors
/// If it is not an X25519 recipient of age.
pub(super) fn age_recipient(text: &str) -> Result<(), ConfigValueError> {
    if text.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("AGE-")) {
        return fault(
            "is the secret half of a key; use the public one, which begins with `age1` \
             (`age-keygen -y FILE` prints it)",
        );
    }
    if !text.starts_with(PREFIX) || text[PREFIX.len()..].contains('1') {
        return fault("must be recipients of age that begin with `age1`; others are not supported");
    }
    let values: Option<Vec<u32>> = text[PREFIX.len()..]
        .chars()
        .map(|letter| LETTERS.find(letter).and_then(|value| u32::try_from(value).ok()))
        .collect();
    match values {
        Some(values) if text.len() == LENGTH && checksum(&values) == 1 => Ok(()),
        _ => fault("has a recipient that is not complete, or has a wrong letter"),
    }
}

/// The checksum of Bech32 (BIP 173) over the prefix `age` and these values; 1 if it is right.
fn checksum(values: &[u32]) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let prefix = || PREFIX.bytes().take(3).map(u32::from);
    let all = prefix().map(|letter| letter >> 5);
    let all = all.chain([0]).chain(prefix().map(|letter| letter & 31));
    all.chain(values.iter().copied()).fold(1, |sum, value| {
        let top = sum >> 25;
        let next = (sum & 0x01ff_ffff) << 5 ^ value;
        let bits = GENERATOR.iter().enumerate().filter(|(bit, _)| top >> bit & 1 == 1);
        bits.fold(next, |next, (_, generator)| next ^ generator)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPIENT: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

    #[test]
    fn a_recipient_of_age_is_accepted() {
        assert_eq!(age_recipient(RECIPIENT), Ok(()));
        let other = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg";
        assert_eq!(age_recipient(other), Ok(()));
    }

    #[test]
    fn each_wrong_letter_is_found() {
        for at in 4..RECIPIENT.len() {
            let other = if &RECIPIENT[at..=at] == "q" { "p" } else { "q" };
            let wrong = format!("{}{other}{}", &RECIPIENT[..at], &RECIPIENT[at + 1..]);
            assert!(age_recipient(&wrong).is_err(), "{wrong}");
            assert!(age_recipient(&RECIPIENT[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn other_keys_are_refused() {
        for text in ["", "ssh-ed25519 AAAA", "age1yubikey1qqq", "AGE1QL3", "age", "ü", "äge1x"] {
            let error = age_recipient(text).unwrap_err().to_string();
            assert!(error.starts_with("must be recipients of age"), "{text}: {error}");
        }
        for text in ["AGE-SECRET-KEY-1QQQ", "age-secret-key-1qqq"] {
            let error = age_recipient(text).unwrap_err().to_string();
            assert!(error.starts_with("is the secret half of a key") && !error.contains("qqq"));
        }
    }
}
