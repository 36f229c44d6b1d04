//! Handles the write requests, one file per resource.

mod account;
mod campaigns;
mod channels;
mod domains;
mod pixels;
mod qr_codes;

pub use pixels::TYPES as PIXEL_TYPES;
use serde_json::{Value, json};

use super::behaviour::{Behaviour, Names, StoredTexts};
use super::fields::{RequestFields, RequestRefusal};
use super::render::Object;
use super::routes::Route;
use super::store::{Extra, Store};
use crate::clock::Timestamp;

/// A successful response, before `error` and the status are added.
#[derive(Debug)]
pub enum Answer {
    /// The envelope of a list or of a channel's items.
    List(Object),
    Plain(Object),
    /// The response to a create.
    Created(Object),
}

impl Answer {
    pub fn plain<const N: usize>(fields: [(&str, Value); N]) -> Self {
        Self::Plain(object(fields))
    }

    fn message(text: &str) -> Self {
        Self::plain([("message", json!(text))])
    }
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Object {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Handles writes at one time.
pub struct WriteHandler<'a> {
    pub store: &'a mut Store,
    pub behaviour: &'a Behaviour,
    pub now: Timestamp,
}

impl WriteHandler<'_> {
    /// Executes the write `route`. A refused write does not change the store.
    pub fn write(&mut self, route: Route, body: Option<&[u8]>) -> Result<Answer, RequestRefusal> {
        match route {
            Route::UpdateAccount => self.update_account(body),
            Route::AddDomain => self.add_domain(body),
            Route::UpdateDomain(id) => self.update_domain(id, body),
            Route::DeleteDomain(id) => self.delete_domain(id),
            Route::AddCampaign => self.add_campaign(body),
            Route::AssignLink { campaign, link } => self.assign_link(campaign, link),
            Route::UpdateCampaign(id) => self.update_campaign(id, body),
            Route::DeleteCampaign(id) => self.delete_campaign(id),
            Route::AddChannel => self.add_channel(body),
            Route::AssignItem { channel, kind, item } => self.assign_item(channel, &kind, item),
            Route::UpdateChannel(id) => self.update_channel(id, body),
            Route::DeleteChannel(id) => self.delete_channel(id),
            Route::AddPixel => self.add_pixel(body),
            Route::AddQrCode => self.add_qr_code(body),
            Route::UpdateQrCode(id) => self.update_qr_code(id, body),
            Route::DeleteQrCode(id) => self.delete_qr_code(id),
            _ => Err(RequestRefusal::wrong_method()),
        }
    }

    fn fields(
        &self,
        body: Option<&[u8]>,
        listed: &[&str],
    ) -> Result<RequestFields, RequestRefusal> {
        RequestFields::read(body, listed, self.behaviour)
    }

    /// A name as the service stores it.
    fn name(&self, given: &str) -> String {
        let text = self.text(given);
        match self.behaviour.names {
            Names::Kept => text,
            Names::Lowered => text.to_lowercase(),
        }
    }

    /// A text as the service stores it.
    fn text(&self, given: &str) -> String {
        match self.behaviour.texts {
            StoredTexts::Kept => given.to_owned(),
            StoredTexts::Trimmed => given.trim().to_owned(),
            StoredTexts::Collapsed => given.split_whitespace().collect::<Vec<_>>().join(" "),
            StoredTexts::Lowered => given.to_lowercase(),
            StoredTexts::WithoutSlash => given.trim_end_matches('/').to_owned(),
            StoredTexts::Encoded => encoded(given),
            StoredTexts::Escaped => escaped(given),
        }
    }

    fn link_exists(&self, id: u64) -> bool {
        id > 0 && self.behaviour.links.is_none_or(|largest| id <= largest)
    }
}

/// A URL in percent-encoding; other texts unchanged.
fn encoded(text: &str) -> String {
    if !text.contains("://") {
        return text.to_owned();
    }
    let encode = |byte: u8| match byte.is_ascii_graphic() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// A text with the entities that PHP's `htmlspecialchars` writes.
fn escaped(text: &str) -> String {
    let pairs = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#039;")];
    pairs.iter().fold(text.to_owned(), |text, (plain, entity)| text.replace(plain, entity))
}

/// Refuses another record if the plan's maximum is reached.
fn check_cap(count: usize, cap: Option<u64>) -> Result<(), RequestRefusal> {
    if cap.is_some_and(|cap| count as u64 >= cap) {
        return Err(RequestRefusal::bad("You have reach the maximum limit for this feature."));
    }
    Ok(())
}

/// Sets a field that was sent, and removes an unusual value kept in its place.
fn set<T>(field: &mut T, extra: &mut Extra, name: &str, value: Option<T>) {
    if let Some(value) = value {
        extra.shift_remove(name);
        *field = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_refuses_at_its_value() {
        assert!(check_cap(2, Some(3)).is_ok() && check_cap(99, None).is_ok());
        assert!(check_cap(3, Some(3)).is_err() && check_cap(0, Some(0)).is_err());
    }
}
