//! The files that addresses name: files, folders and everything in them, and patterns.

use std::{collections::BTreeMap, fmt};

use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::{address::Address, file::SourceFile, glob::matches};

/// The ends of names that snapshots and exported rows have; a folder's other files are not read.
const ENDS: [&str; 4] = [".pickle", ".pkl", ".tape", ".parquet"];

/// Where the keys of object stores come from.
const KEYS: &str =
    "keys, regions and endpoints are those of the environment, such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT";

/// No file is at an address.
#[derive(Debug)]
pub struct NoFiles(String);

impl fmt::Display for NoFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoFiles {}

/// Returns the files of addresses, each once, ordered by address.
///
/// # Errors
/// A store cannot be reached, or [`NoFiles`].
pub async fn list(addresses: &[String]) -> Result<Vec<SourceFile>> {
    let mut files = BTreeMap::new();
    for given in addresses {
        let address = Address::parse(given)?;
        let found = objects(&address).await.map_err(|error| match address.is_local() {
            true => error,
            false => error.context(format!("{given} cannot be listed; {KEYS}")),
        })?;
        if found.is_empty() {
            let why = match (&address.pattern, address.given.ends_with('/')) {
                (Some(_), _) => format!("{given} matches no file"),
                _ => {
                    format!("{given}: no such file, and no folder with files that end in {}", ENDS.join(", "))
                }
            };
            return Err(DataFusionError::External(Box::new(NoFiles(why))));
        }
        for ObjectMeta { location, size, .. } in found {
            let file = address.of_object(&location);
            let store = address.store.clone();
            files.insert(file.clone(), SourceFile::new(file, size, store, location, address.is_local()));
        }
    }
    Ok(files.into_values().collect())
}

/// Returns the objects that an address names.
async fn objects(address: &Address) -> Result<Vec<ObjectMeta>> {
    if address.pattern.is_none() && !address.given.ends_with('/') {
        match address.store.head(&address.base).await {
            Ok(found) => return Ok(vec![found]),
            Err(object_store::Error::NotFound { .. }) => {}
            // A folder of this machine is not an object.
            Err(_) if address.is_local() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let base = address.base.as_ref();
    let is_wanted = |found: &ObjectMeta| {
        let path = found.location.as_ref();
        let rest = path.strip_prefix(base).unwrap_or(path).trim_start_matches('/');
        match &address.pattern {
            Some(pattern) => matches(pattern, rest),
            None => ENDS.iter().any(|end| rest.ends_with(end)),
        }
    };
    let all = address.store.list(Some(&address.base));
    let found = all.try_filter(|found| std::future::ready(is_wanted(found)));
    Ok(found.boxed().try_collect().await?)
}
