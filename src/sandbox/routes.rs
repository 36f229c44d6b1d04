//! The paths of the API document.

use crate::api::http::Method;

/// One endpoint with the ids from its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Account,
    UpdateAccount,
    Domains,
    AddDomain,
    UpdateDomain(u64),
    DeleteDomain(u64),
    Overlays,
    Campaigns,
    AddCampaign,
    AssignLink { campaign: u64, link: u64 },
    UpdateCampaign(u64),
    DeleteCampaign(u64),
    Channels,
    Items(u64),
    AddChannel,
    AssignItem { channel: u64, kind: String, item: u64 },
    UpdateChannel(u64),
    DeleteChannel(u64),
    SplashPages,
    Pixels,
    AddPixel,
    QrCodes,
    QrCode(u64),
    AddQrCode,
    UpdateQrCode(u64),
    DeleteQrCode(u64),
}

/// The result of looking up a method and a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    Found(Route),
    /// The path exists with another method.
    WrongMethod,
    Unknown,
}

/// Looks up a path without query.
#[must_use]
pub fn find(method: Method, path: &str) -> Lookup {
    let Some(rest) = path.strip_prefix("/api/") else { return Lookup::Unknown };
    let segments: Vec<&str> = rest.split('/').collect();
    if let Some(route) = route(method, &segments) {
        return Lookup::Found(route);
    }
    let all = [Method::Get, Method::Post, Method::Put, Method::Delete];
    if all.into_iter().any(|other| route(other, &segments).is_some()) {
        Lookup::WrongMethod
    } else {
        Lookup::Unknown
    }
}

fn route(method: Method, segments: &[&str]) -> Option<Route> {
    match method {
        Method::Get => read(segments),
        Method::Post => create(segments),
        Method::Put => update(segments),
        Method::Delete => delete(segments),
    }
}

fn read(segments: &[&str]) -> Option<Route> {
    Some(match segments {
        ["account"] => Route::Account,
        ["domains"] => Route::Domains,
        ["overlay"] => Route::Overlays,
        ["campaigns"] => Route::Campaigns,
        ["channels"] => Route::Channels,
        ["channel", id] => Route::Items(number(id)?),
        ["splash"] => Route::SplashPages,
        ["pixels"] => Route::Pixels,
        ["qr"] => Route::QrCodes,
        ["qr", id] => Route::QrCode(number(id)?),
        _ => return None,
    })
}

fn create(segments: &[&str]) -> Option<Route> {
    Some(match segments {
        ["domain", "add"] => Route::AddDomain,
        ["campaign", "add"] => Route::AddCampaign,
        ["campaign", campaign, "assign", link] => {
            Route::AssignLink { campaign: number(campaign)?, link: number(link)? }
        }
        ["channel", "add"] => Route::AddChannel,
        ["channel", channel, "assign", kind, item] => Route::AssignItem {
            channel: number(channel)?,
            kind: (*kind).to_owned(),
            item: number(item)?,
        },
        ["pixel", "add"] => Route::AddPixel,
        ["qr", "add"] => Route::AddQrCode,
        _ => return None,
    })
}

fn update(segments: &[&str]) -> Option<Route> {
    Some(match segments {
        ["account", "update"] => Route::UpdateAccount,
        ["domain", id, "update"] => Route::UpdateDomain(number(id)?),
        ["campaign", id, "update"] => Route::UpdateCampaign(number(id)?),
        ["channel", id, "update"] => Route::UpdateChannel(number(id)?),
        ["qr", id, "update"] => Route::UpdateQrCode(number(id)?),
        _ => return None,
    })
}

fn delete(segments: &[&str]) -> Option<Route> {
    Some(match segments {
        ["domain", id, "delete"] => Route::DeleteDomain(number(id)?),
        ["campaign", id, "delete"] => Route::DeleteCampaign(number(id)?),
        ["channel", id, "delete"] => Route::DeleteChannel(number(id)?),
        ["qr", id, "delete"] => Route::DeleteQrCode(number(id)?),
        _ => return None,
    })
}

/// Parses digits only: `str::parse` accepts a plus sign too.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl Route {
    /// The part of the API that the route belongs to: its list path without `/api/`.
    #[must_use]
    pub const fn part(&self) -> &'static str {
        match self {
            Self::Account | Self::UpdateAccount => "account",
            Self::Domains | Self::AddDomain | Self::UpdateDomain(_) | Self::DeleteDomain(_) => {
                "domains"
            }
            Self::Overlays => "overlay",
            Self::Campaigns
            | Self::AddCampaign
            | Self::AssignLink { .. }
            | Self::UpdateCampaign(_)
            | Self::DeleteCampaign(_) => "campaigns",
            Self::Channels
            | Self::Items(_)
            | Self::AddChannel
            | Self::AssignItem { .. }
            | Self::UpdateChannel(_)
            | Self::DeleteChannel(_) => "channels",
            Self::SplashPages => "splash",
            Self::Pixels | Self::AddPixel => "pixels",
            Self::QrCodes
            | Self::QrCode(_)
            | Self::AddQrCode
            | Self::UpdateQrCode(_)
            | Self::DeleteQrCode(_) => "qr",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_path_with_a_wrong_method_is_not_unknown() {
        assert_eq!(find(Method::Get, "/api/qr"), Lookup::Found(Route::QrCodes));
        assert_eq!(find(Method::Get, "/api/channel/4"), Lookup::Found(Route::Items(4)));
        assert_eq!(find(Method::Get, "/api/qr/add"), Lookup::WrongMethod);
        assert_eq!(find(Method::Get, "/api/urls"), Lookup::Unknown);
        assert_eq!(find(Method::Get, "/v2/api/qr"), Lookup::Unknown);
    }

    #[test]
    fn ids_have_only_digits() {
        for path in
            ["/api/qr/-1", "/api/qr/+1", "/api/qr/", "/api/qr/1e3", "/api/qr/9".repeat(9).as_str()]
        {
            assert_eq!(find(Method::Get, path), Lookup::Unknown, "{path}");
        }
    }
}
