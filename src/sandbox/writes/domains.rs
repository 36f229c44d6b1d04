//! Branded domains.

use serde_json::json;

use super::{Answer, WriteHandler, check_cap, object, set};
use crate::sandbox::behaviour::Dns;
use crate::sandbox::fields::{RequestRefusal, host};
use crate::sandbox::render::RenderOptions;
use crate::sandbox::store::Domain;

impl WriteHandler<'_> {
    pub(super) fn add_domain(&mut self, body: Option<&[u8]>) -> Result<Answer, RequestRefusal> {
        let fields = self.fields(body, &["domain", "redirectroot", "redirect404"])?;
        let domain = fields.required("domain")?;
        let root = fields.url("redirectroot")?.unwrap_or_default();
        let missing = fields.url("redirect404")?.unwrap_or_default();
        let host = host(domain)
            .ok_or_else(|| RequestRefusal::bad("The domain must be a URL with http or https."))?;
        check_cap(self.store.domains.len(), self.behaviour.cap_domains)?;
        if self.store.domains.iter().any(|(_, row)| same_host(&row.domain, host)) {
            return Err(RequestRefusal::bad("The domain has been already used."));
        }
        if self.behaviour.dns == Dns::Missing || host.to_lowercase().ends_with(".invalid") {
            return Err(RequestRefusal::bad(
                "The domain name is not pointed to our server. \
                 DNS changes could take up to 36 hours.",
            ));
        }
        let id = self.store.domains.add(Domain {
            domain: self.name(domain),
            redirectroot: self.text(root),
            redirect404: self.text(missing),
            ..Domain::default()
        });
        Ok(Answer::Created(object([("id", json!(RenderOptions(self.behaviour).id(id)))])))
    }

    pub(super) fn update_domain(
        &mut self,
        id: u64,
        body: Option<&[u8]>,
    ) -> Result<Answer, RequestRefusal> {
        let fields = self.fields(body, &["redirectroot", "redirect404"])?;
        let root = fields.url("redirectroot")?.map(|it| self.text(it));
        let missing = fields.url("redirect404")?.map(|it| self.text(it));
        let row =
            self.store.domains.get_mut(id).ok_or_else(|| RequestRefusal::unknown("domain"))?;
        set(&mut row.redirectroot, &mut row.extra, "redirectroot", root);
        set(&mut row.redirect404, &mut row.extra, "redirect404", missing);
        Ok(Answer::message("Domain has been updated successfully."))
    }

    pub(super) fn delete_domain(&mut self, id: u64) -> Result<Answer, RequestRefusal> {
        self.store.domains.remove(id).ok_or_else(|| RequestRefusal::unknown("domain"))?;
        Ok(Answer::message("Domain has been deleted successfully."))
    }
}

/// Whether `domain` has this host, with any scheme.
fn same_host(domain: &str, expected: &str) -> bool {
    host(domain).is_some_and(|host| host.eq_ignore_ascii_case(expected))
}
