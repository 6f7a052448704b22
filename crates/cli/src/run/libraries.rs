//! Finds the libraries that are preloaded into a program and the hook that Python imports.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{exit::Exit, failure::Failure, text::ShownPath};

const PRELOAD: &str = "libmemreel_preload.so";
const HEAP: &str = "libmemreel_heap.so";

/// What builds them in a checkout: cargo installs no libraries.
const BUILD: &str = "cargo build --profile shared -p memreel-preload -p memreel-heap";

/// The folder of the hook and the file in it that Python imports.
const HOOK: [&str; 2] = ["memreel_record", "sitecustomize.py"];

/// The libraries of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Libraries {
    preload: PathBuf,
    heap: Option<PathBuf>,
    hook: Result<PathBuf, String>,
}

impl Libraries {
    /// # Errors
    /// A library is missing; the message names the command that builds it.
    pub(crate) fn find(heap: bool) -> Result<Libraries, Failure> {
        let places = places();
        let preload = in_places(PRELOAD, &places)?;
        // The two are of one build.
        let beside: Vec<PathBuf> = preload.parent().map(Path::to_owned).into_iter().chain(places).collect();
        let heap = heap.then(|| in_places(HEAP, &beside)).transpose()?;
        let hook = in_hook_places(&hook_places(env::var_os("MEMREEL_PYTHON_HOOK"), &preload));
        Ok(Libraries { preload, heap, hook })
    }

    /// The libraries, as passed to the loader.
    pub(crate) fn preloaded(&self) -> Vec<OsString> {
        [Some(&self.preload), self.heap.as_ref()].into_iter().flatten().map(Into::into).collect()
    }

    /// The folder that Python programs import from.
    ///
    /// # Errors
    /// It was not found; the text says what a recording without it lacks, and what to do.
    pub(crate) fn hook(&self) -> Result<&Path, &str> {
        self.hook.as_deref().map_err(String::as_str)
    }
}

/// Returns the folders where the libraries may be, best first: only that of the variable `MEMREEL_PRELOAD` if it is
/// set.
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
                "{library} was not found ({looked}); in a checkout of memreel, build it with `{BUILD}`, or \
                 name its folder with MEMREEL_PRELOAD=FOLDER"
            ),
        )
    })?;
    // The loader separates paths by either, and has no way to quote them.
    if found.to_string_lossy().contains([' ', ':']) {
        let found = ShownPath(&found);
        return Err(Failure::Message(
            Exit::Unreadable,
            format!(
                "{found} cannot be preloaded, because its path has a space or a colon; copy the libraries to \
                 another folder and name it with MEMREEL_PRELOAD=FOLDER"
            ),
        ));
    }
    Ok(found)
}

/// Returns the folders where the hook may be: only the one that the user named; otherwise next to the library, and in
/// the checkout whose target folder has the library.
fn hook_places(named: Option<OsString>, preload: &Path) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return vec![named.into()];
    }
    let beside = preload.parent().into_iter();
    let target = preload.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "target"));
    let places = beside.chain(target.and_then(Path::parent));
    places.map(|place| place.join("python").join(HOOK[0])).collect()
}

fn in_hook_places(places: &[PathBuf]) -> Result<PathBuf, String> {
    let found = places.iter().find(|place| place.join(HOOK[1]).is_file());
    found.and_then(|place| place.canonicalize().ok()).ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let (file, looked) = (HOOK[1], looked.join(", "));
        format!(
            "the Python hook {file} was not found ({looked}), so PyTorch's own blocks are not recorded and \
             Python frames are not checked; name its folder with MEMREEL_PYTHON_HOOK=FOLDER \
             (python/memreel_record in a checkout)"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns where the hook of a library is found, in a folder that has only this one.
    fn found(named: Option<&str>, library: &str, hook: &str) -> Result<PathBuf, String> {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join(hook)).unwrap();
        fs::write(root.join(hook).join(HOOK[1]), "").unwrap();
        let named = named.map(|folder| root.join(folder).into_os_string());
        let found = in_hook_places(&hook_places(named, &root.join(library)))?;
        Ok(found.strip_prefix(&root).unwrap().to_owned())
    }

    #[test]
    fn the_hook_is_beside_the_library_or_in_its_checkout() {
        let beside = "lib/memreel/python/memreel_record";
        assert_eq!(found(None, "lib/memreel/libmemreel_preload.so", beside), Ok(beside.into()));
        let checkout = "clone/python/memreel_record";
        for profile in ["debug", "x86_64-unknown-linux-gnu/release"] {
            let library = format!("clone/target/{profile}/libmemreel_preload.so");
            assert_eq!(found(None, &library, checkout), Ok(checkout.into()), "{profile}");
        }
    }

    #[test]
    fn a_hook_that_is_elsewhere_is_named() {
        let (library, checkout) = ("elsewhere/debug/libmemreel_preload.so", "clone/python/memreel_record");
        let why = found(None, library, checkout).unwrap_err();
        assert!(why.contains("elsewhere/debug/python/memreel_record), so PyTorch's own blocks"), "{why}");
        assert!(why.contains("; name its folder with MEMREEL_PYTHON_HOOK=FOLDER"), "{why}");
        assert_eq!(found(Some(checkout), library, checkout), Ok(checkout.into()));
        let why = found(Some("wrong"), library, checkout).unwrap_err();
        assert!(why.contains("/wrong), so"), "{why}");
        let library = Path::new(library);
        assert_eq!(hook_places(Some("".into()), library), hook_places(None, library));
    }
}
