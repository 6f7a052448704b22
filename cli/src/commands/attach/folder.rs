//! Where `memreel attach` and the process meet: a folder that both see, with a script and a socket.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File, Permissions},
    io,
    os::{
        fd::AsRawFd,
        unix::{
            fs::{PermissionsExt, chown},
            net::{UnixListener, UnixStream},
        },
    },
};

use serde_json::json;
use tempfile::{Builder, TempDir};

use super::target::{Target, refused};
use crate::failure::Failure;

/// What the process runs, up to its orders.
const SCRIPT: &str = include_str!("injected.py");

/// The folder for temporary files, in the view of the process.
const TEMPORARY: &str = "/tmp";

/// The folder; it goes with this value. A process in a container has another root, so it is made there.
#[derive(Debug)]
pub(super) struct Folder {
    folder: TempDir,
    /// By which the folder is found also when the process has ended.
    _parent: File,
    listener: UnixListener,
    /// The script, in the view of the process.
    pub(super) script: String,
}

impl Folder {
    pub(super) fn create(target: &Target, ring: u32) -> Result<Folder, Failure> {
        Folder::try_create(target, ring).map_err(|error| {
            refused(format!("{}: no folder can be made in its {TEMPORARY}: {error}", target.name()))
        })
    }

    fn try_create(target: &Target, ring: u32) -> io::Result<Folder> {
        let parent = File::open(target.path_of(TEMPORARY))?;
        let at = format!("/proc/self/fd/{}", parent.as_raw_fd());
        let mut builder = Builder::new();
        let folder =
            builder.prefix("memreel-attach-").permissions(Permissions::from_mode(0o700)).tempdir_in(at)?;
        let name = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let inside = format!("{TEMPORARY}/{name}");
        let orders = json!({"process": target.own_number, "folder": inside, "ring": ring});
        let (script, socket) = (folder.path().join("script.py"), folder.path().join("socket"));
        // Numbers and texts are written alike in both languages.
        fs::write(&script, format!("{SCRIPT}\n\nattach({orders})\n"))?;
        let listener = UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        if target.user != rustix::process::geteuid().as_raw() {
            for path in [&script, &socket, &folder.path().to_owned()] {
                chown(path, Some(target.user), Some(target.group))?;
            }
        }
        Ok(Folder { folder, _parent: parent, listener, script: format!("{inside}/script.py") })
    }

    /// Returns the process, once it has come.
    pub(super) fn guest(&self) -> io::Result<Option<UnixStream>> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                Ok(Some(stream))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Leaves the script, which removes itself and the folder if it still runs: without it, the interpreter would print that
    /// it is missing.
    pub(super) fn leave(self) {
        let _ = fs::remove_file(self.folder.path().join("socket"));
        let _ = self.folder.keep();
    }
}
