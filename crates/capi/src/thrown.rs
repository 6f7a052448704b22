//! Throws a failed request as the C++ exception that PyTorch turns into a Python one.
//!
//! PyTorch does not check what a pluggable allocator returns: a null pointer
//! becomes a tensor. So the failure is thrown: as `c10::OutOfMemoryError` if
//! its parts are found in PyTorch's libraries, else as the `c10::Error` that
//! `torchCheckFail` throws. Without PyTorch, one line is written to stderr and
//! the caller gets null.

use std::{
    ffi::{CStr, CString, c_char, c_void},
    mem, ptr,
};

use once_cell::race::OnceBox;

use super::{border::print, state::state};
use memreel::{DeviceId, Error, allocator::CachingAllocator};

/// Throws the failure, or writes its text to stderr and returns.
///
/// # Safety
/// Where PyTorch is loaded, every frame up to a handler can be unwound.
pub(super) unsafe fn throw(error: Error) {
    let text = text(&error);
    let is_out_of_memory = error.is_out_of_memory();
    drop(error);
    if is_out_of_memory && let Some(parts) = OutOfMemoryError::parts() {
        // SAFETY: the caller can be unwound.
        unsafe { parts.throw(text) };
    }
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    if let Some(check_fail) = check_fail() {
        // SAFETY: the function throws a copy of the texts; the caller can be unwound.
        unsafe { check_fail(c"memreel_malloc".as_ptr(), FILE.as_ptr(), line!(), text.as_ptr()) };
    }
    print(&text.to_string_lossy());
}

/// Returns the text of a failure. A GPU that is out of memory has PyTorch's text, which programs search for; memreel's
/// verdict follows on separate lines.
fn text(error: &Error) -> String {
    let Some(figures) = error.out_of_memory().filter(|figures| !is_host(figures.device)) else {
        return error.to_string();
    };
    let saved = match (&figures.snapshot, &figures.kept_snapshot) {
        (Some(path), _) => format!(" memreel's snapshot: {}.", path.display()),
        (None, Some(path)) => format!(" memreel's snapshot of an earlier failure: {}.", path.display()),
        (None, None) => String::new(),
    };
    let verdict = figures.verdict.as_ref().map_or_else(String::new, |verdict| format!("\n{}", verdict.text));
    figures.torch_message() + &saved + &verdict
}

/// Returns whether a device is the host's memory.
fn is_host(device: DeviceId) -> bool {
    state().is_ok_and(|state| state.reel.allocator(device).is_ok_and(CachingAllocator::is_host_visible))
}

const FILE: &CStr = c"memreel";

type CheckFail = unsafe extern "C-unwind" fn(*const c_char, *const c_char, u32, *const c_char);

/// `c10::detail::torchCheckFail(const char*, const char*, uint32_t, const char*)`.
fn check_fail() -> Option<CheckFail> {
    let symbol = symbol(&[c"libc10.so"], c"_ZN3c106detail14torchCheckFailEPKcS2_jS2_")?;
    // SAFETY: the mangled name encodes the arguments. It never returns, so the return type does not matter.
    Some(unsafe { mem::transmute::<*mut c_void, CheckFail>(symbol) })
}

/// Returns the address of a symbol in one of `libraries`, if that is loaded,
/// or anywhere in the program. The libraries are named because Python loads
/// PyTorch's privately (`RTLD_LOCAL`).
fn symbol(libraries: &[&CStr], name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the names end in nul; RTLD_NOLOAD loads nothing.
    let loaded = |library: &&CStr| unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        (!handle.is_null()).then(|| libc::dlsym(handle, name.as_ptr())).filter(|found| !found.is_null())
    };
    // SAFETY: as above.
    let anywhere = || unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    libraries.iter().find_map(loaded).or_else(|| Some(anywhere()).filter(|found| !found.is_null()))
}

/// `c10::SourceLocation`.
#[repr(C)]
struct SourceLocation {
    function: *const c_char,
    file: *const c_char,
    line: u32,
}

/// libstdc++'s `std::string`, with its text on the heap of `operator new`.
#[repr(C)]
struct StdString {
    data: *mut u8,
    len: usize,
    /// The capacity, or the characters of a short text.
    rest: [usize; 2],
}

