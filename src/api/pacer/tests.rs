//! Tests of the pacer with models of services, on true time.

pub(crate) mod model;

use super::*;
use crate::api::http::Response;
use model::{
    Flight, Form, Service, Trip, WALL, Window, even, forms, known, mono, skews, trips, wall,
    windows,
};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Sends one request for each trip and returns when the last had its response.
fn drive(service: &mut Service, mut pacer: Pacer, trips: &[Trip]) -> i64 {
    let mut t = 1_000;
    for trip in trips {
        while pacer.queue(mono(t)) > Duration::ZERO {
            t += i64::try_from(pacer.wait(mono(t)).as_millis()).expect("short");
        }
        let sent = pacer.sent(mono(t));
        let mut saved = pacer.save(mono(t), wall(t));
        let response = service.handle(t + trip.up + WALL);
        t += trip.up + trip.down;
        if trip.killed != 1 {
            if trip.lost {
                pacer.lost(sent, mono(t));
            } else {
                pacer.answered(sent, mono(t), wall(t), &RateLimitHeaders::read(&response));
            }
            saved = pacer.save(mono(t), wall(t));
        }
        if trip.killed > 0 {
            let cap = pacer.cap;
            pacer = Pacer::restore(pacer.reserve, &saved, mono(t), wall(t)).capped(cap);
        }
        t += trip.pause;
    }
    t
}

/// Lets everything happen up to `to`, in the order of time.
fn let_pass(service: &mut Service, pacer: &mut Pacer, flights: &mut Vec<Flight>, to: i64) {
    loop {
        let due = |flight: &Flight| match flight.response {
            None => flight.arrives,
            Some(_) => flight.answers,
        };
        let next = (0..flights.len()).min_by_key(|at| due(&flights[*at]));
        let Some(at) = next.filter(|at| due(&flights[*at]) <= to) else { return };
        let flight = &mut flights[at];
        if flight.response.is_none() {
            flight.response = Some(service.handle(flight.arrives + WALL));
            continue;
        }
        let flight = flights.swap_remove(at);
        let now = flight.answers;
        match flight.response.filter(|_| !flight.lost) {
            None => pacer.lost(flight.sent, mono(now)),
            Some(response) => {
                let signals = RateLimitHeaders::read(&response);
                pacer.answered(flight.sent, mono(now), wall(now), &signals);
            }
        }
    }
}

/// Like [`drive`], with up to `width` requests in flight.
fn drive_overlapping(service: &mut Service, mut pacer: Pacer, trips: &[Trip], width: usize) -> i64 {
    let (mut t, mut flights, mut end) = (1_000, Vec::<Flight>::new(), 0);
    for trip in trips {
        while flights.len() >= width || !flights.is_empty() && !pacer.may_overlap(mono(t)) {
            t = t.max(flights.iter().map(|flight| flight.answers).min().expect("not empty"));
            let_pass(service, &mut pacer, &mut flights, t);
        }
        while flights.is_empty() && pacer.queue(mono(t)) > Duration::ZERO {
            t += i64::try_from(pacer.wait(mono(t)).as_millis()).expect("short");
        }
        let sent = pacer.sent(mono(t));
        let arrives = t + trip.up;
        let answers = arrives + trip.down;
        flights.push(Flight { sent, arrives, answers, lost: trip.lost, response: None });
        end = end.max(answers);
        t += trip.pause;
        let_pass(service, &mut pacer, &mut flights, t);
        if trip.killed > 0 {
            // What is in flight arrives; its responses are lost.
            let saved = pacer.save(mono(t), wall(t));
            t = t.max(flights.iter().map(|flight| flight.arrives).max().unwrap_or(t));
            flights.iter_mut().for_each(|flight| flight.answers = i64::MAX);
            let_pass(service, &mut pacer, &mut flights, t);
            flights.clear();
            let cap = pacer.cap;
            pacer = Pacer::restore(pacer.reserve, &saved, mono(t), wall(t)).capped(cap);
        }
    }
    let_pass(service, &mut pacer, &mut flights, end);
    end
}

