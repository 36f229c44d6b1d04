//! Parses the fields of a request's body, and refuses values that the API document does not allow.

use serde_json::{Map, Value};

use super::behaviour::{Behaviour, Unlisted};

/// A response with `error` 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRefusal {
    pub status: u16,
    pub message: String,
}

impl RequestRefusal {
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The request is invalid.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    /// The path exists with another method.
    pub fn wrong_method() -> Self {
        Self::new(405, "This method is not supported at this address.")
    }

    /// The document has no such path.
    pub fn wrong_path() -> Self {
        Self::new(404, "There is nothing at this address.")
    }

    /// The record does not exist.
    pub fn unknown(what: &str) -> Self {
        Self::new(404, format!("The {what} does not exist."))
    }
}

/// The fields of one body.
#[derive(Debug)]
pub struct RequestFields(Map<String, Value>);

impl RequestFields {
    /// Parses a body; a missing body has no fields.
    pub fn read(
        body: Option<&[u8]>,
        listed: &[&str],
        behaviour: &Behaviour,
    ) -> Result<Self, RequestRefusal> {
        let fields = match body {
            None | Some([]) => Map::new(),
            Some(bytes) => match serde_json::from_slice(bytes) {
                Ok(Value::Object(fields)) => fields,
                Ok(_) => {
                    return Err(RequestRefusal::bad("The request body must be a JSON object."));
                }
                Err(_) => return Err(RequestRefusal::bad("The request body is not valid JSON.")),
            },
        };
        let unlisted = fields.keys().find(|name| !listed.contains(&name.as_str()));
        match unlisted {
            Some(name) if behaviour.unlisted == Unlisted::Refuse => {
                Err(RequestRefusal::bad(format!("The field {name} is not known here.")))
            }
            _ => Ok(Self(fields)),
        }
    }

    /// The unchecked value.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub fn text(&self, name: &str) -> Result<Option<&str>, RequestRefusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(RequestRefusal::bad(format!("The field {name} must be a string."))),
        }
    }

    /// Text that must not be missing or empty.
    pub fn required(&self, name: &str) -> Result<&str, RequestRefusal> {
        match self.text(name)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            _ => Err(RequestRefusal::bad(format!("The field {name} is required."))),
        }
    }

    pub fn flag(&self, name: &str) -> Result<Option<bool>, RequestRefusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(RequestRefusal::bad(format!("The field {name} must be true or false."))),
        }
    }

    /// An absolute URL, or empty text to clear it.
    pub fn url(&self, name: &str) -> Result<Option<&str>, RequestRefusal> {
        match self.text(name)? {
            Some(text) if !text.is_empty() && host(text).is_none() => Err(RequestRefusal::bad(
                format!("The field {name} must be a URL with http or https."),
            )),
            other => Ok(other),
        }
    }

    /// A colour that `valid` accepts, or empty text.
    pub fn colour(
        &self,
        name: &str,
        form: &str,
        valid: fn(&str) -> bool,
    ) -> Result<Option<&str>, RequestRefusal> {
        match self.text(name)? {
            Some(text) if !text.is_empty() && !valid(text) => Err(RequestRefusal::bad(format!(
                "The field {name} must be a color of the form {form}."
            ))),
            other => Ok(other),
        }
    }
}

/// The host of a URL with the scheme http or https.
pub fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let bad = |c: char| c.is_whitespace() || c.is_control() || "<>\"\\^`{|}".contains(c);
    if authority.is_empty() || authority.contains(bad) {
        return None;
    }
    Some(authority.split_once(':').map_or(authority, |(host, _)| host))
}

/// Whether the text is a colour `#RRGGBB`.
pub fn is_hex(text: &str) -> bool {
    text.strip_prefix('#')
        .is_some_and(|digits| digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether the text is a colour `rgb(r,g,b)` with parts from 0 to 255.
pub fn is_rgb(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    let part = |part: &str| {
        let part = part.trim();
        part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok()
    };
    inner.is_some_and(|inner| inner.split(',').count() == 3 && inner.split(',').all(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_have_their_form() {
        assert!(is_hex("#00ff7A") && !is_hex("00ff7A") && !is_hex("#0f7") && !is_hex("#00ff7g"));
        assert!(is_rgb("rgb(0,128,255)") && is_rgb("rgb(0, 1, 2)"));
        for wrong in ["rgb(0,0)", "rgb(0,0,256)", "rgb(,,)", "rgb(+1,0,0)", "#000000"] {
            assert!(!is_rgb(wrong), "{wrong}");
        }
    }

    #[test]
    fn only_urls_have_a_host() {
        assert_eq!(host("https://go.example.com:8443/x?y"), Some("go.example.com"));
        for wrong in ["go.example.com", "ftp://a", "https://", "https:///x", "https://a b"] {
            assert_eq!(host(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_body_is_an_object_or_empty() {
        let read = |body: &[u8]| RequestFields::read(Some(body), &["a"], &Behaviour::default());
        assert!(read(b"").is_ok());
        assert!(read(b"[]").is_err());
        assert!(read(b"{").is_err());
        assert!(read(br#"{"b":1}"#).is_ok());
        let strict = Behaviour::parse("unlisted-fields=refuse").unwrap();
        assert!(RequestFields::read(Some(br#"{"b":1}"#), &["a"], &strict).is_err());
    }
}
