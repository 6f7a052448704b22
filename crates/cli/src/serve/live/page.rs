//! The page that follows a run: its port, its address, and a browser that shows it.

#![forbid(unsafe_code)]

use std::{
    io::{self, IsTerminal},
    path::Path,
    thread,
};

use tempfile::NamedTempFile;

use super::follow_run;
use crate::{
    exit::Exit,
    failure::Failure,
    row::Maker,
    serve::{
        address_file::{AddressFile, ssh_line},
        browser::opened,
        view::{Address, refused},
    },
};

/// The files of a page that is served; they are removed with this.
pub(crate) struct ServedFiles {
    _place: AddressFile,
    _opened: Option<NamedTempFile>,
}

/// A port at which the page that follows programs will be.
pub(crate) struct LivePage(pub(crate) Address);

impl LivePage {
    /// Takes a port; 0 lets the system choose.
    pub(crate) fn listen(port: u16) -> Result<LivePage, Failure> {
        let taken = Address::take(port);
        taken.map(LivePage).map_err(|error| Failure::Message(Exit::Unreadable, refused(port, &error)))
    }

    /// Serves the page of a run until this process ends or the page is ended, says where it is, and opens it. Returns what
    /// is to be kept while the page is opened.
    pub(crate) fn serve_run(
        self,
        run: &Path,
        prints: bool,
        make: Maker,
        say: impl Fn(&str),
    ) -> Option<ServedFiles> {
        let LivePage(address) = self;
        let (url, port) = (address.url(), address.port());
        let served = follow_run(run, make).and_then(|live| {
            let serve = move || address.serve_live(None, live);
            thread::Builder::new().name("live-page".into()).spawn(serve)
        });
        // The program runs all the same.
        if let Err(error) = served {
            say(&format!("the live page cannot be served: {error}"));
            return None;
        }
        let mut place = AddressFile::default();
        let is_seen = prints || io::stderr().is_terminal();
        let line = place.say(&url, is_seen);
        say(&format!("the live page is {} {line}", if is_seen { "at" } else { "open;" }));
        ssh_line(port).iter().for_each(|line| say(line));
        Some(ServedFiles { _place: place, _opened: opened(&url) })
    }
}
