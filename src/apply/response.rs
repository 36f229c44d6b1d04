//! What the response to a write means for its step.

use crate::api::error::{ApiError, ApiErrorKind};
use crate::api::http::Response;
use crate::model::Verb;

/// The outcome of one request.
#[derive(Debug)]
pub enum StepResponse {
    /// The service confirmed it; of a create, with the id if the response has one.
    Done(Option<i64>),
    /// The service refused it, with this message.
    Refused(String),
    /// It may have been executed or not.
    Unknown {
        /// The reason, for people: the service's message, or a description of the failure.
        why: String,
        /// Whether the service itself responded, with a server error (HTTP status 500 or more).
        failed: bool,
        /// Whether a repeated request may be confirmed.
        repeat: bool,
        /// The error of the request; `None` if the response was empty.
        error: Option<ApiError>,
    },
    /// It was not sent.
    Unsent(ApiError),
    /// It was not executed, and another request would not be executed now either.
    Stop(ApiError),
}

/// The outcome of a write, from the response to it.
#[must_use]
pub fn classify_response(verb: Verb, outcome: Result<Response, ApiError>) -> StepResponse {
    match outcome {
        Ok(response) if response.body.iter().all(u8::is_ascii_whitespace) => match verb {
            Verb::Create => StepResponse::Unknown {
                why: "the response was empty".to_owned(),
                failed: false,
                repeat: true,
                error: None,
            },
            _ => StepResponse::Done(None),
        },
        Ok(response) => {
            StepResponse::Done(if verb == Verb::Create { id(&response.body) } else { None })
        }
        Err(error) => failed(error),
    }
}

fn failed(error: ApiError) -> StepResponse {
    if error.has_unknown_outcome() {
        let failed = match &error.kind {
            ApiErrorKind::Refused { status, .. } | ApiErrorKind::Malformed { status, .. } => {
                *status >= 500
            }
            _ => false,
        };
        let why = match &error.kind {
            ApiErrorKind::Refused { message, .. } => message.clone(),
            kind => kind.to_string(),
        };
        let repeat = !error.kind.is_permanent();
        return StepResponse::Unknown { why, failed, repeat, error: Some(error) };
    }
    match &error.kind {
        ApiErrorKind::NotSent(_) => StepResponse::Unsent(error),
        ApiErrorKind::Refused { message, .. } => StepResponse::Refused(message.clone()),
        ApiErrorKind::Malformed { .. } => StepResponse::Refused(error.kind.to_string()),
        _ => StepResponse::Stop(error),
    }
}

/// The id in a response, as a number or as text.
fn id(body: &[u8]) -> Option<i64> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let told = |id: &serde_json::Value| id.as_i64().or_else(|| id.as_str()?.trim().parse().ok());
    let id = body.get("id").and_then(told).or_else(|| body.get("data")?.get("id").and_then(told));
    // A record cannot have an id below 1.
    id.filter(|id| *id > 0)
}

/// Whether the message of a refusal says that the record does not exist.
#[must_use]
pub fn says_absent(message: &str) -> bool {
    let message = message.to_lowercase();
    ["not found", "does not exist", "doesn't exist", "no such"]
        .iter()
        .any(|words| message.contains(words))
}

/// Whether the message of a refusal says that the record exists already.
#[must_use]
pub fn says_present(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("already") && !["limit", "maximum"].iter().any(|it| message.contains(it))
}

#[cfg(test)]
mod tests {
    use crate::api::http::Method;
    use crate::apply::response::*;

    fn answer(body: &str) -> Result<Response, ApiError> {
        Ok(Response { status: 200, headers: Vec::new(), body: body.as_bytes().to_vec() })
    }

    fn error(kind: ApiErrorKind) -> Result<Response, ApiError> {
        Err(ApiError::new(kind, Method::Post, "/api/qr/add"))
    }

