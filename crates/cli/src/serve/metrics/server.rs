//! Answers with the latest metrics text, and with the latest profile.

#![forbid(unsafe_code)]

use std::{
    convert::Infallible,
    io,
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError},
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};

use super::{
    access::Access,
    heap::{self, Ask},
};
use crate::serve::connections::{Client, Connections, run};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const PROFILE: &str = "application/octet-stream";

/// The answer to requests for anything else.
const ELSEWHERE: &str = "the metrics are at /metrics, and what is held is at /debug/pprof/heap\n";

/// The text of the last look.
#[derive(Clone, Debug, Default)]
pub(super) struct Text(Arc<Mutex<Bytes>>);

impl Text {
    pub(super) fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    /// Returns the text; empty before the first look.
    fn get(&self) -> Bytes {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers requests until the process ends.
pub(super) fn serve(listener: TcpListener, access: Access, text: Text, ask: Ask) -> io::Result<()> {
    run(async move {
        let connections = Connections::of(listener)?;
        let server = Server { access: Arc::new(access), text, ask };
        let answer = move |request, client| server.clone().reply(request, client);
        loop {
            connections.serve_next(&answer).await;
        }
    })?
}

/// What answers have, and who gets them.
#[derive(Clone)]
struct Server {
    access: Arc<Access>,
    text: Text,
    ask: Ask,
}

impl Server {
    async fn reply(
        self,
        request: Request<Incoming>,
        client: Client,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let refused = self.access.refusal(request.headers());
        if refused.is_none() && self.access.has_token() {
            client.is_known();
        }
        let (status, kind, body) = match (refused, request.uri().path()) {
            (Some((status, why)), _) => (status, PLAIN, why.into()),
            (None, _) if !is_read => {
                (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET is supported\n".into())
            }
            (None, "/metrics") => match self.text.get() {
                none if none.is_empty() => not_yet(),
                text => (StatusCode::OK, OPENMETRICS, text),
            },
            (None, heap::PATH) if asks_for_more(request.uri().query()) => {
                (StatusCode::BAD_REQUEST, PLAIN, "only the current state is served, as a profile\n".into())
            }
            (None, heap::PATH) => match self.ask.profile().await {
                None => not_yet(),
                Some(profile) => (StatusCode::OK, PROFILE, profile),
            },
            (None, _) => (StatusCode::NOT_FOUND, PLAIN, ELSEWHERE.into()),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let headers =
            [(CONTENT_TYPE, kind), (X_CONTENT_TYPE_OPTIONS, "nosniff"), (CACHE_CONTROL, "no-store")];
        for (name, value) in headers {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        Ok(response)
    }
}

fn not_yet() -> (StatusCode, &'static str, Bytes) {
    (StatusCode::SERVICE_UNAVAILABLE, PLAIN, "not yet\n".into())
}

/// Returns whether a query asks for a text, or for what was allocated in some seconds, as it may of a Go program.
fn asks_for_more(query: Option<&str>) -> bool {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.any(|(key, value)| ["seconds", "debug"].contains(&key) && value != "0")
}