type AllocateException = unsafe extern "C" fn(usize) -> *mut c_void;
type Throw = unsafe extern "C-unwind" fn(*mut c_void, *const c_void, unsafe extern "C" fn(*mut c_void)) -> !;
type OperatorNew = unsafe extern "C" fn(usize) -> *mut c_void;
type NewError = unsafe extern "C" fn(*mut c_void, SourceLocation, *mut StdString);

/// The functions and tables that make and throw a `c10::OutOfMemoryError`.
#[derive(Clone, Copy, Debug)]
struct OutOfMemoryError {
    allocate_exception: AllocateException,
    throw: Throw,
    operator_new: OperatorNew,
    /// The constructor of its base, `c10::Error::Error(SourceLocation, std::string)`.
    new_error: NewError,
    type_info: *const c_void,
    vtable: *const *const c_void,
}

// SAFETY: functions, and tables that are never written.
unsafe impl Send for OutOfMemoryError {}
// SAFETY: as above.
unsafe impl Sync for OutOfMemoryError {}

/// More than enough memory for the exception: it has 128 bytes in PyTorch 2.11, and other versions may differ.
const OBJECT_BYTES: usize = 1024;

impl OutOfMemoryError {
    /// Returns the parts once all are found; libraries may be loaded while the program runs.
    fn parts() -> Option<OutOfMemoryError> {
        // A cell that no thread waits for; see `state`.
        static FOUND: OnceBox<OutOfMemoryError> = OnceBox::new();
        FOUND.get_or_try_init(|| OutOfMemoryError::find().map(Box::new).ok_or(())).ok().copied()
    }

    #[cfg(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    fn find() -> Option<OutOfMemoryError> {
        let standard = |name| symbol(&[c"libstdc++.so.6"], name);
        let torch = |name| symbol(&[c"libc10.so", c"libc10_cuda.so"], name);
        let new_error =
            c"_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
        // SAFETY: the mangled names encode the arguments, and which symbols are a type and a table.
        unsafe {
            Some(OutOfMemoryError {
                allocate_exception: mem::transmute::<*mut c_void, AllocateException>(standard(
                    c"__cxa_allocate_exception",
                )?),
                throw: mem::transmute::<*mut c_void, Throw>(standard(c"__cxa_throw")?),
                operator_new: mem::transmute::<*mut c_void, OperatorNew>(standard(c"_Znwm")?),
                new_error: mem::transmute::<*mut c_void, NewError>(torch(new_error)?),
                type_info: torch(c"_ZTIN3c1016OutOfMemoryErrorE")?,
                vtable: torch(c"_ZTVN3c1016OutOfMemoryErrorE")?.cast(),
            })
        }
    }

    /// The above layouts of C++ objects are known only for two platforms.
    #[cfg(not(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )))]
    fn find() -> Option<OutOfMemoryError> {
        None
    }

    /// Throws the exception with a text.
    ///
    /// # Safety
    /// Every frame up to a handler can be unwound.
    unsafe fn throw(self, text: String) -> ! {
        // SAFETY: the memory is larger than the object, and `operator new` does not return null. The
        // constructor takes ownership of the text's heap memory and leaves an empty string. The class
        // adds no data to its base, so setting its table, which begins after two words, completes it.
        unsafe {
            let object = (self.allocate_exception)(OBJECT_BYTES);
            let data = (self.operator_new)(text.len() + 1).cast::<u8>();
            ptr::copy_nonoverlapping(text.as_ptr(), data, text.len());
            data.add(text.len()).write(0);
            let mut message = StdString { data, len: text.len(), rest: [text.len(), 0] };
            drop(text);
            let place =
                SourceLocation { function: c"memreel_malloc".as_ptr(), file: FILE.as_ptr(), line: line!() };
            (self.new_error)(object, place, &raw mut message);
            object.cast::<*const *const c_void>().write(self.vtable.add(2));
            (self.throw)(object, self.type_info, destroy)
        }
    }
}

/// Calls the object's destructor, which is the first entry of its table.
///
/// # Safety
/// It is called once, with the object that [`OutOfMemoryError::throw`] has completed.
unsafe extern "C" fn destroy(object: *mut c_void) {
    // SAFETY: C++ calls this once, with the thrown object, whose first word points to its table.
    unsafe {
        let vtable = object.cast::<*const unsafe extern "C" fn(*mut c_void)>().read();
        (*vtable)(object);
    }
}