    #[test]
    fn an_id_may_come_as_number_or_text_and_may_be_missing() {
        for (body, expected) in [
            (r#"{"error":0,"id":7}"#, Some(7)),
            (r#"{"error":"0","id":"8"}"#, Some(8)),
            (r#"{"error":0,"data":{"id":9}}"#, Some(9)),
            (r#"{"error":0,"id":1e300}"#, None),
            (r#"{"error":0,"id":0}"#, None),
            (r#"{"error":0,"id":"-3"}"#, None),
            (r#"{"error":0,"message":"ok"}"#, None),
        ] {
            let fate = classify_response(Verb::Create, answer(body));
            assert!(matches!(fate, StepResponse::Done(id) if id == expected), "{body}: {fate:?}");
        }
    }

    #[test]
    fn an_empty_response_confirms_a_delete_and_not_a_create() {
        assert!(matches!(classify_response(Verb::Delete, answer("")), StepResponse::Done(None)));
        assert!(matches!(
            classify_response(Verb::Create, answer(" ")),
            StepResponse::Unknown { .. }
        ));
    }

    /// What a response proves about its write.
    #[derive(Debug, PartialEq)]
    enum Proof {
        Executed,
        NotExecuted,
        Nothing,
    }

    /// What each envelope says below HTTP 500.
    const BODIES: &[(&str, Proof)] = &[
        ("", Proof::Nothing),
        ("<html><title>Moved</title>", Proof::Nothing),
        ("<html>Too many requests for this API key", Proof::Nothing),
        ("null", Proof::Nothing),
        (r#"{"error":0,"#, Proof::Nothing),
        (r#"{"message":"Too many requests","retry_after":9}"#, Proof::Nothing),
        (r#"{"error":{"name":["taken"]},"message":"The API key is missing"}"#, Proof::Nothing),
        (r#"{"error":500,"message":"The API key cache is down"}"#, Proof::Nothing),
        (r#"{"error":503,"message":"Too many requests","Retry-After":9}"#, Proof::Nothing),
        (r#"{"error":0,"id":7,"message":"A valid API key is required"}"#, Proof::Executed),
        (r#"{"error":"0","id":"7","retry_after":9}"#, Proof::Executed),
        (
            r#"{"error":1,"message":"You already have a campaign with that name."}"#,
            Proof::NotExecuted,
        ),
        (r#"{"error":"1","message":"A valid API key is required"}"#, Proof::NotExecuted),
        (r#"{"error":true,"message":"Too many requests","retry_after":9}"#, Proof::NotExecuted),
        (r#"{"error":404,"message":"Not found"}"#, Proof::NotExecuted),
        (r#"{"error":429,"message":"Too Many Requests","Retry-After":41}"#, Proof::NotExecuted),
    ];

    fn expected_proof(status: u16, body: &str, said: &Proof, verb: Verb) -> Proof {
        let throttled = body.starts_with(r#"{"error":429"#);
        match (status, said) {
            (401 | 403 | 429, _) => Proof::NotExecuted,
            (500.., _) => Proof::Nothing,
            (_, Proof::NotExecuted) if throttled => Proof::NotExecuted,
            (300..=399 | 408, _) => Proof::Nothing,
            (200..=299, Proof::Executed) => Proof::Executed,
            (200..=299, _) if body.is_empty() && verb != Verb::Create => Proof::Executed,
            (_, Proof::NotExecuted) => Proof::NotExecuted,
            _ => Proof::Nothing,
        }
    }

    #[test]
    fn only_the_status_and_the_envelope_prove_that_a_write_was_not_executed() {
        use crate::api::envelope::classify_write;
        let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let all_headers = [
            Vec::new(),
            header("retry-after", "9"),
            header("x-ratelimit-remaining", "0"),
            header("location", "https://elsewhere.example.net/"),
        ];
        for (verb, method) in [
            (Verb::Create, Method::Post),
            (Verb::Assign, Method::Post),
            (Verb::Update, Method::Put),
            (Verb::Delete, Method::Delete),
        ] {
            for (status, (body, said)) in
                (100..=599).flat_map(|it| BODIES.iter().map(move |body| (it, body)))
            {
                for headers in &all_headers {
                    let response = Response {
                        status,
                        headers: headers.clone(),
                        body: body.as_bytes().to_vec(),
                    };
                    let error = classify_write(&response).err();
                    let outcome = match error {
                        None => Ok(response),
                        Some(kind) => Err(ApiError::new(kind, method, "/api/qr/add")),
                    };
                    let proof = match classify_response(verb, outcome) {
                        StepResponse::Done(_) => Proof::Executed,
                        StepResponse::Refused(_) | StepResponse::Stop(_) => Proof::NotExecuted,
                        StepResponse::Unknown { .. } => Proof::Nothing,
                        StepResponse::Unsent(error) => panic!("{status} {body}: {error}"),
                    };
                    let expected = expected_proof(status, body, said, verb);
                    assert_eq!(proof, expected, "{verb:?} {status} {headers:?} {body}");
                }
            }
        }
    }

    #[test]
    fn an_existing_record_is_distinguished_from_a_reached_limit() {
        assert!(says_present("This link is already part of the campaign."));
        assert!(!says_present("You have already reached the maximum."));
        assert!(!says_present("Not found."));
    }

    #[test]
    fn a_refusal_keeps_its_message_and_a_server_failure_is_not_a_refusal() {
        let refused = |status| ApiErrorKind::Refused { status, message: "No.".to_owned() };
        assert!(
            matches!(classify_response(Verb::Create, error(refused(400))), StepResponse::Refused(why) if why == "No.")
        );
        let failed = classify_response(Verb::Create, error(refused(503)));
        assert!(matches!(failed, StepResponse::Unknown { failed: true, .. }));
        let stop = classify_response(Verb::Create, error(ApiErrorKind::Interrupted));
        assert!(matches!(stop, StepResponse::Stop(_)));
        let unsent = classify_response(Verb::Create, error(ApiErrorKind::NotSent(String::new())));
        assert!(matches!(unsent, StepResponse::Unsent(_)));
    }
}
