//! Answers with the text that the last look made.

#![forbid(unsafe_code)]

use std::{
    convert::Infallible,
    future::{Ready, ready},
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

use super::access::Access;
use crate::connections::{Client, Connections, run};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

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
pub(super) fn serve(listener: TcpListener, access: Access, text: Text) -> io::Result<()> {
    run(async move {
        let connections = Connections::of(listener)?;
        let access = Arc::new(access);
        let answer = move |request, client| reply(&request, &client, &access, &text);
        loop {
            connections.serve_next(&answer).await;
        }
    })?
}

fn reply(
    request: &Request<Incoming>,
    client: &Client,
    access: &Access,
    text: &Text,
) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let refused = access.refusal(request.headers());
    if refused.is_none() && access.has_token() {
        client.is_known();
    }
    let (status, kind, body) = match (refused, request.uri().path()) {
        (Some((status, why)), _) => (status, PLAIN, why.into()),
        (None, _) if !is_read => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET is answered\n".into()),
        (None, "/metrics") => match text.get() {
            none if none.is_empty() => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, "not yet\n".into()),
            text => (StatusCode::OK, OPENMETRICS, text),
        },
        (None, _) => (StatusCode::NOT_FOUND, PLAIN, "the metrics are at /metrics\n".into()),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = [(CONTENT_TYPE, kind), (X_CONTENT_TYPE_OPTIONS, "nosniff"), (CACHE_CONTROL, "no-store")];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    ready(Ok(response))
}
