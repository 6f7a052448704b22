//! Connections of HTTP: how many there are, and how long one may say nothing.

#![forbid(unsafe_code)]

use std::{convert::Infallible, future::Future, io, net::TcpListener, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

/// A client may take this long for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The most connections at once.
const MAX_CONNECTIONS: usize = 256;

/// Connections of a port.
pub(crate) struct Connections {
    listener: tokio::net::TcpListener,
    places: Arc<Semaphore>,
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
        Ok(Connections { listener, places: Arc::new(Semaphore::new(MAX_CONNECTIONS)) })
    }

    /// Waits for a connection, whose requests are answered from then on. It can be cancelled.
    pub(crate) async fn serve_next<A, F>(&self, answer: &A)
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send + 'static,
    {
        // A connection that is gone before it is accepted is the client's matter; without descriptors, others end.
        let Ok((stream, _)) = self.listener.accept().await else {
            return tokio::time::sleep(Duration::from_millis(50)).await;
        };
        // Beyond these a connection is closed at once.
        let Ok(place) = self.places.clone().try_acquire_owned() else { return };
        let answer = answer.clone();
        tokio::spawn(async move {
            let _place = place;
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            let _ended = connection.await;
        });
    }
}
