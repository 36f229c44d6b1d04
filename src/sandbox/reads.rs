//! Answers the read requests. Does not change the store.

use serde_json::Value;

use super::behaviour::{Behaviour, OverlayKey};
use super::fields::RequestRefusal;
use super::paging::ListPage;
use super::render::{self, Object, RenderOptions};
use super::routes::Route;
use super::store::{Store, StoreTable};
use super::writes::Answer;
use crate::clock::Timestamp;

/// Answers reads at one time.
pub struct Reader<'a> {
    pub store: &'a Store,
    pub behaviour: &'a Behaviour,
    pub now: Timestamp,
}

impl Reader<'_> {
    /// Answers the read `route`; `query` has `limit` and `page`.
    pub fn read(&self, route: &Route, query: &str) -> Result<Answer, RequestRefusal> {
        let (options, store) = (RenderOptions(self.behaviour), self.store);
        match route {
            Route::Account => {
                let account = Value::Object(render::account(options, &store.account));
                Ok(Answer::plain([("data", account)]))
            }
            Route::Domains => {
                let row = |_, id, row: &_| render::domain(options, id, row);
                self.list(query, "domains", &store.domains, |row| &row.domain, row)
            }
            Route::Overlays => {
                let row = |_, id, row: &_| render::overlay(options, id, row);
                self.list(query, self.overlay_key(), &store.overlays, |row| &row.name, row)
            }
            Route::Campaigns => {
                let row = |place, id, row: &_| render::listed_campaign(options, place, id, row);
                self.list(query, "campaigns", &store.campaigns, |row| &row.name, row)
            }
            Route::Channels => {
                let row = |_, id, row: &_| render::channel(options, id, row);
                self.list(query, "channels", &store.channels, |row| &row.name, row)
            }
            Route::Items(id) => self.items(query, *id),
            Route::SplashPages => {
                let row = |_, id, row: &_| render::splash(options, id, row);
                self.list(query, "splash", &store.splash, |row| &row.name, row)
            }
            Route::Pixels => {
                let row = |_, id, row: &_| render::pixel(options, id, row);
                self.list(query, "pixels", &store.pixels, |row| &row.name, row)
            }
            Route::QrCodes => {
                let row = |_, id, row: &_| render::qr_code(options, self.now, id, row);
                self.list(query, "qrs", &store.qr_codes, |row| &row.name, row)
            }
            Route::QrCode(id) => self.qr_code(*id),
            _ => Err(RequestRefusal::wrong_method()),
        }
    }

    const fn overlay_key(&self) -> &'static str {
        match self.behaviour.overlay_key {
            OverlayKey::Cta => "cta",
            OverlayKey::Overlay => "overlay",
        }
    }

    fn list<T>(
        &self,
        query: &str,
        key: &str,
        table: &StoreTable<T>,
        name: fn(&T) -> &str,
        render_row: impl Fn(usize, u64, &T) -> Object,
    ) -> Result<Answer, RequestRefusal> {
        let page = ListPage::from_query(query, table.len(), self.behaviour)?;
        let rows = page.of(table.iter(), name, self.behaviour);
        let records = rows
            .into_iter()
            .enumerate()
            .map(|(place, (id, row))| Value::Object(render_row(place, id, row)))
            .collect();
        Ok(Answer::List(page.envelope(key, records, self.behaviour)))
    }

    fn items(&self, query: &str, channel: u64) -> Result<Answer, RequestRefusal> {
        let row =
            self.store.channels.get(channel).ok_or_else(|| RequestRefusal::unknown("channel"))?;
        let page = ListPage::from_query(query, row.items.len(), self.behaviour)?;
        let rows = row.items.iter().map(|item| (item.id, item));
        let rows = page.of(rows, |item| &item.title, self.behaviour);
        let options = RenderOptions(self.behaviour);
        let records =
            rows.into_iter().map(|(_, item)| Value::Object(render::item(options, item))).collect();
        Ok(Answer::List(page.envelope("items", records, self.behaviour)))
    }

    fn qr_code(&self, id: u64) -> Result<Answer, RequestRefusal> {
        let row = self.store.qr_codes.get(id).ok_or_else(|| RequestRefusal::unknown("QR code"))?;
        let options = RenderOptions(self.behaviour);
        Ok(Answer::plain([
            ("details", Value::Object(render::qr_code(options, self.now, id, row))),
            ("data", Value::Object(render::qr_statistics(options, self.now, id, row))),
        ]))
    }
}
