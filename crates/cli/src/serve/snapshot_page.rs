//! The page of a snapshot that a run has left.

#![forbid(unsafe_code)]

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    time::Duration,
};

use super::{
    address_file::{AddressFile, ssh_line},
    browser::opened,
    view::{self, Serving},
};
use crate::row::Maker;

/// The page ends after this time without a request.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// Serves the page of a snapshot until its reader ends it, says where it is, and opens it. The address is said if it is
/// seen only by those who may have it, or if `prints`.
pub(crate) fn serve(path: PathBuf, prints: bool, make: Maker, say: impl Fn(&str)) {
    let (mut place, mut opened_file) = (AddressFile::default(), None);
    let is_seen = prints || io::stderr().is_terminal();
    let serving = Serving { paths: vec![path], port: 0, idle: Some(IDLE), make };
    let served = view::serve(serving, |url, port| {
        let line = place.say(url, is_seen);
        say(&format!("the page is {} {line}", if is_seen { "at" } else { "open;" }));
        ssh_line(port).iter().for_each(|line| say(line));
        opened_file = opened(url);
    });
    if let Err(error) = served {
        say(&format!("the page cannot be served: {error}"));
    }
}
