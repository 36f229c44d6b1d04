//! Processes one request by service and fault, and decides how the exchange ends. Pure: the caller
//! waits and transfers bytes.

use std::time::Duration;

use super::faults::{FailedReply, Fault, Garbage};
use super::service::SandboxService;
use super::wire;
use crate::api::http::{Request, Response};
use crate::clock::Timestamp;

/// How one exchange ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeEnd {
    /// The response arrives.
    Answer(Response),
    /// The response arrives; its body takes this time.
    Slow(Response, Duration),
    /// Only this number of bytes of the response's body arrives.
    Cut(Response, usize),
    /// The connection closes without a response.
    Silence,
    /// The connection is reset.
    Reset,
    /// The connection is refused.
    NoConnection,
}

/// Lets `service` handle `request` at `now` with `fault`.
pub fn exchange(
    service: &mut SandboxService,
    now: Timestamp,
    request: &Request,
    fault: Option<Fault>,
) -> ExchangeEnd {
    let Some(fault) = fault else { return ExchangeEnd::Answer(service.handle(now, request)) };
    match fault {
        Fault::Latency(_) => ExchangeEnd::Answer(service.handle(now, request)),
        Fault::Throttled => ExchangeEnd::Answer(service.refuse_for_limit(now, request)),
        Fault::ServerError => ExchangeEnd::Answer(server_error()),
        Fault::FailedReply(kind) => {
            service.handle(now, request);
            ExchangeEnd::Answer(failed_reply(kind))
        }
        Fault::ServerErrorHtml => ExchangeEnd::Answer(wire::html(502, "Bad Gateway")),
        Fault::HtmlPage => ExchangeEnd::Answer(wire::html(200, "Welcome to the network")),
        Fault::Redirect => ExchangeEnd::Answer(redirect()),
        Fault::NoConnection => ExchangeEnd::NoConnection,
        Fault::LostRequest => ExchangeEnd::Silence,
        Fault::Reset => ExchangeEnd::Reset,
        Fault::LostReply => {
            service.handle(now, request);
            ExchangeEnd::Silence
        }
        Fault::LateCommit(delay) => {
            service.accept_late(now, now.plus(delay), request);
            ExchangeEnd::Silence
        }
        Fault::CutBody(at) => ExchangeEnd::Cut(service.handle(now, request), at),
        Fault::SlowBody(time) => ExchangeEnd::Slow(service.handle(now, request), time),
        Fault::Garbage(kind) => {
            let mut response = service.handle(now, request);
            response.body = garbage(kind, response.body);
            ExchangeEnd::Answer(response)
        }
    }
}

fn server_error() -> Response {
    json(503, r#"{"error":1,"message":"The service is unavailable."}"#)
}

fn json(status: u16, body: &str) -> Response {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Response { status, headers, body: body.as_bytes().to_vec() }
}

fn failed_reply(kind: FailedReply) -> Response {
    match kind {
        FailedReply::Unavailable => server_error(),
        FailedReply::Redirect => redirect(),
        FailedReply::KeyWords => json(500, r#"{"error":1,"message":"The API key cache is down"}"#),
        FailedReply::ThrottleWords => {
            json(503, r#"{"error":1,"message":"Too many requests","retry_after":2}"#)
        }
        FailedReply::Html => wire::html(502, "Bad Gateway"),
        FailedReply::NotFound => wire::html(404, "Not Found"),
    }
}

fn redirect() -> Response {
    let mut response = wire::html(302, "Found");
    response.headers.push(("location".to_owned(), "https://elsewhere.example.net/".to_owned()));
    response
}

fn garbage(kind: Garbage, mut body: Vec<u8>) -> Vec<u8> {
    match kind {
        Garbage::NotUtf8 => b"{\"error\":0,\"message\":\"\xff\xfe\xc3\x28\"}".to_vec(),
        Garbage::Deep => [vec![b'['; 20_000], vec![b']'; 20_000]].concat(),
        Garbage::WrongTypes => WRONG_TYPES.to_vec(),
        Garbage::HugeNumbers => HUGE_NUMBERS.to_vec(),
        Garbage::Truncated => {
            body.truncate(body.len() / 2);
            body
        }
        Garbage::Empty => Vec::new(),
        Garbage::Null => b"null".to_vec(),
    }
}

const WRONG_TYPES: &[u8] = br#"{"error":[],"id":{},"message":7,"details":"x","data":{
    "result":{},"perpage":"many","currentpage":null,"nextpage":[],"maxpage":-3.5,"cta":{},
    "domains":7,"campaigns":[[],"x",null],"channels":[{"id":[]}],"items":{"0":{"id":1}},
    "splash":"","pixels":[{"id":-1,"name":{}}],"qrs":[{"id":1.5,"scans":"x"}]}}"#;

const HUGE_NUMBERS: &[u8] = br#"{"error":0,"id":340282366920938463463374607431768211456,
    "data":{"result":1e308,"perpage":99999999999999999999,"currentpage":1,"nextpage":null,
    "maxpage":18446744073709551616,"domains":[{"id":99999999999999999999,"domain":"https://a"}],
    "campaigns":[{"id":1e400000}],"qrs":[{"id":1,"scans":123456789012345678901234567890}]}}"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::http::{ApiKey, Method};
    use crate::sandbox::{Behaviour, Store};

    /// How one create ends, and the number of campaigns after it.
    fn create(fault: Fault) -> (ExchangeEnd, usize) {
        let key = ApiKey::new("k");
        let mut service = SandboxService::new(Store::default(), key.clone(), Behaviour::default());
        let request = Request {
            method: Method::Post,
            path: "/api/campaign/add".to_owned(),
            key: Some(key),
            body: Some(br#"{"name":"A"}"#.to_vec()),
        };
        let ending = exchange(&mut service, Timestamp(0), &request, Some(fault));
        (ending, service.store().campaigns.len())
    }

    #[test]
    fn a_lost_request_has_no_effect_and_a_lost_reply_has() {
        assert_eq!(create(Fault::LostRequest), (ExchangeEnd::Silence, 0));
        assert_eq!(create(Fault::LostReply), (ExchangeEnd::Silence, 1));
        assert_eq!(create(Fault::Reset), (ExchangeEnd::Reset, 0));
        assert_eq!(create(Fault::NoConnection), (ExchangeEnd::NoConnection, 0));
    }

    #[test]
    fn a_refused_request_changes_nothing() {
        for fault in [
            Fault::Throttled,
            Fault::ServerError,
            Fault::ServerErrorHtml,
            Fault::HtmlPage,
            Fault::Redirect,
        ] {
            let (ending, campaigns) = create(fault);
            assert!(matches!(ending, ExchangeEnd::Answer(_)));
            assert_eq!(campaigns, 0);
        }
    }

    #[test]
    fn a_damaged_response_comes_after_the_change() {
        for fault in [
            Fault::CutBody(3),
            Fault::Garbage(Garbage::Deep),
            Fault::FailedReply(FailedReply::Redirect),
        ] {
            assert_eq!(create(fault).1, 1);
        }
        let (ExchangeEnd::Answer(answer), _) = create(Fault::Garbage(Garbage::Truncated)) else {
            panic!("no answer");
        };
        assert!(serde_json::from_slice::<serde_json::Value>(&answer.body).is_err());
    }
}
