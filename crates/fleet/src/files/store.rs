//! The object stores of addresses: one for each of their beginnings, with its connections.

use std::{
    collections::HashMap,
    env,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use datafusion::error::Result;
use object_store::{ObjectStore, local::LocalFileSystem, parse_url_opts};
use url::Url;

use super::refused::usage;

/// What the addresses of this machine's files begin with.
pub(super) const HERE: &str = "/";

/// Returns what the address of a file begins with: `/` for a path of this machine, `s3://bucket/` for others.
pub(super) fn prefix_of(file: &str) -> &str {
    let Some(scheme) = file.find("://") else { return HERE };
    let after = scheme + "://".len();
    file[after..].find('/').map_or(file, |slash| &file[..=after + slash])
}

/// What the names of variables for object stores begin with; stores would take settings from other names too, such as `TIMEOUT`.
const SETTINGS: [&str; 4] = ["AWS_", "GOOGLE_", "AZURE_", "AZURITE_"];

/// Returns the keys, endpoints and other settings of object stores in the environment.
fn settings() -> impl Iterator<Item = (String, String)> {
    let texts = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(|(name, _)| SETTINGS.iter().any(|start| name.starts_with(start)))
}

/// Returns the store of a beginning. Keys and endpoints are those of the environment.
pub(super) fn store_of(prefix: &str) -> Result<Arc<dyn ObjectStore>> {
    static STORES: LazyLock<Mutex<HashMap<String, Arc<dyn ObjectStore>>>> = LazyLock::new(Mutex::default);
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = stores.get(prefix) {
        return Ok(Arc::clone(store));
    }
    let store: Arc<dyn ObjectStore> = match prefix {
        HERE => Arc::new(LocalFileSystem::new()),
        _ => {
            let refused =
                |error: &dyn std::fmt::Display| usage(format!("{prefix} cannot be opened: {error}"));
            let url = Url::parse(prefix).map_err(|error| refused(&error))?;
            parse_url_opts(&url, settings()).map_err(|error| refused(&error))?.0.into()
        }
    };
    stores.insert(prefix.to_owned(), Arc::clone(&store));
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_begins_with_its_store() {
        for (file, prefix) in [
            ("/run/rank0.pickle", "/"),
            ("s3://bucket/run/rank0.pickle", "s3://bucket/"),
            ("s3://bucket/", "s3://bucket/"),
            ("s3://bucket", "s3://bucket"),
        ] {
            assert_eq!(prefix_of(file), prefix, "{file}");
        }
    }

    #[test]
    fn files_of_one_store_share_it() {
        assert!(Arc::ptr_eq(&store_of(HERE).unwrap(), &store_of(HERE).unwrap()));
        assert!(store_of("nothing://here/").unwrap_err().to_string().contains("nothing://here/"));
    }
}
