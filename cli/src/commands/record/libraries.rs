//! The libraries that are loaded in front of a program, and where they are.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{exit::Exit, failure::Failure};

const PRELOAD: &str = "libmemreel_preload.so";
const HEAP: &str = "libmemreel_heap.so";

/// What builds them in a checkout: cargo installs no libraries.
const BUILD: &str = "cargo build --profile shared -p memreel-preload -p memreel-heap";

/// The libraries of a recording.
#[derive(Clone, Debug)]
pub(super) struct Libraries {
    preload: PathBuf,
    heap: Option<PathBuf>,
    python: Option<PathBuf>,
}

impl Libraries {
    /// # Errors
    /// A library is missing; the message names the command that builds it.
    pub(super) fn find(heap: bool) -> Result<Libraries, Failure> {
        let places = places();
        let preload = in_places(PRELOAD, &places)?;
        // The two are of one build.
        let beside: Vec<PathBuf> = preload.parent().map(Path::to_owned).into_iter().chain(places).collect();
        let heap = heap.then(|| in_places(HEAP, &beside)).transpose()?;
        let python = python(&preload);
        Ok(Libraries { preload, heap, python })
    }

    /// The libraries, as the loader is told them.
    pub(super) fn preloaded(&self) -> Vec<OsString> {
        [Some(&self.preload), self.heap.as_ref()].into_iter().flatten().map(Into::into).collect()
    }

    /// The folder that Python programs import from, if it is there.
    pub(super) fn python(&self) -> Option<&Path> {
        self.python.as_deref()
    }
}

/// The folders where the libraries may be, the first first: that of the variable `MEMREEL_PRELOAD` alone if it is set.
fn places() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("MEMREEL_PRELOAD").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        let folder = if named.is_file() { named.parent().map(Path::to_owned) } else { None };
        return vec![folder.unwrap_or(named)];
    }
    let Ok(program) = env::current_exe() else { return Vec::new() };
    let Some(folder) = program.parent() else { return Vec::new() };
    let mut places = vec![folder.to_owned(), folder.join("../lib/memreel")];
    // In the target folder of a checkout the libraries may be of another profile than the program.
    let target = folder.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "target"));
    places.extend(
        target.into_iter().flat_map(|target| ["shared", "release", "debug"].map(|of| target.join(of))),
    );
    places
}

fn in_places(library: &str, places: &[PathBuf]) -> Result<PathBuf, Failure> {
    let found = places.iter().map(|place| place.join(library)).find(|path| path.is_file());
    let found = found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let looked = looked.join(", ");
        Failure::Message(
            Exit::Unreadable,
            format!(
                "{library} is not here ({looked}); in a checkout of memreel, `{BUILD}` builds it, and \
                 MEMREEL_PRELOAD=FOLDER names its folder"
            ),
        )
    })?;
    // The loader separates paths by either, and has no way to quote them.
    if found.to_string_lossy().contains([' ', ':']) {
        let found = found.display();
        return Err(Failure::Message(
            Exit::Unreadable,
            format!(
                "{found} cannot be loaded in front of a program, because its path has a blank or a colon; copy the libraries \
                 to another folder and name it with MEMREEL_PRELOAD=FOLDER"
            ),
        ));
    }
    Ok(found)
}

/// The folder for Python: beside the library, or in the checkout whose target folder has the library.
fn python(preload: &Path) -> Option<PathBuf> {
    let folder = preload.parent()?;
    let of_checkout =
        folder.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "target"));
    let places =
        [Some(folder.join("python")), of_checkout.and_then(|target| Some(target.parent()?.join("python")))];
    let mut found = places.into_iter().flatten().map(|place| place.join("memreel_record"));
    found.find(|place| place.join("sitecustomize.py").is_file())
}