/// The time of a client that knows the service's state.
fn ideal(service: &Service, share: u64, trips: &[Trip]) -> i64 {
    let mut service = Service { refused: 0, ..service.clone() };
    let mut t = 1_000;
    for trip in trips {
        while !service.has_room(t + trip.up + WALL, share) {
            t = (service.end(t + trip.up + WALL) - trip.up - WALL).max(t + 1);
        }
        service.handle(t + trip.up + WALL);
        t += trip.up + trip.down + trip.pause;
    }
    t
}

proptest! {
    #[test]
    fn a_service_without_other_clients_never_throttles(
        window in windows(), limit in 1u64..40, reserve in 0u64..45, form in forms(),
        skew in skews(), up in any::<bool>(), trips in trips(150, 6),
    ) {
        let mut service = Service { up, ..Service::new(window, known(limit, form), form, skew) };
        drive(&mut service, Pacer::new(reserve), &trips);
        prop_assert_eq!(service.refused, 0);
    }

    #[test]
    fn a_service_never_throttles_overlapping_requests(
        window in windows(), limit in 1u64..120, reserve in 0u64..45, form in forms(),
        skew in skews(), up in any::<bool>(), trips in trips(300, 4), width in 2usize..33,
    ) {
        let mut service = Service { up, ..Service::new(window, known(limit, form), form, skew) };
        drive_overlapping(&mut service, Pacer::new(reserve), &trips, width);
        prop_assert_eq!(service.refused, 0);
    }

    #[test]
    fn overlapping_requests_use_at_least_95_percent_of_fixed_windows(
        aligned in prop::option::of(0..WINDOW), form in forms(), skew in skews(),
        latency in 0i64..1_500, reserve in 0u64..25, up in any::<bool>(), width in 2usize..33,
    ) {
        let window = aligned.map_or(Window::FromFirst, Window::Fixed);
        let mut service = Service { up, ..Service::new(window, 60, form, skew) };
        let trips = even(1200, latency);
        let best = ideal(&service, 60 - reserve, &trips);
        let pacer = Pacer::new(reserve).capped((!form.tells()).then_some(60));
        let took = drive_overlapping(&mut service, pacer, &trips, width);
        let once = if form.tells() { 0 } else { WINDOW };
        prop_assert!(took - once <= best + best / 20, "{took} of {best}");
        prop_assert_eq!(service.refused, 0);
    }

    #[test]
    fn at_least_95_percent_of_fixed_windows_are_used(
        aligned in prop::option::of(0..WINDOW), form in forms(), skew in skews(),
        latency in 0i64..1_500, reserve in 0u64..25, up in any::<bool>(),
    ) {
        let window = aligned.map_or(Window::FromFirst, Window::Fixed);
        let mut service = Service { up, ..Service::new(window, 30, form, skew) };
        let trips = even(600, latency);
        let best = ideal(&service, 30 - reserve, &trips);
        let took = drive(&mut service, Pacer::new(reserve), &trips);
        // A client that does not know the window's end loses up to one window, once.
        let once = if form.tells() { 0 } else { WINDOW };
        prop_assert!(took - once <= best + best / 20, "{took} of {best}");
        prop_assert_eq!(service.refused, 0);
    }

    #[test]
    fn no_saved_state_makes_the_pacer_panic_or_wait_forever(
        saved in any::<i64>(), limit in any::<Option<u64>>(), remaining in any::<Option<u64>>(),
        until in any::<i64>(), not_before in any::<Option<i64>>(),
        requests in prop::collection::vec(any::<(i64, u64)>(), 0..100), turned in any::<Option<i64>>(),
        in_flight in prop::collection::vec(any::<(u64, u64, i64, bool)>(), 0..9),
        queue in prop::collection::vec((any::<(u64, i64, i64)>(), 0u64..3, any::<bool>()), 0..9),
        wall in any::<i64>(),
    ) {
        let state = serde_json::json!({
            "saved": saved, "limit": limit, "remaining": remaining, "until": until,
            "not_before": not_before, "requests": requests, "turned": turned,
            "in_flight": in_flight.iter().map(|&(client, request, sent, alone)| serde_json::json!({
                "client": client, "request": request, "sent": sent, "alone": alone,
            })).collect::<Vec<_>>(),
            "queue": queue.iter().map(|&((client, since, ready), pace, keeps)| serde_json::json!({
                "client": client, "since": since, "ready": ready, "pace": pace, "keeps_pace": keeps,
            })).collect::<Vec<_>>(),
        });
        let state: PacerState = serde_json::from_value(state).expect("a state");
        let mut pacer = Pacer::new(3).of_client(7);
        pacer.adopt(&state, Duration::from_secs(9), Timestamp(wall));
        let now = Duration::from_secs(9);
        prop_assert!(pacer.wait(now) <= millis(MAX_WAIT));
        let _any = pacer.estimate(now, u64::MAX);
        let sent = pacer.sent(now);
        let _any = pacer.save(now, Timestamp(wall));
        pacer.answered(sent, now, Timestamp(wall), &RateLimitHeaders::default());
        prop_assert!(pacer.wait(now) <= millis(MAX_WAIT));
        let (mut later, mut waits) = (now, 0);
        while let wait @ 1.. = pacer.queue(later).as_millis() {
            later += millis(wait as i64);
            waits += 1;
            prop_assert!(waits < 1_000, "forever");
        }
    }

    #[test]
    fn no_response_headers_make_the_pacer_panic(
        limit in any::<Option<u64>>(), remaining in any::<Option<u64>>(), date in any::<Option<i64>>(),
        reset in any::<Option<i64>>(), relative in any::<bool>(), throttled in any::<bool>(),
    ) {
        let time = reset.map(|at| if relative { ResetTime::Relative(at.unsigned_abs()) } else { ResetTime::Absolute(at) });
        let signals = RateLimitHeaders { limit, remaining, reset: time, date, retry_after: time, throttled };
        let mut pacer = Pacer::new(0);
        for second in 0..3 {
            let now = Duration::from_secs(second);
            let sent = pacer.sent(now);
            pacer.answered(sent, now, wall(0), &signals);
            let _any = (pacer.wait(now), pacer.estimate(now, 1000), pacer.save(now, wall(0)));
        }
    }
}

