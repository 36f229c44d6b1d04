//! Parses faults from the command line: `lost-reply=0.2,latency=200ms,seed=7`.
//!
//! A part is `name=chance`, `name=chance:value`, `latency=time` (always),
//! `name@when` or `name:value@when`, where `when` is the number of a request
//! (`12`), the beginning of a path (`/api/qr`), a method and a path
//! (`POST /api/qr/add`), or the n-th request of these (`/api/qr#2`).

use std::str::FromStr;
use std::time::Duration;

use super::faults::{FailedReply, Fault, FaultTrigger, Faults, Garbage};
use crate::api::http::Method;

/// The declaration of one fault.
#[derive(Debug)]
pub struct FaultName {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one sentence, without a period.
    pub about: &'static str,
    make: fn(Option<&str>) -> Option<Fault>,
}

macro_rules! plain {
    ($fault:expr) => {
        |value| value.is_none().then_some($fault)
    };
}

/// All faults, in the order of the docs.
pub static NAMES: &[FaultName] = &[
    FaultName {
        name: "latency",
        about: "The response takes this time, as in latency=200ms or latency=0.1:5s",
        make: |value| time(value, 200).map(Fault::Latency),
    },
    FaultName {
        name: "throttled",
        about: "Refused because of the rate limit, although it is not reached",
        make: plain!(Fault::Throttled),
    },
    FaultName {
        name: "server-error",
        about: "503 with a JSON body; not executed",
        make: plain!(Fault::ServerError),
    },
    FaultName {
        name: "failed-reply",
        about: "Executed, and answered as if it had failed: unavailable (503 with a JSON body), redirect, key-words, throttle-words, html or not-found",
        make: |value| failed_reply(value.unwrap_or("unavailable")).map(Fault::FailedReply),
    },
    FaultName {
        name: "server-error-html",
        about: "502 with an HTML body; not executed",
        make: plain!(Fault::ServerErrorHtml),
    },
    FaultName {
        name: "html",
        about: "200 with an HTML page; not executed",
        make: plain!(Fault::HtmlPage),
    },
    FaultName {
        name: "redirect",
        about: "302 to another host; not executed",
        make: plain!(Fault::Redirect),
    },
    FaultName {
        name: "no-connection",
        about: "Connection refused; over a socket the same as reset",
        make: plain!(Fault::NoConnection),
    },
    FaultName {
        name: "lost-request",
        about: "Not executed, and no response",
        make: plain!(Fault::LostRequest),
    },
    FaultName {
        name: "lost-reply",
        about: "Executed, and no response",
        make: plain!(Fault::LostReply),
    },
    FaultName {
        name: "late-commit",
        about: "No response, and executed only after this time, as in late-commit=0.1:9s",
        make: |value| time(value, 5000).map(Fault::LateCommit),
    },
    FaultName {
        name: "cut-body",
        about: "Executed, and the connection ends after this number of bytes of the body, as in cut-body=0.1:20",
        make: |value| value.map_or(Some(20), |text| text.parse().ok()).map(Fault::CutBody),
    },
    FaultName {
        name: "reset",
        about: "Not executed, and the connection is reset",
        make: plain!(Fault::Reset),
    },
    FaultName {
        name: "garbage",
        about: "Executed, and the body is not-utf8, deep, wrong-types, huge-numbers, truncated, empty or null",
        make: |value| garbage(value.unwrap_or("not-utf8")).map(Fault::Garbage),
    },
    FaultName {
        name: "slow-body",
        about: "Executed, and the body takes this time to arrive, as in slow-body=0.1:2s",
        make: |value| time(value, 1000).map(Fault::SlowBody),
    },
];

/// Why a fault cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Neither `name=chance` nor `name@when`.
    #[error("`{0}` has neither the form name=chance nor name@when")]
    Form(String),
    /// No fault has this name.
    #[error("unknown fault `{given}`; did you mean `{nearest}`?")]
    Name {
        /// The given name.
        given: String,
        /// The most similar name.
        nearest: &'static str,
    },
    /// Not a probability.
    #[error("`{0}` is not a chance between 0 and 1")]
    Chance(String),
    /// The fault does not have this value.
    #[error("invalid value `{given}` for fault `{name}`")]
    Value {
        /// Name of the fault.
        name: String,
        /// The given value.
        given: String,
    },
    /// Does not name a request.
    #[error("`{0}` does not name a request: give its number, a path, or a method and a path")]
    When(String),
    /// Not a seed.
    #[error("`{0}` is not a seed: a seed is a whole number")]
    Seed(String),
}

impl FromStr for Faults {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut faults = Self::none();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            apply(&mut faults, part)?;
        }
        Ok(faults)
    }
}

fn apply(faults: &mut Faults, part: &str) -> Result<(), FaultError> {
    if let Some((name, at)) = part.split_once('@') {
        let (name, value) = name.split_once(':').map_or((name, None), |(n, v)| (n, Some(v)));
        faults.push(fault(name, value)?, when(at)?);
        return Ok(());
    }
    let (name, value) = part.split_once('=').ok_or_else(|| FaultError::Form(part.to_owned()))?;
    match name {
        "seed" => {
            faults.reseed(value.parse().map_err(|_| FaultError::Seed(value.to_owned()))?);
        }
        "latency" if !value.contains(':') => {
            faults.push(fault(name, Some(value))?, FaultTrigger::Chance(1.0));
        }
        _ => {
            let (odds, value) = value.split_once(':').map_or((value, None), |(o, v)| (o, Some(v)));
            faults.push(fault(name, value)?, FaultTrigger::Chance(chance(odds)?));
        }
    }
    Ok(())
}

