//! QR codes. Their content is stored and never shown.

use serde_json::{Value, json};

use super::{Answer, WriteHandler, check_cap, object};
use crate::sandbox::behaviour::{QrData, QrName, QrUpdateType};
use crate::sandbox::fields::{RequestFields, RequestRefusal, is_rgb};
use crate::sandbox::render::RenderOptions;
use crate::sandbox::store::{QrCode, QrContentData, Scans, datetime};

const TYPES: [&str; 7] = ["text", "vcard", "link", "email", "phone", "sms", "wifi"];
const RGB: &str = "rgb(r,g,b)";
const LOGOS: [&str; 3] = [".png", ".jpg", ".jpeg"];

impl WriteHandler<'_> {
    pub(super) fn add_qr_code(&mut self, body: Option<&[u8]>) -> Result<Answer, RequestRefusal> {
        let mut listed = vec!["type", "data", "background", "foreground", "logo"];
        listed.extend((self.behaviour.qr_name == QrName::Taken).then_some("name"));
        let fields = self.fields(body, &listed)?;
        let content = self.content(&fields, kind(&fields)?)?;
        let name = match self.behaviour.qr_name {
            QrName::Taken => fields.text("name")?,
            QrName::Ignored => None,
        };
        check_cap(self.store.qr_codes.len(), self.behaviour.cap_qr)?;
        let id = self.store.qr_codes.next_id();
        let link = self.store.qr_url(id);
        let row = QrCode {
            link: link.clone(),
            name: name.map_or_else(|| format!("QR code {id}"), |name| self.name(name)),
            date: datetime(self.now),
            content,
            scans: Scans { base: 0, since: self.now, period: 0 },
            ..QrCode::default()
        };
        self.store.qr_codes.put(id, row);
        let id = RenderOptions(self.behaviour).id(id);
        Ok(Answer::Created(object([("id", id), ("link", json!(link))])))
    }

    pub(super) fn update_qr_code(
        &mut self,
        id: u64,
        body: Option<&[u8]>,
    ) -> Result<Answer, RequestRefusal> {
        let mut listed = vec!["data", "background", "foreground", "logo"];
        let typed = self.behaviour.qr_update_type == QrUpdateType::Required;
        listed.extend(typed.then_some("type"));
        let fields = self.fields(body, &listed)?;
        let row = self.store.qr_codes.get(id).ok_or_else(|| RequestRefusal::unknown("QR code"))?;
        let kind = match typed {
            true => kind(&fields)?.to_owned(),
            false => row.content.kind.clone().unwrap_or_default(),
        };
        let sent = self.content(&fields, &kind)?;
        let row =
            self.store.qr_codes.get_mut(id).ok_or_else(|| RequestRefusal::unknown("QR code"))?;
        let kept = std::mem::take(&mut row.content);
        row.content = QrContentData {
            kind: kept.kind,
            data: sent.data,
            background: sent.background.or(kept.background),
            foreground: sent.foreground.or(kept.foreground),
            logo: sent.logo.or(kept.logo),
        };
        Ok(Answer::message("QR code has been updated successfully."))
    }

    pub(super) fn delete_qr_code(&mut self, id: u64) -> Result<Answer, RequestRefusal> {
        self.store.remove_qr(id).ok_or_else(|| RequestRefusal::unknown("QR code"))?;
        Ok(Answer::message("QR code has been deleted successfully."))
    }

    fn content(&self, fields: &RequestFields, kind: &str) -> Result<QrContentData, RequestRefusal> {
        let colour = |name| -> Result<Option<String>, RequestRefusal> {
            Ok(fields.colour(name, RGB, is_rgb)?.map(str::to_owned))
        };
        Ok(QrContentData {
            kind: Some(kind.to_owned()),
            data: Some(self.data(fields, kind)?),
            background: colour("background")?,
            foreground: colour("foreground")?,
            logo: logo(fields)?.map(str::to_owned),
        })
    }

    /// The data of the code: text or parts. The documented type is "string or array depending on
    /// type",
    /// and PHP writes an array with keys as an object.
    fn data(&self, fields: &RequestFields, kind: &str) -> Result<Value, RequestRefusal> {
        let objects = match self.behaviour.qr_data {
            QrData::Documented => !matches!(kind, "text" | "link"),
            QrData::Lists => false,
            QrData::Objects => true,
        };
        match fields.value("data") {
            Some(Value::String(text)) if !text.is_empty() => Ok(json!(text)),
            Some(Value::Array(parts)) if !parts.is_empty() => Ok(json!(parts)),
            Some(Value::Object(parts)) if objects && !parts.is_empty() => Ok(json!(parts)),
            None => Err(RequestRefusal::bad("The field data is required.")),
            Some(_) => Err(RequestRefusal::bad("The field data must be a string or an array.")),
        }
    }
}

fn kind(fields: &RequestFields) -> Result<&str, RequestRefusal> {
    let kind = fields.required("type")?;
    if TYPES.contains(&kind) {
        return Ok(kind);
    }
    Err(RequestRefusal::bad(format!("The type must be one of {}.", TYPES.join(", "))))
}

fn logo(fields: &RequestFields) -> Result<Option<&str>, RequestRefusal> {
    let is_image = |text: &str| {
        let path = text.split(['?', '#']).next().unwrap_or_default().to_lowercase();
        LOGOS.iter().any(|end| path.ends_with(end))
    };
    match fields.text("logo")? {
        Some(text) if !text.is_empty() && !is_image(text) => {
            Err(RequestRefusal::bad("The logo must be a png or jpg image."))
        }
        other => Ok(other),
    }
}
