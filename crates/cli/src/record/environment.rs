//! Builds the environment of the program: what is preloaded, what is recorded, and where to.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use memreel::{integrate, trigger};

use super::{names::Names, options::Options};
use crate::{failure::Failure, run::libraries::Libraries};

/// A variable of the environment.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) value: OsString,
}

/// Returns the text of the variable `MEMREEL`, from the user's value and the options.
///
/// # Errors
/// A usage error in the words of the variable: an unknown value, or a key that is in both.
pub(super) fn memreel(options: &Options, names: &Names) -> Result<String, Failure> {
    // Within another recording the variable is that one's.
    let is_within = env::var_os("MEMREEL_RECORD").is_some();
    let of_user = env::var("MEMREEL").ok().filter(|_| !is_within).unwrap_or_default();
    let has =
        |key: &str| of_user.split(',').any(|item| item.split('=').next().is_some_and(|k| k.trim() == key));
    if has("tape") || env::var_os("MEMREEL_TAPE").is_some() {
        return Err(Failure::usage(
            "memreel record uses its own tapes; remove tape= from MEMREEL and unset MEMREEL_TAPE, and use \
             --keep-tape to keep them",
        ));
    }
    let mut items = vec![of_user.clone()];
    items.retain(|item| !item.trim().is_empty());
    if !["all", "state", "off"].iter().any(|mode| has(mode)) {
        items.insert(0, "all".to_owned());
    }
    let keys = [
        ("stacks", &options.stacks),
        ("ring", &options.ring),
        ("sample", &options.sample),
        ("min_size", &options.min_size),
    ];
    items.extend(keys.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_ref()?))));
    let triggers = [("signal", &options.signal), ("every", &options.every)];
    let triggers: Vec<String> =
        triggers.iter().filter_map(|(name, value)| Some(format!("{name}:{}", value.as_ref()?))).collect();
    if !triggers.is_empty() {
        items.push(format!("dump={}", triggers.join("+")));
    }
    if (!triggers.is_empty() || has("dump")) && !has("file") {
        items.push(format!("file={}", names.of_dumps()?));
    }
    let text = items.join(",");
    trigger::check(&text)?;
    Ok(text)
}

/// Returns the variables that the program gets.
pub(super) fn variables(
    options: &Options,
    memreel: &str,
    libraries: &Libraries,
    folder: &Path,
) -> Vec<Variable> {
    let mut variables = vec![
        Variable { name: "LD_PRELOAD", value: in_front(libraries.preloaded(), "LD_PRELOAD", is_ours) },
        Variable { name: "MEMREEL", value: memreel.into() },
        Variable { name: "MEMREEL_RECORD", value: folder.into() },
        Variable { name: "ASAN_OPTIONS", value: asan_options() },
    ];
    variables
        .extend(integrate::tick().map(|ns| Variable { name: integrate::TICK, value: ns.to_string().into() }));
    if options.no_torch {
        variables.push(Variable { name: "MEMREEL_TORCH", value: "0".into() });
    }
    if let Ok(hook) = libraries.hook() {
        let value = in_front(vec![hook.into()], "PYTHONPATH", |known| known == hook.as_os_str());
        variables.push(Variable { name: "PYTHONPATH", value });
        let suppressions = hook.join("valgrind.supp");
        if suppressions.is_file() {
            variables.push(Variable { name: "VALGRIND_OPTS", value: valgrind_options(&suppressions) });
        }
        let seconds = options.every.as_deref().and_then(trigger::seconds);
        variables.extend(
            seconds
                .map(|seconds| Variable { name: "MEMREEL_TORCH_EVERY", value: seconds.to_string().into() }),
        );
    }
    variables
}

/// Returns the options of AddressSanitizer, including the user's. Otherwise its library refuses to come after preloaded
/// ones.
fn asan_options() -> OsString {
    const BEHIND: &str = "verify_asan_link_order=0";
    match env::var_os("ASAN_OPTIONS") {
        Some(of_user) if of_user.to_string_lossy().contains("verify_asan_link_order") => of_user,
        Some(of_user) => [OsStr::new(BEHIND), &of_user].join(OsStr::new(":")),
        None => BEHIND.into(),
    }
}

/// Returns the options of valgrind, including the user's: it does not report what memreel's library does.
fn valgrind_options(suppressions: &Path) -> OsString {
    let option = [OsStr::new("--suppressions="), suppressions.as_os_str()].join(OsStr::new(""));
    match env::var_os("VALGRIND_OPTS") {
        // Within another recording.
        Some(of_user) if of_user.as_bytes().starts_with(option.as_bytes()) => of_user,
        Some(of_user) => [&*option, &of_user].join(OsStr::new(" ")),
        None => option,
    }
}

/// Whether a preloaded library is memreel's: those of a recording around this one.
fn is_ours(library: &OsStr) -> bool {
    let name = Path::new(library).file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libmemreel_")
}

/// Returns a list of paths with these in front of the user's.
fn in_front(first: Vec<OsString>, variable: &str, is_known: impl Fn(&OsStr) -> bool) -> OsString {
    let of_user = env::var_os(variable).unwrap_or_default();
    let is_preload = variable == "LD_PRELOAD";
    // The loader takes blanks too. An empty path of Python's is the current folder.
    let is_separator = |byte: &u8| *byte == b':' || is_preload && *byte == b' ';
    let paths = of_user.as_bytes().split(is_separator).map(OsStr::from_bytes);
    let rest =
        paths.filter(|path| !(path.is_empty() && (is_preload || of_user.is_empty()) || is_known(path)));
    let all: Vec<OsString> = first.into_iter().chain(rest.map(OsStr::to_owned)).collect();
    all.join(OsStr::new(":"))
}
