//! Pages of the site that git does not keep, because they are made: of the program and of the schema of its lines.
#![forbid(unsafe_code)]

mod commands;
pub mod json;

use std::{collections::BTreeMap, fs, io, path::Path};

/// Pages by their paths in the site.
pub type Pages = BTreeMap<String, String>;

/// Returns the pages that a program and a clone have; `program` is one with every command.
///
/// # Errors
///
/// A command without a row for its example, an example that fails, or a key of the schema without a meaning.
pub fn made(program: &Path, clone: &Path) -> Result<Pages, String> {
    let mut pages = commands::pages(program, clone)?;
    let schema = fs::read(clone.join("schema/json.schema.json")).map_err(|error| error.to_string())?;
    let schema = serde_json::from_slice(&schema).map_err(|error| format!("json.schema.json: {error}"))?;
    pages.insert("schema/json.md".to_owned(), json::page(&schema)?);
    Ok(pages)
}

/// Writes pages into a folder.
///
/// # Errors
///
/// What the system says.
pub fn write(pages: &Pages, folder: &Path) -> io::Result<()> {
    for (path, text) in pages {
        let path = folder.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)?;
    }
    Ok(())
}
