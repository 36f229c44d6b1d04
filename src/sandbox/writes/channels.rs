//! Channels and their items.

use super::{Answer, WriteHandler, check_cap, set};
use crate::sandbox::behaviour::{AssignAgain, ChannelUpdate, NameCase};
use crate::sandbox::fields::{RequestRefusal, is_hex};
use crate::sandbox::render::{self, RenderOptions};
use crate::sandbox::store::{Item, StoredChannel, date};

const LISTED: [&str; 4] = ["name", "description", "color", "starred"];
const HEX: &str = "#RRGGBB";

impl WriteHandler<'_> {
    pub(super) fn add_channel(&mut self, body: Option<&[u8]>) -> Result<Answer, RequestRefusal> {
        let fields = self.fields(body, &LISTED)?;
        let row = StoredChannel {
            name: self.name(fields.required("name")?),
            description: self.text(fields.text("description")?.unwrap_or_default()),
            color: fields.colour("color", HEX, is_hex)?.unwrap_or_default().to_owned(),
            starred: fields.flag("starred")?.unwrap_or_default(),
            ..StoredChannel::default()
        };
        check_cap(self.store.channels.len(), self.behaviour.cap_channels)?;
        self.free_channel_name(None, &row.name)?;
        let answer =
            render::channel(RenderOptions(self.behaviour), self.store.channels.next_id(), &row);
        self.store.channels.add(row);
        Ok(Answer::Created(answer))
    }

    pub(super) fn update_channel(
        &mut self,
        id: u64,
        body: Option<&[u8]>,
    ) -> Result<Answer, RequestRefusal> {
        let fields = self.fields(body, &LISTED)?;
        self.store.channels.get(id).ok_or_else(|| RequestRefusal::unknown("channel"))?;
        let name = match fields.text("name")? {
            None => None,
            Some(_) => Some(self.name(fields.required("name")?)),
        };
        if let Some(name) = &name {
            self.free_channel_name(Some(id), name)?;
        }
        let description = fields.text("description")?.map(|it| self.text(it));
        let color = fields.colour("color", HEX, is_hex)?.map(str::to_owned);
        let starred = fields.flag("starred")?;
        let row =
            self.store.channels.get_mut(id).ok_or_else(|| RequestRefusal::unknown("channel"))?;
        set(&mut row.name, &mut row.extra, "name", name);
        set(&mut row.description, &mut row.extra, "description", description);
        set(&mut row.color, &mut row.extra, "color", color);
        set(&mut row.starred, &mut row.extra, "starred", starred);
        Ok(match self.behaviour.channel_update {
            ChannelUpdate::Message => Answer::message("Channel has been updated successfully."),
            ChannelUpdate::Whole => {
                Answer::Plain(render::channel(RenderOptions(self.behaviour), id, row))
            }
        })
    }

    pub(super) fn delete_channel(&mut self, id: u64) -> Result<Answer, RequestRefusal> {
        self.store.channels.remove(id).ok_or_else(|| RequestRefusal::unknown("channel"))?;
        Ok(Answer::message("Channel has been deleted successfully."))
    }

    pub(super) fn assign_item(
        &mut self,
        channel: u64,
        kind: &str,
        id: u64,
    ) -> Result<Answer, RequestRefusal> {
        self.store.channels.get(channel).ok_or_else(|| RequestRefusal::unknown("channel"))?;
        let item = self.item(kind, id)?;
        let row = self
            .store
            .channels
            .get_mut(channel)
            .ok_or_else(|| RequestRefusal::unknown("channel"))?;
        if !row.items.iter().any(|held| held.kind == kind && held.id == id) {
            row.items.push(item);
        } else if self.behaviour.assign_again == AssignAgain::Refuse {
            return Err(RequestRefusal::bad("This item is already part of the channel."));
        }
        Ok(Answer::message("Item successfully added to the channel."))
    }

    /// The item to assign. Short links and bio pages are not stored: they exist by id.
    fn item(&self, kind: &str, id: u64) -> Result<Item, RequestRefusal> {
        let store = &self.store;
        let (title, link) = match kind {
            "links" if self.link_exists(id) => (format!("Link {id}"), store.link_url(id)),
            "bio" if self.link_exists(id) => (format!("Bio page {id}"), store.link_url(id)),
            "qr" => {
                let row = store.qr_codes.get(id).ok_or_else(|| RequestRefusal::unknown("item"))?;
                (row.name.clone(), row.link.clone())
            }
            "links" | "bio" => return Err(RequestRefusal::unknown("item")),
            _ => return Err(RequestRefusal::bad("The type must be one of links, bio and qr.")),
        };
        Ok(Item {
            kind: kind.to_owned(),
            id,
            title,
            preview: format!("{link}/preview"),
            link,
            date: date(self.now),
            ..Item::default()
        })
    }

    fn free_channel_name(&mut self, own: Option<u64>, name: &str) -> Result<(), RequestRefusal> {
        let exact = self.behaviour.name_case == NameCase::Exact;
        if self.store.channels.has_name(name, own, exact) {
            return Err(RequestRefusal::bad("You already have a channel with this name."));
        }
        Ok(())
    }
}
