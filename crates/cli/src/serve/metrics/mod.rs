//! Serves what is watched as metrics for Prometheus: a thread reads, and a server answers with the latest result.
//!
//! `access` is who gets them, `families` are the metrics and `exposition` is their text, `owners` bounds how many owners there are,
//! `heap` is what is held as a profile of pprof, `server` answers.

#![forbid(unsafe_code)]

mod access;
mod exposition;
mod families;
mod heap;
mod owners;
mod server;

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    path::Path,
    thread,
    time::{Duration, UNIX_EPOCH},
};

use crate::{
    exit::Exit,
    failure::Failure,
    run::{all::All, detail::Detail, found::Source},
};

use access::Access;
use heap::{Ask, HeapQuestions};
use owners::Owners;
use server::Text;

/// The time between two looks, at least.
const LOOK: Duration = Duration::from_millis(500);

/// A port at which metrics will be.
#[derive(Debug)]
pub(crate) struct Metrics {
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
}

impl Metrics {
    /// Takes the port of an address. With a file, those who have the token in it get the metrics.
    pub(crate) fn listen(address: &str, token_file: Option<&Path>) -> Result<Metrics, Failure> {
        let addresses = address.to_socket_addrs().map_err(|_| {
            Failure::usage(format!(
                "{address:?} is not an address and a port; use for example 127.0.0.1:9464"
            ))
        })?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let listener = TcpListener::bind(&*addresses);
        let taken = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) =
            taken.map_err(|error| Failure::Message(Exit::Unreadable, refused(address, &error)))?;
        Ok(Metrics { address, listener, access: Access::of(address, token_file)? })
    }

    /// Returns the address that Prometheus is given.
    pub(crate) fn address(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Returns a line about who reaches the address, if others do.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.access.warning()
    }

    /// Serves what the processes of a run hold, with `n_sites` sites of each device, until this process ends.
    pub(crate) fn serve(self, run: &Path, n_sites: usize) {
        let (text, sources) = (Text::default(), vec![Source::Run(run.to_owned())]);
        // Without a thread there are no metrics, and the program runs all the same.
        let (ask, asked) = heap::channel();
        let _ = self.answer(&text, ask);
        let looks =
            move || look_while(All::new(sources, Detail::by_metrics(n_sites)), &text, &asked, |_| true);
        let _ = thread::Builder::new().name("metrics".into()).spawn(looks);
    }

    /// Serves what watched processes hold: until all have ended, or for ever if none are named.
    pub(crate) fn serve_watched(self, all: All) -> io::Result<()> {
        let text = Text::default();
        let (ask, asked) = heap::channel();
        self.answer(&text, ask)?;
        let is_for_ever = all.is_of_this_user();
        look_while(all, &text, &asked, |all| is_for_ever || !all.is_empty());
        Ok(())
    }

    /// Answers with a text, and with profiles, on a thread.
    fn answer(self, text: &Text, ask: Ask) -> io::Result<()> {
        let text = text.clone();
        let serve = move || server::serve(self.listener, self.access, text, ask);
        thread::Builder::new().name("metrics-server".into()).spawn(serve).map(|_| ())
    }
}

fn look_while(mut all: All, text: &Text, asked: &HeapQuestions, goes_on: impl Fn(&All) -> bool) {
    let mut owners = Owners::default();
    while goes_on(&all) {
        // A folder that cannot be read is read again.
        let _ = all.find();
        let look_s = UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64());
        all.look();
        // What has ended has a snapshot; the number of processes that came and went has no bound.
        all.forget_ended();
        let mut figures = all.figures();
        owners.bound(&mut figures);
        text.set(exposition::text(figures, &owners, look_s));
        let pause = all.pause(LOOK);
        asked.answer_for(pause, &all);
    }
}

fn refused(address: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => {
            format!("the metrics address {address} is in use; choose another port, or 0 for a free one")
        }
        ErrorKind::PermissionDenied => {
            format!("the metrics address {address} is not permitted; choose a port above 1023")
        }
        _ => format!("metrics cannot be served at {address}: {error}"),
    }
}
