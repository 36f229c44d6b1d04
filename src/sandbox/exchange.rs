//! One request through service and fault: what comes back, and how it ends.
//! Pure; waiting and bytes are the caller's.

use std::time::Duration;

use super::faults::{Fault, Garbage};
use super::service::Service;
use super::wire;
use crate::api::http::{Request, Response};
use crate::clock::Timestamp;

/// How one exchange ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Answer(Response),
    /// The answer, whose body takes that long.
    Slow(Response, Duration),
    /// The answer, of whose body only that many bytes arrive.
    Cut(Response, usize),
    /// The connection closes without an answer.
    Silence,
    /// The connection is reset.
    Reset,
    /// There was no connection.
    NoConnection,
}

/// Lets `service` answer `request` at `now` while `fault` happens.
pub fn exchange(
    service: &mut Service,
    now: Timestamp,
    request: &Request,
    fault: Option<Fault>,
) -> Ending {
    let Some(fault) = fault else { return Ending::Answer(service.handle(now, request)) };
    match fault {
        Fault::Latency(_) => Ending::Answer(service.handle(now, request)),
        Fault::Throttled => Ending::Answer(service.refuse_for_limit(now, request)),
        Fault::ServerError => Ending::Answer(server_error()),
        Fault::FailedReply => {
            service.handle(now, request);
            Ending::Answer(server_error())
        }
        Fault::ServerErrorHtml => Ending::Answer(wire::html(502, "Bad Gateway")),
        Fault::HtmlPage => Ending::Answer(wire::html(200, "Welcome to the network")),
        Fault::Redirect => Ending::Answer(redirect()),
        Fault::NoConnection => Ending::NoConnection,
        Fault::LostRequest => Ending::Silence,
        Fault::Reset => Ending::Reset,
        Fault::LostReply => {
            service.handle(now, request);
            Ending::Silence
        }
        Fault::CutBody(at) => Ending::Cut(service.handle(now, request), at),
        Fault::SlowBody(time) => Ending::Slow(service.handle(now, request), time),
        Fault::Garbage(kind) => {
            let mut response = service.handle(now, request);
            response.body = garbage(kind, response.body);
            Ending::Answer(response)
        }
    }
}

fn server_error() -> Response {
    Response {
        status: 503,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: br#"{"error":1,"message":"The service is unavailable."}"#.to_vec(),
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
    use crate::api::http::{Key, Method};
    use crate::sandbox::{Behaviour, Store};

    /// The ending of one create, and how many campaigns there are after it.
    fn create(fault: Fault) -> (Ending, usize) {
        let key = Key::new("k");
        let mut service = Service::new(Store::default(), key.clone(), Behaviour::default());
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
    fn a_lost_request_does_nothing_and_a_lost_reply_does_all() {
        assert_eq!(create(Fault::LostRequest), (Ending::Silence, 0));
        assert_eq!(create(Fault::LostReply), (Ending::Silence, 1));
        assert_eq!(create(Fault::Reset), (Ending::Reset, 0));
        assert_eq!(create(Fault::NoConnection), (Ending::NoConnection, 0));
    }

    #[test]
    fn a_refusal_on_the_way_does_nothing() {
        for fault in [
            Fault::Throttled,
            Fault::ServerError,
            Fault::ServerErrorHtml,
            Fault::HtmlPage,
            Fault::Redirect,
        ] {
            let (ending, campaigns) = create(fault);
            assert!(matches!(ending, Ending::Answer(_)));
            assert_eq!(campaigns, 0);
        }
    }

    #[test]
    fn a_spoilt_answer_comes_after_the_work() {
        for fault in [Fault::CutBody(3), Fault::Garbage(Garbage::Deep)] {
            assert_eq!(create(fault).1, 1);
        }
        let (Ending::Answer(answer), _) = create(Fault::Garbage(Garbage::Truncated)) else {
            panic!("no answer");
        };
        assert!(serde_json::from_slice::<serde_json::Value>(&answer.body).is_err());
    }
}
