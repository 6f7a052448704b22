//! The folder through which `memreel attach` and the process communicate, with a script and a socket. The deputy
//! creates it.

#![forbid(unsafe_code)]

use std::{
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            net::{UnixListener, UnixStream},
            process::CommandExt,
        },
    },
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use socket2::{Domain, Socket, Type};

use super::{
    deputy::{LEAVE, MADE, OPENED, Orders, TEMPORARY},
    target::Target,
};
use crate::{row::Program, serve::token, text::clean};

/// What the process runs, up to its orders.
const SCRIPT: &str = include_str!("injected.py");

/// How long the deputy may take, because it may wait for the target's file systems, and how long removing the folder
/// may take.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_AT_END: Duration = Duration::from_secs(2);

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// The longest line of the deputy, which has the rights of the target.
const MAX_LINE: u64 = 4096;

/// The folder; it is removed with this value, even if this process is killed.
#[derive(Debug)]
pub(super) struct Folder {
    deputy: Child,
    channel: UnixStream,
    listener: UnixListener,
    /// The script, in the view of the process.
    pub(super) script: String,
}

impl Folder {
    pub(super) fn create(target: &Target, ring: u32, program: &Program) -> io::Result<Folder> {
        let listener = UnixListener::from(OwnedFd::from(Socket::new(Domain::UNIX, Type::STREAM, None)?));
        listener.set_nonblocking(true)?;
        let (channel, its_channel) = UnixStream::pair()?;
        channel.set_read_timeout(Some(PATIENCE))?;
        channel.set_write_timeout(Some(PATIENCE))?;
        let (first, others) = program.words.split_first().ok_or(ErrorKind::NotFound)?;
        let mut deputy = Command::new(first);
        deputy.args(others).args(["attach", "--deputy"]).arg(target.process.to_string()).current_dir("/");
        deputy.stdin(OwnedFd::from(listener.try_clone()?)).stdout(OwnedFd::from(its_channel));
        // A Ctrl-C for this program must not keep the deputy from removing the folder.
        let deputy = deputy.stderr(Stdio::null()).process_group(0).spawn()?;
        let name = format!("memreel-attach-{}", token::new()?);
        let inside = format!("{TEMPORARY}/{name}");
        let folder = Folder { deputy, channel, listener, script: format!("{inside}/script.py") };
        folder.hears(OPENED)?;
        // The deputy opened the target by its PID, so the target must still be the same.
        target.is_what_it_was()?;
        let orders = json!({"process": target.own_number, "folder": inside, "ring": ring});
        let identity = &target.identity;
        let orders = Orders {
            user: identity.user,
            group: identity.group,
            groups: identity.groups.clone(),
            folder: name,
            // Numbers and texts are written alike in both languages.
            script: format!("{SCRIPT}\n\nattach({orders})\n"),
        };
        writeln!(&folder.channel, "{}", serde_json::to_string(&orders)?)?;
        folder.hears(MADE)?;
        Ok(folder)
    }

    /// Waits until the deputy sends this message; otherwise fails with the one that it sent.
    fn hears(&self, expected: &str) -> io::Result<()> {
        let mut line = String::new();
        let mut reader = BufReader::with_capacity(64, &self.channel).take(MAX_LINE);
        match reader.read_line(&mut line) {
            Ok(_) if line.trim_end() == expected => Ok(()),
            Ok(0) => Err(io::Error::other("memreel could not be restarted as the user of the process")),
            Ok(_) => Err(io::Error::other(clean(line.trim_end()).into_owned())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(io::Error::other(format!(
                "its file system did not answer within {} s",
                PATIENCE.as_secs()
            ))),
            Err(error) => Err(error),
        }
    }

    /// Returns the process once it has connected. Other connections are closed.
    pub(super) fn guest(&self, target: &Target) -> io::Result<Option<UnixStream>> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                // The number is the target's as long as the target is there.
                let is_target = peer(&stream)? == Some(target.process) && target.is_running();
                stream.set_nonblocking(false)?;
                Ok(is_target.then_some(stream))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps the script, which removes itself and the folder if it still runs: without it, the interpreter would report
    /// that it is missing.
    pub(super) fn leave(self) {
        let _ = (&self.channel).write_all(&[LEAVE]);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.channel.shutdown(std::net::Shutdown::Write);
        let begun = Instant::now();
        while matches!(self.deputy.try_wait(), Ok(None)) {
            if begun.elapsed() > PATIENCE_AT_END {
                let _ = self.deputy.kill();
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Returns the process that connected; none if it is not visible.
fn peer(stream: &UnixStream) -> io::Result<Option<u32>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    let stream = stream.try_clone()?;
    stream.set_nonblocking(true)?;
    let peer = tokio::net::UnixStream::from_std(stream)?.peer_cred()?;
    Ok(peer.pid().and_then(|process| u32::try_from(process).ok()).filter(|process| *process > 0))
}
