//! An address on the command line: a path or a URL, with the object store that it is in.

use std::{
    path::{Component, PathBuf},
    sync::Arc,
};

use datafusion::error::Result;
use object_store::{ObjectStore, ObjectStoreScheme, path::Path};
use url::{Position, Url};

use super::{
    glob::first_wildcard,
    refused::usage,
    store::{HERE, store_of},
};

/// An address, split at the last slash before its first wildcard.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// What was given, for messages.
    pub(crate) given: String,
    pub(crate) store: Arc<dyn ObjectStore>,
    /// What the addresses of files begin with: nothing for paths of this machine, `s3://bucket/` for others.
    pub(crate) prefix: String,
    /// The path in the store, without the pattern.
    pub(crate) base: Path,
    /// The rest of the path, if it has wildcards.
    pub(crate) pattern: Option<String>,
}

impl Address {
    /// Reads an address.
    pub(crate) fn parse(given: &str) -> Result<Address> {
        let (start, pattern) = split(given);
        let (prefix, base) = match remote(start)? {
            Some(url) => {
                let (_, base) = ObjectStoreScheme::parse(&url)
                    .map_err(|error| usage(format!("{given} cannot be opened: {error}")))?;
                (format!("{}/", &url[..Position::BeforePath]), base)
            }
            None => (HERE.to_owned(), local(given, start)?),
        };
        Ok(Address { given: given.to_owned(), store: store_of(&prefix)?, prefix, base, pattern })
    }

    /// Returns whether its files are on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.prefix == HERE
    }

    /// Returns the address of an object of the store, as the column `file` has it.
    pub(crate) fn of_object(&self, path: &Path) -> String {
        format!("{}{path}", self.prefix)
    }
}

/// Returns the path of an address on this machine.
fn local(given: &str, start: &str) -> Result<Path> {
    let path = match start.strip_prefix("file://") {
        Some(_) => Url::parse(start)
            .ok()
            .and_then(|url| url.to_file_path().ok())
            .ok_or_else(|| usage(format!("{given} is not the URL of a file")))?,
        None => PathBuf::from(if start.is_empty() { "." } else { start }),
    };
    Ok(Path::from_absolute_path(without_dots(&std::path::absolute(&path)?))?)
}

/// Drops `.` and `..`, which object stores do not have.
fn without_dots(path: &std::path::Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the URL of an address that is not on this machine.
fn remote(start: &str) -> Result<Option<Url>> {
    match start.split_once("://") {
        None | Some(("file", _)) => Ok(None),
        Some(_) => {
            Url::parse(start).map(Some).map_err(|error| usage(format!("{start} is not a URL: {error}")))
        }
    }
}

/// Splits an address at the last slash before its first wildcard. A file whose name has a wildcard is not split.
fn split(given: &str) -> (&str, Option<String>) {
    let Some(wildcard) = first_wildcard(given).filter(|_| !std::path::Path::new(given).exists()) else {
        return (given, None);
    };
    let slash = given[..wildcard].rfind('/').map_or(0, |slash| slash + 1);
    (&given[..slash], Some(given[slash..].to_owned()))
}
