//! Handles HTTP requests: which are answered, and the headers of every answer.

#![forbid(unsafe_code)]

use std::{convert::Infallible, io, net::TcpListener, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::{Bytes, Incoming},
    header,
};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::{Instant, sleep_until},
};

use crate::serve::connections::{Client, Connections, is_local, run};

use super::{live::Live, page, question::Desk, refusal::Refusal, request::Request, route::Answer};
use crate::serve::token;

/// What comes before the answers.
pub(super) struct Door {
    pub(super) token: String,
    /// Where questions about the files go.
    pub(super) files: Option<Desk>,
    /// What is followed.
    pub(super) live: Option<Arc<Live>>,
    pub(super) idle: Option<Duration>,
}

/// Nothing is loaded from elsewhere, and only the page's own scripts run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Waits for requests and answers them, until it is told to end.
pub(super) fn serve(listener: TcpListener, door: Door) -> io::Result<()> {
    run(accept(listener, door))?
}

async fn accept(listener: TcpListener, door: Door) -> io::Result<()> {
    let connections = Connections::of(listener)?;
    let idle = door.idle;
    let (ended, door) = (Arc::new(Notify::new()), Arc::new(door));
    let (asked, mut was_asked) = mpsc::unbounded_channel::<()>();
    let (of_answers, end) = (ended.clone(), ended);
    let answer =
        move |request, client| reply((request, client), door.clone(), of_answers.clone(), asked.clone());
    let mut deadline = idle.map(|idle| Instant::now() + idle);
    loop {
        let is_idle = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = connections.serve_next(&answer) => {}
            Some(()) = was_asked.recv() => deadline = idle.map(|idle| Instant::now() + idle),
            () = end.notified() => {
                // The last answer is on its way.
                tokio::time::sleep(Duration::from_millis(50)).await;
                return Ok(());
            }
            () = is_idle => return Ok(()),
        }
    }
}

async fn reply(
    (request, client): (hyper::Request<Incoming>, Client),
    door: Arc<Door>,
    ended: Arc<Notify>,
    asked: mpsc::UnboundedSender<()>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = path(&request, &door.token);
    if path.is_ok() {
        let _alive = asked.send(());
        client.is_known();
    }
    let answer = match path {
        Err(refused) => {
            text(refused, "this address has no page; use the whole address that memreel view printed")
        }
        Ok(path) => answer(&request, path, &door, &ended).await,
    };
    Ok(response(answer))
}

async fn answer(request: &hyper::Request<Incoming>, path: &str, door: &Door, ended: &Notify) -> Answer {
    let (look, path) = split_look(path);
    let is_post = *request.method() == Method::POST;
    let live = door.live.as_ref().filter(|_| look.is_none());
    match (path, live) {
        ("end", _) if is_post => {
            ended.notify_one();
            text(StatusCode::OK, "memreel view has ended; this page can be closed")
        }
        ("pause", Some(live)) if is_post => live.pause(),
        ("snapshot", Some(live)) if is_post => {
            let live = live.clone();
            let saved = in_a_thread(move || live.save()).await;
            saved.unwrap_or_else(|| text(StatusCode::INTERNAL_SERVER_ERROR, FAILED))
        }
        _ if *request.method() != Method::GET => {
            text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported")
        }
        ("live", Some(live)) => match Request::new(path, request.uri().query()).number("after") {
            Ok(Some(us)) => live.after(us).await,
            Ok(None) => live.now(),
            Err(refusal) => refusal.into(),
        },
        (path, live) => {
            match page::file(if live.is_some() && path.is_empty() { "live.html" } else { path }) {
                Some((kind, bytes)) => Answer { status: 200, kind, bytes: bytes.to_vec() },
                None => {
                    let look = look.and_then(|look| door.live.as_ref()?.look(look));
                    match look.as_ref().or(door.files.as_ref()) {
                        Some(desk) => question(Request::new(path, request.uri().query()), desk).await,
                        None => Refusal::missing("this pause has ended; follow the program, and pause again")
                            .into(),
                    }
                }
            }
        }
    }
}

/// Returns the number of a look and what follows it, in a path such as `look/3/files`.
fn split_look(path: &str) -> (Option<u64>, &str) {
    let parts = path.strip_prefix("look/").and_then(|rest| rest.split_once('/'));
    match parts.and_then(|(number, rest)| Some((number.parse().ok()?, rest))) {
        Some((number, rest)) => (Some(number), rest),
        None => (None, path),
    }
}

/// Returns the result of work that takes long.
async fn in_a_thread(work: impl FnOnce() -> Answer + Send + 'static) -> Option<Answer> {
    let (reply, answer) = oneshot::channel();
    std::thread::Builder::new().spawn(move || drop(reply.send(work()))).ok()?;
    answer.await.ok()
}

/// Returns the path without the token.
///
/// # Errors
/// The token is not in it, or another page sent the request.
fn path<'r>(request: &'r hyper::Request<Incoming>, expected: &str) -> Result<&'r str, StatusCode> {
    if !is_from_here(request.headers()) {
        return Err(StatusCode::FORBIDDEN);
    }
    let path = request.uri().path().strip_prefix('/').unwrap_or_default();
    let (given, rest) = path.split_once('/').ok_or(StatusCode::NOT_FOUND)?;
    if token::is_same(given, expected) { Ok(rest) } else { Err(StatusCode::NOT_FOUND) }
}

/// Whether a request names this machine as its host, so that no other name was made to point here, and no page from
/// elsewhere sent it.
fn is_from_here(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    is_local(headers)
        && matches!(site, None | Some("none" | "same-origin"))
        && origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

const FAILED: &str = "the answer failed; this is a bug in memreel";

async fn question(request: Request, desk: &Desk) -> Answer {
    let Some(answer) = desk.ask(request) else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
    };
    answer.await.unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, FAILED))
}

fn text(status: StatusCode, words: &str) -> Answer {
    Answer { status: status.as_u16(), kind: "text/plain; charset=utf-8", bytes: words.as_bytes().to_vec() }
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.bytes)));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [
        (header::CONTENT_TYPE, answer.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_from_elsewhere_get_no_answer() {
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            pairs
                .iter()
                .map(|(name, value)| {
                    (header::HeaderName::from_static(name), header::HeaderValue::from_static(value))
                })
                .collect()
        };
        let host = ("host", "127.0.0.1:80");
        assert!(is_from_here(&headers(&[host])));
        assert!(is_from_here(&headers(&[
            host,
            ("sec-fetch-site", "same-origin"),
            ("origin", "http://127.0.0.1:80")
        ])));
        assert!(!is_from_here(&headers(&[host, ("sec-fetch-site", "cross-site")])));
        assert!(!is_from_here(&headers(&[host, ("origin", "http://example.com")])));
        assert!(!is_from_here(&headers(&[host, ("origin", "null")])));
        assert!(!is_from_here(&headers(&[])));
    }
}
