//! Campaigns and the short links assigned to them.

use super::{Answer, WriteHandler, check_cap, set};
use crate::sandbox::behaviour::{AssignAgain, NameCase};
use crate::sandbox::fields::{RequestFields, RequestRefusal};
use crate::sandbox::render::{Object, RenderOptions, written_campaign};

const LISTED: [&str; 3] = ["name", "slug", "public"];

impl WriteHandler<'_> {
    pub(super) fn add_campaign(&mut self, body: Option<&[u8]>) -> Result<Answer, RequestRefusal> {
        let fields = self.fields(body, &LISTED)?;
        let name = self.name(fields.text("name")?.unwrap_or_default());
        let slug = slug(&fields)?;
        let public = fields.flag("public")?.unwrap_or_default();
        check_cap(self.store.campaigns.len(), self.behaviour.cap_campaigns)?;
        self.free_campaign_name(None, &name)?;
        let id = self.store.add_campaign(&name, slug.as_deref(), public);
        self.campaign(id).map(Answer::Created)
    }

    pub(super) fn update_campaign(
        &mut self,
        id: u64,
        body: Option<&[u8]>,
    ) -> Result<Answer, RequestRefusal> {
        let fields = self.fields(body, &LISTED)?;
        self.store.campaigns.get(id).ok_or_else(|| RequestRefusal::unknown("campaign"))?;
        let name = self.name(fields.required("name")?);
        let slug = slug(&fields)?;
        let public = fields.flag("public")?;
        self.free_campaign_name(Some(id), &name)?;
        if let Some(slug) = slug {
            self.set_slug(id, &slug);
        }
        if let Some(row) = self.store.campaigns.get_mut(id) {
            // An old name under another key must not be served next to the new one.
            for key in ["domain", "campaign"] {
                row.extra.shift_remove(key);
            }
            set(&mut row.name, &mut row.extra, "name", Some(name));
            set(&mut row.public, &mut row.extra, "public", public);
        }
        self.campaign(id).map(Answer::Plain)
    }

    pub(super) fn delete_campaign(&mut self, id: u64) -> Result<Answer, RequestRefusal> {
        self.store.campaigns.remove(id).ok_or_else(|| RequestRefusal::unknown("campaign"))?;
        Ok(Answer::message("Campaign has been deleted successfully."))
    }

    pub(super) fn assign_link(
        &mut self,
        campaign: u64,
        link: u64,
    ) -> Result<Answer, RequestRefusal> {
        let exists = self.link_exists(link);
        let row = self.store.campaigns.get_mut(campaign);
        let row = row.ok_or_else(|| RequestRefusal::unknown("campaign"))?;
        if !exists {
            return Err(RequestRefusal::unknown("link"));
        }
        if !row.members.insert(link) && self.behaviour.assign_again == AssignAgain::Refuse {
            return Err(RequestRefusal::bad("This link is already part of the campaign."));
        }
        Ok(Answer::message("Link successfully added to the campaign."))
    }

    /// Any number of campaigns can have an empty name.
    fn free_campaign_name(&mut self, own: Option<u64>, name: &str) -> Result<(), RequestRefusal> {
        let exact = self.behaviour.name_case == NameCase::Exact;
        if !name.is_empty() && self.store.campaigns.has_name(name, own, exact) {
            return Err(RequestRefusal::bad("You already have a campaign with that name."));
        }
        Ok(())
    }

    /// Sets the slug and the URLs made from it. An empty slug removes the rotator.
    fn set_slug(&mut self, id: u64, slug: &str) {
        let slug = Some(slug).filter(|slug| !slug.is_empty());
        let rotator = slug.map(|slug| self.store.rotator_url(slug));
        let list = self.store.list_url(slug, id);
        if let Some(row) = self.store.campaigns.get_mut(id) {
            row.slug = slug.map(str::to_owned);
            set(&mut row.rotator, &mut row.extra, "rotator", Some(rotator));
            set(&mut row.list, &mut row.extra, "list", Some(list));
        }
    }

    fn campaign(&self, id: u64) -> Result<Object, RequestRefusal> {
        let row =
            self.store.campaigns.get(id).ok_or_else(|| RequestRefusal::unknown("campaign"))?;
        Ok(written_campaign(RenderOptions(self.behaviour), id, row))
    }
}

/// The slug, with characters replaced that would end its segment of a URL.
fn slug(fields: &RequestFields) -> Result<Option<String>, RequestRefusal> {
    let ends = |c: char| c.is_whitespace() || "/?#".contains(c);
    Ok(fields.text("slug")?.map(|slug| slug.replace(ends, "-")))
}
