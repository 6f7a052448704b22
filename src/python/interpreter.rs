//! Finds the interpreter of this process, by the names that CPython exports.

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
use std::ffi::{CStr, c_char};
use std::ffi::{c_int, c_void};

use super::layout::Layout;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
use crate::stack::exported;

/// A function that returns the state of the calling thread, or null.
type StateFunction = unsafe extern "C" fn() -> *mut c_void;

/// A function that returns a flag.
type FlagFunction = unsafe extern "C" fn() -> c_int;

/// A CPython interpreter that memreel can read.
#[derive(Debug)]
pub(super) struct Interpreter {
    /// The version as it prints it: `3.12.1`.
    pub(super) version: String,
    pub(super) layout: Layout,
    pub(super) code_type: usize,
    this_thread: StateFunction,
    attached: StateFunction,
    initialized: FlagFunction,
    finalizing: FlagFunction,
}

/// Why there is no interpreter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Missing {
    /// No interpreter is loaded yet.
    NotLoaded,
    /// An interpreter is loaded that memreel cannot read.
    Unknown(String),
}

impl Interpreter {
    /// Returns the state of this thread, whether it has the interpreter's lock or not; 0 if it has none.
    #[inline(always)]
    pub(super) fn this_thread(&self) -> usize {
        // SAFETY: takes nothing, may be called by any thread at any time, and waits for nothing.
        unsafe { (self.this_thread)() }.expose_provenance()
    }

    /// Returns whether this thread has the interpreter's lock, or is attached to an interpreter without one.
    pub(super) fn is_attached(&self) -> bool {
        // SAFETY: as above.
        let attached = unsafe { (self.attached)() }.expose_provenance();
        attached != 0 && attached == self.this_thread()
    }

    /// Returns whether the interpreter has started completely and is not ending yet.
    pub(super) fn is_initialized(&self) -> bool {
        // SAFETY: as above.
        unsafe { (self.initialized)() != 0 }
    }

    /// Returns whether the interpreter is ending.
    pub(super) fn is_finalizing(&self) -> bool {
        // SAFETY: takes nothing, may be called by any thread at any time, and waits for nothing.
        unsafe { (self.finalizing)() != 0 }
    }

    #[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
    pub(super) fn find() -> Result<Interpreter, Missing> {
        Err(Missing::Unknown("Python frames are read on 64-bit Linux only".into()))
    }

    /// Looks for an interpreter in this process.
    #[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
    pub(super) fn find() -> Result<Interpreter, Missing> {
        let found = exported([
            c"Py_GetVersion",
            c"_PyRuntime",
            c"PyThreadState_GetUnchecked",
            c"_PyThreadState_UncheckedGet",
            c"PyGILState_GetThisThreadState",
            c"Py_IsFinalizing",
            c"_Py_IsFinalizing",
            c"Py_IsInitialized",
            c"PyCode_Type",
        ]);
        let [name, runtime, now, before, this_thread, ends, ended, initialized, code_type] =
            found.ok_or(Missing::NotLoaded)?;
        let name = name.ok_or(Missing::NotLoaded)?;
        // SAFETY: CPython's function of this name returns a constant text, also before it is initialised.
        let version = unsafe {
            let name: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(name);
            CStr::from_ptr(name())
        };
        let version = version.to_string_lossy();
        let minor = minor_of(&version).map_err(Missing::Unknown)?;
        let version: String = version.split(' ').next().unwrap_or_default().into();
        let lacks = |name: &str| Missing::Unknown(format!("CPython {version} exports no {name}"));
        let layout = match Layout::of_version(minor) {
            Some(layout) => layout,
            None => {
                let runtime = runtime.ok_or_else(|| lacks("_PyRuntime"))?;
                // SAFETY: the runtime's state begins with the offsets and is longer than what is read of it.
                let bytes = unsafe { runtime.cast::<[u8; super::published::N_BYTES]>().read() };
                super::published::layout(minor, &bytes)
                    .map_err(|why| Missing::Unknown(format!("CPython {version}: {why}")))?
            }
        };
        let attached = now.or(before).ok_or_else(|| lacks("PyThreadState_GetUnchecked"))?;
        let this_thread = this_thread.ok_or_else(|| lacks("PyGILState_GetThisThreadState"))?;
        let finalizing = ends.or(ended).ok_or_else(|| lacks("Py_IsFinalizing"))?;
        let initialized = initialized.ok_or_else(|| lacks("Py_IsInitialized"))?;
        let code_type = code_type.ok_or_else(|| lacks("PyCode_Type"))?.expose_provenance();
        // SAFETY: CPython's functions of these names have this type.
        let [this_thread, attached] =
            [this_thread, attached].map(|f| unsafe { std::mem::transmute::<*mut c_void, StateFunction>(f) });
        let [initialized, finalizing] = [initialized, finalizing]
            // SAFETY: as above.
            .map(|f| unsafe { std::mem::transmute::<*mut c_void, FlagFunction>(f) });
        Ok(Interpreter { version, layout, code_type, this_thread, attached, initialized, finalizing })
    }
}

/// Returns the address of a name that the process exports.
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(super) fn symbol(name: &CStr) -> Option<*mut c_void> {
    let [found] = exported([name])?;
    found
}

/// Returns the minor version of an interpreter that memreel can read, or the reason why it cannot.
fn minor_of(version: &str) -> Result<u32, String> {
    let short = version.split(' ').next().unwrap_or_default();
    if version.contains("PyPy") || version.contains("GraalVM") {
        return Err(format!("{version:?} is not CPython"));
    }
    let mut numbers = short.split('.');
    let (major, minor, micro) = (numbers.next(), numbers.next(), numbers.next().unwrap_or_default());
    let minor = minor.filter(|_| major == Some("3")).and_then(|minor| minor.parse().ok());
    let minor: u32 = minor.ok_or_else(|| format!("{version:?} is not a version of CPython 3"))?;
    let known = super::layout::KNOWN;
    if !known.contains(&minor) {
        return Err(format!(
            "CPython {short} is not among 3.{} to 3.{}, which memreel can read",
            known.start(),
            known.end()
        ));
    }
    // 3.15.0a3 and 3.15.0b1 may have other layouts than 3.15.0.
    if micro.contains(['a', 'b']) {
        return Err(format!("CPython {short} is not a release"));
    }
    Ok(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_known_versions_are_read() {
        let of = |version: &str| minor_of(version);
        assert_eq!(of("3.9.18 (main, Jan 1 2024) [GCC 12.2.0]"), Ok(9));
        assert_eq!(of("3.14.0rc2 free-threading build (main)"), Ok(14));
        assert_eq!(of("3.13.0+ (heads/3.13)"), Ok(13));
    }

    #[test]
    fn what_cannot_be_read_has_a_reason() {
        let why = |version: &str| minor_of(version).unwrap_err();
        assert!(why("3.8.18 (default)").contains("3.8.18 is not among 3.9 to 3.15"));
        assert!(why("3.16.0 (main)").contains("3.16.0 is not among"));
        assert!(why("3.15.0a3+ (main)").contains("not a release"));
        assert!(why("3.10.14 (75b3de9d9035) [PyPy 7.3.16]").contains("not CPython"));
        assert!(why("2.7.18 (default)").contains("CPython 3"));
        assert!(why("").contains("CPython 3"));
    }

    #[test]
    fn this_program_has_no_interpreter() {
        assert!(Interpreter::find().is_err());
    }
}