fn answer(headers: &[(&str, &str)], body: &str) -> RateLimitHeaders {
    let headers = headers.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    RateLimitHeaders::read(&Response { status: 200, headers, body: body.as_bytes().to_vec() })
}

/// The headers of a failure response.
fn failure(headers: &[(&str, &str)], body: &str) -> RateLimitHeaders {
    let headers = headers.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    RateLimitHeaders::read(&Response { status: 503, headers, body: body.as_bytes().to_vec() })
}

fn wait_after(headers: &[(&str, &str)], body: &str) -> Duration {
    let mut pacer = Pacer::new(0);
    let sent = pacer.sent(mono(1_000));
    pacer.answered(sent, mono(1_100), wall(1_100), &failure(headers, body));
    pacer.wait(mono(1_100))
}

#[test]
fn retry_after_of_a_successful_response_is_ignored() {
    let mut pacer = Pacer::new(0);
    let sent = pacer.sent(mono(1_000));
    pacer.answered(sent, mono(1_100), wall(1_100), &answer(&[("retry-after", "7200")], ""));
    assert_eq!(pacer.wait(mono(1_100)), Duration::ZERO);
}

#[test]
fn a_wait_of_a_year_is_not_restored_by_the_next_process() {
    let mut pacer = Pacer::new(0);
    let sent = pacer.sent(mono(1_000));
    pacer.answered(sent, mono(1_100), wall(1_100), &failure(&[("retry-after", "31536000")], ""));
    assert!(pacer.wait(mono(1_100)) > Duration::from_secs(86_400));
    let state = pacer.save(mono(1_100), wall(1_100));
    let next = Pacer::restore(0, &state, mono(5_000), wall(5_000));
    assert!(next.wait(mono(5_000)) < Duration::from_secs(120));
}