fn fault(name: &str, value: Option<&str>) -> Result<Fault, FaultError> {
    let Some(known) = NAMES.iter().find(|known| known.name == name) else {
        let near = |known: &&FaultName| (strsim::jaro_winkler(name, known.name) * 1e6) as u64;
        let nearest = NAMES.iter().max_by_key(near).map_or("", |known| known.name);
        return Err(FaultError::Name { given: name.to_owned(), nearest });
    };
    (known.make)(value).ok_or_else(|| FaultError::Value {
        name: name.to_owned(),
        given: value.unwrap_or_default().to_owned(),
    })
}

fn chance(text: &str) -> Result<f64, FaultError> {
    let chance = text.parse().ok().filter(|chance| (0.0..=1.0).contains(chance));
    chance.ok_or_else(|| FaultError::Chance(text.to_owned()))
}

fn when(text: &str) -> Result<FaultTrigger, FaultError> {
    let wrong = || FaultError::When(text.to_owned());
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(FaultTrigger::Nth).map_err(|_| wrong());
    }
    let (place, nth) = match text.split_once('#') {
        Some((place, nth)) => (place, Some(nth.parse().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let (method, path) = match place.split_once(' ') {
        Some((name, path)) => (Some(method(name).ok_or_else(wrong)?), path),
        None => (None, place),
    };
    if !path.starts_with('/') {
        return Err(wrong());
    }
    Ok(FaultTrigger::Path { method, path: path.to_owned(), nth })
}

fn method(name: &str) -> Option<Method> {
    let all = [Method::Get, Method::Post, Method::Put, Method::Delete];
    all.into_iter().find(|method| method.as_str() == name)
}

/// Parses `200ms`, `1.5s` or `2m`.
fn time(text: Option<&str>, default_ms: u64) -> Option<Duration> {
    let Some(text) = text else { return Some(Duration::from_millis(default_ms)) };
    let end = text.find(char::is_alphabetic)?;
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

fn failed_reply(text: &str) -> Option<FailedReply> {
    Some(match text {
        "unavailable" => FailedReply::Unavailable,
        "redirect" => FailedReply::Redirect,
        "key-words" => FailedReply::KeyWords,
        "throttle-words" => FailedReply::ThrottleWords,
        "html" => FailedReply::Html,
        "not-found" => FailedReply::NotFound,
        _ => return None,
    })
}

fn garbage(text: &str) -> Option<Garbage> {
    Some(match text {
        "not-utf8" => Garbage::NotUtf8,
        "deep" => Garbage::Deep,
        "wrong-types" => Garbage::WrongTypes,
        "huge-numbers" => Garbage::HugeNumbers,
        "truncated" => Garbage::Truncated,
        "empty" => Garbage::Empty,
        "null" => Garbage::Null,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::http::Request;

    fn first(text: &str) -> Option<Fault> {
        text.parse::<Faults>().unwrap().next(&Request::get("/api/qr")).fault
    }

    #[test]
    fn every_fault_parses_with_its_default_value() {
        for known in NAMES {
            let at = format!("{}@1", known.name);
            let injected = at.parse::<Faults>().unwrap().next(&Request::get("/api/qr"));
            assert!(injected.fault.is_some() != (known.name == "latency"), "{}", known.name);
            assert!(!known.about.ends_with('.'));
        }
    }

    #[test]
    fn values_chances_and_triggers_are_parsed() {
        assert_eq!(first("cut-body=1:7,seed=3"), Some(Fault::CutBody(7)));
        assert_eq!(first("garbage:deep@GET /api/qr"), Some(Fault::Garbage(Garbage::Deep)));
        assert_eq!(first("reset@POST /api/qr, reset@2, reset@/api/qr#2, reset=0"), None);
        let slow = "slow-body=1:1.5s".parse::<Faults>().unwrap().next(&Request::get("/")).fault;
        assert_eq!(slow, Some(Fault::SlowBody(Duration::from_millis(1500))));
        let mut late = "latency=200ms,latency=1:2m".parse::<Faults>().unwrap();
        assert_eq!(late.next(&Request::get("/")).latency, Duration::from_millis(120_200));
    }

    #[test]
    fn invalid_faults_are_refused() {
        let wrong = "lost-replay=0.5".parse::<Faults>().unwrap_err();
        assert!(wrong.to_string().contains("did you mean `lost-reply`?"), "{wrong}");
        for text in [
            "reset",
            "reset=2",
            "reset=-1",
            "reset=NaN",
            "latency=5",
            "reset@",
            "reset@x",
            "latency=1e300m",
            "reset=1:x",
            "seed=x",
            "reset@PATCH /api",
            "cut-body=1:-1",
        ] {
            assert!(text.parse::<Faults>().is_err(), "{text}");
        }
    }
}
