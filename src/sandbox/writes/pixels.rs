//! Pixels, which can be created and not changed.

use serde_json::json;

use super::{Answer, WriteHandler, check_cap, object};
use crate::sandbox::behaviour::{PixelAnswer, PixelType};
use crate::sandbox::fields::RequestRefusal;
use crate::sandbox::render::{Object, RenderOptions};
use crate::sandbox::store::{Pixel, datetime};

/// The pixel types, in the order of the API document.
pub const TYPES: [&str; 13] = [
    "gtmpixel",
    "gapixel",
    "fbpixel",
    "adwordspixel",
    "linkedinpixel",
    "twitterpixel",
    "adrollpixel",
    "quorapixel",
    "pinterest",
    "bing",
    "snapchat",
    "reddit",
    "tiktok",
];

impl WriteHandler<'_> {
    pub(super) fn add_pixel(&mut self, body: Option<&[u8]>) -> Result<Answer, RequestRefusal> {
        let fields = self.fields(body, &["type", "name", "tag"])?;
        let kind = fields.required("type")?;
        let name = fields.required("name")?;
        let tag = self.text(fields.required("tag")?);
        let known = TYPES.contains(&kind);
        if !known && self.behaviour.pixel_type == PixelType::Refuse {
            return Err(RequestRefusal::bad("The pixel type is not supported."));
        }
        check_cap(self.store.pixels.len(), self.behaviour.cap_pixels)?;
        if self.store.pixels.iter().any(|(_, row)| row.kind == kind && row.tag == tag) {
            return Err(RequestRefusal::bad("A pixel with this provider and tag already exists."));
        }
        let row = Pixel {
            kind: kind.to_owned(),
            name: self.name(name),
            tag,
            date: datetime(self.now),
            ..Pixel::default()
        };
        let id = self.store.pixels.add(row);
        Ok(Answer::Created(self.pixel_answer(id, known)))
    }

    fn pixel_answer(&self, id: u64, known: bool) -> Object {
        let mut answer = match self.behaviour.pixel_answer {
            PixelAnswer::Id => object([("id", RenderOptions(self.behaviour).id(id))]),
            PixelAnswer::Message => object([("message", json!("Pixel has been added."))]),
            PixelAnswer::Bare => Object::new(),
        };
        if !known {
            let warning = "Pixel has been added. Warning: its type is not a known one.";
            answer.insert("message".to_owned(), json!(warning));
        }
        answer
    }
}
