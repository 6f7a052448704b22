//! The deputy: a separate process that creates the folder for `memreel attach`, with no more rights than the target
//! has.
//!
//! The target controls where its folder for temporary files leads, so root touches nothing there. The deputy opens the
//! root of the target, becomes the target's user without capabilities, and then makes the folder by descriptors. It
//! enters no namespace: openat2 resolves paths in the root of the target, and processes of a container do not see the
//! deputy. It may not be traced, and has three descriptors: the socket of the caller, which it binds, a channel to the
//! caller, and /dev/null.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, unlinkat},
    process::{DumpableBehavior, Gid, Uid, fchdir, geteuid, getgroups, set_dumpable_behavior, umask},
    thread::{
        CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};
use serde::{Deserialize, Serialize};
use socket2::{SockAddr, Socket};

use super::target::refused;
use crate::{exit::Exit, failure::Failure, run::process_root::ProcessRoot};

/// The folder for temporary files, in the view of the target.
pub(super) const TEMPORARY: &str = "/tmp";

/// The deputy's message when it has opened the target's root, and when the folder exists. Anything else is the reason
/// for a failure.
pub(super) const OPENED: &str = "opened";
pub(super) const MADE: &str = "made";

/// The caller's message at the end if the script must remain; the script removes itself and the folder when it runs.
pub(super) const LEAVE: u8 = b'l';

/// The longest order; the script is its largest part.
const MAX_ORDERS: u64 = 1 << 20;

const SCRIPT: &str = "script.py";
const SOCKET: &str = "socket";

/// The caller's orders.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) groups: Vec<u32>,
    /// The name of the folder.
    pub(super) folder: String,
    /// The text of the script.
    pub(super) script: String,
}

/// Runs as the deputy for a target, in a process that `memreel attach` started.
pub(super) fn run(process: u32) -> Result<Exit, Failure> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)?;
    let channel = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    if let Err(error) = serve(process, &channel) {
        writeln!(&channel, "{error}")?;
        return Err(refused(error.to_string()));
    }
    Ok(Exit::Fine)
}

fn serve(process: u32, mut channel: &File) -> io::Result<()> {
    let root = ProcessRoot::of(process)?;
    writeln!(channel, "{OPENED}")?;
    let mut line = String::new();
    BufReader::new(channel).take(MAX_ORDERS).read_line(&mut line)?;
    let orders: Orders = serde_json::from_str(&line)?;
    become_user(&orders)?;
    let folder = Made::create(&root, &orders)?;
    writeln!(channel, "{MADE}")?;
    // Empty if the caller has ended.
    let mut last = [0];
    if channel.read(&mut last)? == 1 && last[0] == LEAVE {
        folder.leave();
    }
    Ok(())
}

/// Gives up all rights that the target does not have.
fn become_user(orders: &Orders) -> io::Result<()> {
    set_no_new_privs(true)?;
    umask(Mode::RWXG | Mode::RWXO);
    let (user, group) = (Uid::from_raw(orders.user), Gid::from_raw(orders.group));
    if geteuid().is_root() {
        // Without the capability, root has what it had: the same groups are no change.
        let groups: Vec<Gid> = orders.groups.iter().copied().map(Gid::from_raw).collect();
        if getgroups()? != groups {
            set_thread_groups(&groups)?;
        }
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
    }
    if geteuid() != user {
        return Err(io::Error::other("it belongs to another user, which only root can become"));
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    // Another user is a reason for the system to reset it.
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// The folder, which is removed with this value.
struct Made<'a> {
    temporary: OwnedFd,
    folder: OwnedFd,
    name: &'a str,
}

impl Made<'_> {
    fn create<'a>(root: &ProcessRoot, orders: &'a Orders) -> io::Result<Made<'a>> {
        let temporary = root.folder(TEMPORARY)?;
        let name = &*orders.folder;
        mkdirat(&temporary, name, Mode::RWXU)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&temporary, name, flags, Mode::empty())?;
        let (found, above) = (fstat(&folder)?, fstat(&temporary)?);
        let is_new =
            (found.st_uid, found.st_mode & 0o777, found.st_dev) == (orders.user, 0o700, above.st_dev);
        if !is_new {
            return Err(io::Error::other("it was replaced with another folder"));
        }
        // From here on the folder is removed with this value.
        let made = Made { temporary, folder, name };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let script = openat(&made.folder, SCRIPT, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(script).write_all(orders.script.as_bytes())?;
        // An address is a path, and this one has a single name.
        fchdir(&made.folder)?;
        let socket = Socket::from(io::stdin().as_fd().try_clone_to_owned()?);
        socket.bind(&SockAddr::unix(SOCKET)?)?;
        socket.listen(8)?;
        Ok(made)
    }

    /// Keeps the script.
    fn leave(self) {
        let _ = unlinkat(&self.folder, SOCKET, AtFlags::empty());
        std::mem::forget(self);
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for name in [SCRIPT, SOCKET] {
            let _ = unlinkat(&self.folder, name, AtFlags::empty());
        }
        let _ = unlinkat(&self.temporary, self.name, AtFlags::REMOVEDIR);
    }
}