/// The most requests in any 60 s.
fn densest_minute(hits: &VecDeque<i64>) -> usize {
    let within = |first: i64| hits.iter().filter(move |&&at| (first..first + WINDOW).contains(&at));
    hits.iter().map(|&first| within(first).count()).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn no_minute_has_more_requests_than_the_cap(
        window in windows(), limit in 1u64..60, cap in 1u64..60, reserve in 0u64..20, form in forms(),
        skew in skews(), trips in trips(200, 4), width in 1usize..9,
    ) {
        let mut service = Service::new(window, limit, form, skew);
        service.keeps_all = true;
        let told = form != Form::Nothing;
        drive_overlapping(&mut service, Pacer::new(reserve).capped(Some(cap)), &trips, width);
        prop_assert!(densest_minute(&service.all) as u64 <= cap, "{}", densest_minute(&service.all));
        prop_assert!(!told || limit < 9 || service.refused == 0);
    }

    #[test]
    fn a_cap_below_the_limit_is_used_to_95_percent(
        form in forms(), cap in 9u64..1_000, latency in 0i64..1_500, width in 1usize..9,
    ) {
        let mut service = Service::new(Window::Sliding, 5_000, form, 0);
        service.keeps_all = true;
        let trips = even(usize::try_from(cap * 6).expect("few"), latency);
        let took = drive_overlapping(&mut service, Pacer::new(0).capped(Some(cap)), &trips, width);
        // The last of six times the cap is sent in the sixth minute.
        let each = trips.len() as i64 * latency;
        let best = (5 * WINDOW + each / 6).max(each);
        prop_assert!(took <= best + best / 20, "{took} of {best}");
    }
}

#[test]
fn a_service_without_a_limit_is_asked_up_to_the_cap() {
    let mut pacer = Pacer::new(0).capped(Some(2));
    let none = answer(&[("x-ratelimit-limit", "0")], "");
    for _ in 0..2 {
        assert_eq!(pacer.wait(mono(1_000)), Duration::ZERO);
        let sent = pacer.sent(mono(1_000));
        pacer.answered(sent, mono(1_000), wall(1_000), &none);
    }
    assert_eq!(pacer.wait(mono(1_000)), Duration::from_millis(60_050));
    assert_eq!((pacer.limit(), pacer.may_overlap(mono(1_000))), (Some(2), false));
    let limits =
        [(None, None), (Some(0), None), (Some(9), None), (Some(9), Some(5)), (Some(3), Some(5))];
    let limits = limits.map(|(told, cap)| effective_limit(told, cap));
    assert_eq!(limits, [None, Some(0), Some(9), Some(5), Some(3)]);
}

#[test]
fn the_estimate_counts_windows_of_the_cap() {
    let mut pacer = Pacer::new(0).capped(Some(10));
    let headers = [("x-ratelimit-limit", "900"), ("x-ratelimit-remaining", "899")];
    let sent = pacer.sent(mono(0));
    pacer.answered(sent, mono(0), wall(0), &answer(&headers, ""));
    let minutes = |requests| pacer.estimate(mono(0), requests).as_secs() / 60;
    assert_eq!((minutes(9), minutes(10), minutes(19), minutes(20), minutes(100)), (0, 1, 1, 2, 10));
}

#[test]
fn a_limit_that_the_service_does_not_report_can_be_set() {
    let mut pacer = Pacer::new(0).capped(Some(2));
    for _ in 0..2 {
        assert_eq!(pacer.wait(mono(1_000)), Duration::ZERO);
        let sent = pacer.sent(mono(1_000));
        pacer.answered(sent, mono(1_000), wall(1_000), &answer(&[], ""));
    }
    assert!(pacer.wait(mono(1_000)) > Duration::from_secs(50));
}

#[test]
fn requests_are_sent_without_waiting_down_to_the_reserve() {
    let left = |remaining| {
        let mut pacer = Pacer::new(5);
        let sent = pacer.sent(mono(1_000));
        let headers = [
            ("x-ratelimit-limit", "30"),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", "20"),
        ];
        pacer.answered(sent, mono(1_100), wall(1_100), &answer(&headers, ""));
        pacer.wait(mono(1_100))
    };
    assert_eq!(left("6"), Duration::ZERO);
    assert_eq!(left("5"), Duration::from_millis(21_050));
}

