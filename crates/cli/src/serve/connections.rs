//! Limits HTTP connections: how many there are, how long one may be silent, and which are closed when there are too
//! many.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::Future,
    io,
    net::TcpListener,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    HeaderMap, Request, Response,
    body::{Bytes, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::oneshot;

/// A client may take this long for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// The most connections at once.
const MAX_CONNECTIONS: usize = 256;

/// Connections of a port.
pub(crate) struct Connections {
    listener: tokio::net::TcpListener,
    places: Places,
}

/// The connections that are open, by their numbers, the oldest first.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    n_before: u64,
    all: BTreeMap<u64, Place>,
}

/// A connection that is open.
struct Place {
    /// Ends the connection when it is dropped.
    _end: oneshot::Sender<()>,
    is_known: bool,
}

/// The connection of a request, which is trusted once a request was authorised.
#[derive(Clone)]
pub(crate) struct Client {
    places: Places,
    number: u64,
}

/// Runs a server on this thread.
pub(crate) fn run<T>(server: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    Ok(runtime.block_on(server))
}

impl Connections {
    /// Takes a port; within [`run`].
    pub(crate) fn of(listener: TcpListener) -> io::Result<Connections> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok(Connections { listener, places: Places::default() })
    }

    /// Waits for a connection, whose requests are answered from then on. It can be cancelled.
    pub(crate) async fn serve_next<A, F>(&self, answer: &A)
    where
        A: Fn(Request<Incoming>, Client) -> F + Clone + Send + 'static,
        F: Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send + 'static,
    {
        // A connection that is gone before it is accepted is the client's matter; without descriptors, others end.
        let Ok((stream, _)) = self.listener.accept().await else {
            return tokio::time::sleep(Duration::from_millis(50)).await;
        };
        // Where every connection is known, this one is closed at once.
        let Some((client, is_over)) = self.places.take() else { return };
        let answer = answer.clone();
        tokio::spawn(async move {
            let of_requests = client.clone();
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .serve_connection(
                    TokioIo::new(stream),
                    service_fn(move |request| answer(request, of_requests.clone())),
                );
            tokio::select! {
                _ended = connection => {}
                _ended = is_over => {}
            }
            client.places.open().all.remove(&client.number);
        });
    }
}

impl Places {
    /// Takes a place, if necessary that of the oldest untrusted connection; `None` if all are trusted.
    fn take(&self) -> Option<(Client, oneshot::Receiver<()>)> {
        let mut open = self.open();
        if open.all.len() >= MAX_CONNECTIONS {
            let oldest = open.all.iter().find(|(_, place)| !place.is_known).map(|(number, _)| *number)?;
            open.all.remove(&oldest);
        }
        let (end, is_over) = oneshot::channel();
        open.n_before += 1;
        let number = open.n_before;
        open.all.insert(number, Place { _end: end, is_known: false });
        Some((Client { places: self.clone(), number }, is_over))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Marks the connection as trusted, because a request was authorised: it keeps its place.
    pub(crate) fn is_known(&self) {
        if let Some(place) = self.places.open().all.get_mut(&self.number) {
            place.is_known = true;
        }
    }
}

/// Whether a request names this machine as its host, by an address or as `localhost`: no other name was made to point here.
pub(crate) fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let is_address = || name.parse().is_ok_and(|address: std::net::Ipv4Addr| address.is_loopback());
    name.eq_ignore_ascii_case("localhost") || name == "[::1]" || is_address()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_a_host() {
        let of = |host: &'static str| {
            is_local(&HeaderMap::from_iter([(header::HOST, header::HeaderValue::from_static(host))]))
        };
        for host in
            ["127.0.0.1:4000", "localhost:1", "localhost", "127.0.0.1", "[::1]:80", "[::1]", "127.1.2.3:9"]
        {
            assert!(of(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "127.0.0.1.example.com:80",
            "localhost:80x",
            "::2",
            "127.0.0.1:80:80",
            "10.0.0.1",
        ] {
            assert!(!of(host), "{host}");
        }
        assert!(!is_local(&HeaderMap::new()));
    }

    #[test]
    fn the_oldest_that_is_not_known_goes() {
        let places = Places::default();
        let mut open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| places.take().unwrap()).collect();
        open[0].0.is_known();
        let next = places.take().unwrap();
        assert!(open[1].1.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        assert!(open[0].1.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        assert!(open[2].1.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        open.iter().chain([&next]).for_each(|(client, _)| client.is_known());
        assert!(places.take().is_none(), "all are known");
    }
}
