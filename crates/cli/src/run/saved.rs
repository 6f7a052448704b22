//! Writes snapshots of watched processes.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use memreel::Recovered;

use crate::text::clean;

/// Writes a snapshot of a tape into the current folder, and returns its name.
pub(crate) fn write(tape: &Path) -> Result<PathBuf, String> {
    let recovered = Recovered::read(tape).map_err(|error| clean(&error.to_string()).into_owned())?;
    let process = recovered.process();
    let name = |nth: u32| PathBuf::from(format!("memreel-watch-{process}-{nth}.pickle"));
    let path = (1..).map(name).find(|path| !path.exists()).ok_or("there are too many snapshots here")?;
    recovered.save(&path).map_err(|error| clean(&error.to_string()).into_owned())?;
    Ok(path)
}