#[test]
fn retry_after_wins_over_a_generous_remaining() {
    let headers = [("x-ratelimit-remaining", "29"), ("retry-after", "7")];
    assert_eq!(wait_after(&headers, ""), Duration::from_millis(8_050));
    let body = r#"{"error":429,"message":"Too Many Requests","Retry-After":"41"}"#;
    assert_eq!(wait_after(&[], body), Duration::from_millis(42_050));
}

#[test]
fn retry_after_as_a_date_uses_the_clock_of_the_service() {
    let headers = [
        ("date", "Fri, 20 Nov 2020 10:00:00 GMT"),
        ("retry-after", "Fri, 20 Nov 2020 10:00:30 GMT"),
    ];
    assert_eq!(wait_after(&headers, ""), Duration::from_millis(31_050));
}

#[test]
fn a_limit_of_zero_is_no_limit() {
    let headers =
        [("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "60")];
    assert_eq!(wait_after(&headers, ""), Duration::ZERO);
}

#[test]
fn a_request_that_was_not_sent_costs_nothing() {
    let mut pacer = Pacer::new(29);
    let sent = pacer.sent(mono(1_000));
    pacer.not_sent(sent);
    assert_eq!(pacer.wait(mono(1_000)), Duration::ZERO);
    let sent = pacer.sent(mono(1_000));
    pacer.lost(sent, mono(1_500));
    assert_eq!(pacer.wait(mono(1_500)), Duration::from_millis(60_050));
}

#[test]
fn a_remaining_from_before_the_request_is_handled() {
    let mut pacer = Pacer::new(0);
    for left in (1..=3).rev() {
        assert_eq!(pacer.wait(mono(1_000)), Duration::ZERO, "{left}");
        let sent = pacer.sent(mono(1_000));
        let left = left.to_string();
        let headers = [("x-ratelimit-limit", "3"), ("x-ratelimit-remaining", left.as_str())];
        pacer.answered(sent, mono(1_000), wall(1_000), &answer(&headers, ""));
    }
    assert!(pacer.wait(mono(1_000)) >= Duration::from_secs(60));
}

#[test]
fn after_a_refusal_the_headers_alone_are_not_trusted() {
    let mut pacer = Pacer::new(0);
    let generous = answer(&[("x-ratelimit-limit", "3"), ("x-ratelimit-remaining", "2")], "");
    for _ in 0..2 {
        let sent = pacer.sent(mono(1_000));
        pacer.answered(sent, mono(1_000), wall(1_000), &generous);
    }
    assert_eq!(pacer.wait(mono(1_000)), Duration::ZERO);
    let sent = pacer.sent(mono(1_000));
    pacer.answered(
        sent,
        mono(1_000),
        wall(1_000),
        &RateLimitHeaders { throttled: true, ..generous },
    );
    assert!(pacer.wait(mono(1_000)) >= Duration::from_secs(60));
}

#[test]
fn the_estimate_counts_whole_windows_at_the_limit_less_the_reserve() {
    let minutes =
        |reserve, requests| Pacer::new(reserve).estimate(mono(0), requests).as_secs() / 60;
    assert_eq!((minutes(0, 0), minutes(0, 30), minutes(0, 31), minutes(0, 100)), (0, 0, 1, 3));
    assert_eq!((minutes(5, 25), minutes(5, 26), minutes(30, 3)), (0, 1, 2));
}

#[test]
fn a_state_from_the_future_delays_by_one_window_at_most() {
    let mut pacer = Pacer::new(29);
    let sent = pacer.sent(mono(1_000));
    pacer.lost(sent, mono(1_000));
    let state = pacer.save(mono(1_000), wall(86_400_000));
    let next = Pacer::restore(29, &state, mono(0), wall(0));
    assert_eq!(next.wait(mono(0)), Duration::from_millis(60_050));
}

#[test]
fn a_large_limit_keeps_a_small_state() {
    let mut service = Service::new(Window::Sliding, 5_000, Form::OnlyLimit, 0);
    let mut pacer = Pacer::new(0);
    for t in 0..3_000 {
        let sent = pacer.sent(mono(t));
        pacer.answered(sent, mono(t), wall(t), &RateLimitHeaders::read(&service.handle(t + WALL)));
    }
    assert!(pacer.save(mono(3_000), wall(3_000)).requests.len() <= 64);
    assert_eq!(service.refused, 0);
}

#[test]
fn a_response_from_the_window_before_tells_nothing_about_the_present_one() {
    let told = |left| [("x-ratelimit-limit", "10"), ("x-ratelimit-remaining", left)];
    let mut pacer = Pacer::new(0);
    let first = pacer.sent(mono(1_000));
    pacer.answered(first, mono(1_000), wall(1_000), &answer(&told("0"), ""));
    let slow = pacer.sent(mono(1_500));
    let turn = pacer.sent(mono(62_000));
    pacer.answered(slow, mono(62_100), wall(62_100), &answer(&told("9"), ""));
    assert_eq!(pacer.known, None);
    pacer.answered(turn, mono(62_200), wall(62_200), &answer(&told("3"), ""));
    assert_eq!(pacer.known.map(|known| known.remaining), Some(3));
}

#[test]
fn a_window_of_overlapping_requests_may_last_until_a_window_after_its_first_response() {
    let told = |left| [("x-ratelimit-limit", "10"), ("x-ratelimit-remaining", left)];
    let mut pacer = Pacer::new(0);
    let before = pacer.sent(mono(1_000));
    pacer.answered(before, mono(1_000), wall(1_000), &answer(&[("x-ratelimit-limit", "10")], ""));
    let flights = [50_000, 50_010].map(|at| pacer.sent(mono(at)));
    // Two of the window are used, but the one without a response yet is not in the log.
    pacer.answered(flights[1], mono(50_100), wall(50_100), &answer(&told("8"), ""));
    let known = pacer.known.unwrap();
    assert_eq!((known.remaining, known.until), (7, 50_100 + WINDOW + MARGIN));
}

#[test]
fn a_request_of_an_ended_process_counts_until_it_may_have_left_the_window() {
    let mut ended = Pacer::new(0).capped(Some(1));
    ended.sent(mono(1_000));
    let state = ended.save(mono(1_000), wall(1_000));
    let next = |t| Pacer::restore(0, &state, mono(t), wall(t)).capped(Some(1)).wait(mono(t));
    assert!(next(2_000) > Duration::ZERO);
    // It arrived 10 s after it was sent at the latest.
    assert_eq!(next(61_500), Duration::from_millis(9_550));
    assert_eq!(next(71_500), Duration::ZERO);
}

/// A service that says the same `Remaining` for ever: what one process sends, and when the next one
/// may go on, follows from the requests that were sent.
#[test]
fn a_remaining_that_never_falls_is_not_believed_by_this_process_or_the_next() {
    let resets: [&[(&str, &str)]; 3] =
        [&[], &[("x-ratelimit-reset", "60")], &[("x-ratelimit-reset", "1")]];
    for (remaining, reset) in ["29", "30"].into_iter().flat_map(|it| resets.map(|r| (it, r))) {
        let mut headers = vec![("x-ratelimit-limit", "30"), ("x-ratelimit-remaining", remaining)];
        headers.extend(reset);
        let signals = answer(&headers, "{}");
        let (mut pacer, mut t, mut hits) = (Pacer::new(0), 1_000, VecDeque::new());
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            let next = Pacer::restore(0, &pacer.save(mono(t), wall(t)), mono(t), wall(t));
            assert_eq!(next.wait(mono(t)), pacer.wait(mono(t)), "{headers:?} at {t}");
            let wait = pacer.wait(mono(t));
            longest = longest.max(wait);
            t += i64::try_from(wait.as_millis()).expect("short");
            let sent = pacer.sent(mono(t));
            hits.push_back(t);
            t += 20;
            pacer.answered(sent, mono(t), wall(t), &signals);
        }
        let of_window = densest_minute(&hits);
        if reset.first().is_none_or(|(_, reset)| *reset == "60") {
            assert!(of_window <= 31, "{of_window} requests in a minute by {headers:?}");
        }
        assert!(longest <= WINDOW_TIME + Duration::from_secs(4), "{longest:?} by {headers:?}");
    }
}
