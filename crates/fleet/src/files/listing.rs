//! The files that addresses name: files, folders and everything in them, and patterns.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::{
    address::Address,
    file::{Content, SourceFile},
    glob::matches,
    labels::export_name,
};

/// The ends of names that snapshots and exported rows have; a folder's other files are not read.
const ENDS: [&str; 4] = [".pickle", ".pkl", ".tape", ".parquet"];

/// The address that gives keys to programs of a cloud's machines.
const METADATA: &str = "169.254.169.254";

/// Returns where the keys of an object store come from.
fn keys(address: &Address, error: &object_store::Error) -> String {
    let variables = match address.prefix.split(':').next() {
        Some("s3" | "s3a") => "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT",
        Some("gs") => "GOOGLE_SERVICE_ACCOUNT, a file, or GOOGLE_SERVICE_ACCOUNT_KEY, its text",
        _ => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    };
    let why = match error.to_string().contains(METADATA) {
        true => "the environment has no keys, and this machine is not in a cloud that provides them; ",
        false => "",
    };
    format!("{} cannot be listed; {why}keys come from the environment: {variables}", address.given)
}

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
            true => error.into(),
            false => {
                let keys = keys(&address, &error);
                DataFusionError::from(error).context(keys)
            }
        })?;
        if found.is_empty() {
            let why = match (&address.pattern, address.given.ends_with('/')) {
                (Some(_), _) => format!("{given} matches no file"),
                _ => {
                    format!(
                        "{given}: no such file, and not a folder with files that end in {}",
                        ENDS.join(", ")
                    )
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
    Ok(once_each(files.into_values().collect()))
}

/// Drops the exported rows of snapshots that are there too, whose rows would count twice.
fn once_each(mut files: Vec<SourceFile>) -> Vec<SourceFile> {
    let snapshots = files.iter().filter(|file| file.content == Content::Snapshot);
    let exports: HashSet<String> = snapshots.map(|file| export_name(&file.file)).collect();
    let is_export =
        |file: &SourceFile| file.file.rsplit('/').next().is_some_and(|name| exports.contains(name));
    files.retain(|file| file.content == Content::Snapshot || !is_export(file));
    files
}

/// Returns the objects that an address names.
async fn objects(address: &Address) -> object_store::Result<Vec<ObjectMeta>> {
    // A whole bucket is not an object either.
    if address.pattern.is_none() && !address.given.ends_with('/') && !address.base.as_ref().is_empty() {
        match address.store.head(&address.base).await {
            Ok(found) => return Ok(vec![found]),
            Err(object_store::Error::NotFound { .. }) => {}
            // A folder of this machine is not an object.
            Err(_) if address.is_local() => {}
            Err(error) => return Err(error),
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
    found.boxed().try_collect().await
}
