//! Prints the address of a page to those who may have it, or otherwise writes it to a file that only its user can read.

#![forbid(unsafe_code)]

use std::{env, io::Write};

use tempfile::{Builder, NamedTempFile};

use crate::text::ShownPath;

/// A file with the address of a page, for when others may read what is printed. It is removed with this value.
#[derive(Default)]
pub(crate) struct AddressFile(Option<NamedTempFile>);

impl AddressFile {
    /// Returns the address, if those who may have it see it; otherwise where it is.
    pub(crate) fn say(&mut self, url: &str, is_seen: bool) -> String {
        if is_seen {
            return url.to_owned();
        }
        let mut builder = Builder::new();
        // Such a file is its user's alone.
        let file = builder.prefix("memreel-view-").suffix(".address").tempfile().and_then(|mut file| {
            writeln!(file, "{url}")?;
            Ok(file)
        });
        match file {
            Ok(file) => {
                let path = ShownPath(file.path()).to_string();
                self.0 = Some(file);
                format!("the address is in {path}, which only you can read; --print-address prints it")
            }
            Err(error) => format!("cannot write the address to a file ({error}); --print-address prints it"),
        }
    }
}

/// Returns how to see the page from elsewhere, if the terminal is one of SSH.
pub(crate) fn ssh_line(port: u16) -> Option<String> {
    let server = ssh_server()?;
    Some(format!("on your own machine: ssh -L {port}:127.0.0.1:{port} {server}, then open the address there"))
}

/// Returns the user and the address of this machine, if the terminal is one of SSH.
fn ssh_server() -> Option<String> {
    let connection = env::var("SSH_CONNECTION").ok()?;
    let address = connection.split(' ').nth(2)?.to_owned();
    let user = env::var("USER").ok();
    Some(user.map_or_else(|| address.clone(), |user| format!("{user}@{address}")))
}
