//! The server of the page: what it serves, and at which address.

#![forbid(unsafe_code)]

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    answering::{answer_about, desk},
    http::{self, Door},
    live::Live,
};
use crate::{row::Maker, serve::token};

/// What is served, and how long.
pub(crate) struct Serving {
    pub(crate) paths: Vec<PathBuf>,
    /// 0 lets the system choose.
    pub(crate) port: u16,
    /// The server ends after this time without a request.
    pub(crate) idle: Option<Duration>,
    /// Makes the program whose commands answer.
    pub(crate) make: Maker,
}

/// Serves until the page ends it, or until no request came for the time of `idle`. `begin` is called with the address of the
/// page.
pub(crate) fn serve(serving: Serving, begin: impl FnOnce(&str, u16)) -> io::Result<()> {
    let Address { listener, port, token } = Address::take(serving.port)?;
    begin(&url(port, &token), port);
    let (desk, queues) = desk();
    answer_about(&serving.paths, serving.make, &queues, |is_read| {
        // The threads that answer end when the door, which has the senders, is gone.
        let served = http::serve(listener, Door { token, files: Some(desk), live: None, idle: serving.idle });
        if served.is_ok() && !is_read.load(Ordering::Relaxed) {
            // Nothing can stop the thread that reads, such as one that waits for a pipe.
            std::process::exit(0);
        }
        served
    })
}

/// A port that is taken for a page, and the token of its address.
pub(crate) struct Address {
    listener: TcpListener,
    port: u16,
    token: String,
}

impl Address {
    /// Takes a port; 0 lets the system choose.
    pub(crate) fn take(port: u16) -> io::Result<Address> {
        let listener = listener(port)?;
        Ok(Address { port: listener.local_addr()?.port(), listener, token: token::new()? })
    }

    pub(crate) fn url(&self) -> String {
        url(self.port, &self.token)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Serves a page that follows programs. Ends as [`serve`] does.
    pub(crate) fn serve_live(self, idle: Option<Duration>, live: Arc<Live>) -> io::Result<()> {
        http::serve(self.listener, Door { token: self.token, files: None, live: Some(live), idle })
    }
}

fn url(port: u16, token: &str) -> String {
    format!("http://127.0.0.1:{port}/{token}/")
}

/// Opens a port for the page; 0 lets the system choose.
pub(crate) fn listener(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// Returns why a page is not served at a port.
pub(crate) fn refused(port: u16, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("port {port} is in use; choose another with --port, or leave it out")
        }
        io::ErrorKind::PermissionDenied => format!("port {port} is not permitted; choose one above 1023"),
        _ => format!("the page cannot be served: {error}"),
    }
}
