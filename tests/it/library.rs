//! Small shared libraries, compiled when a test asks for them. The library's own unit tests use this file too.

use std::{
    ffi::{CString, c_void},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

/// A library whose function `run` calls back from a function of a given name,
/// which stands in line 6 of `<name>.rs`. It needs nothing of std, so that it
/// can be unloaded: std's thread-locals would hold it.
pub(crate) fn compile(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let source = folder.join(format!("{name}.rs"));
    let text = "#![no_std]
            #[panic_handler] fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }
            type Callback = extern \"C\" fn(*mut core::ffi::c_void);
            #[inline(never)]
            fn NAME(callback: Callback, data: *mut core::ffi::c_void) -> usize {
                callback(data);
                core::hint::black_box(callback as usize)
            }
            #[unsafe(no_mangle)]
            pub extern \"C\" fn run(callback: Callback, data: *mut core::ffi::c_void) -> usize {
                core::hint::black_box(NAME(callback, data)) + 1
            }";
    fs::write(&source, text.replace("NAME", name)).unwrap();
    let library = folder.join(format!("lib{name}.so"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "-Copt-level=1", "-Cpanic=abort"]);
    command.args(["-Cforce-unwind-tables=yes"]).args(options).arg(&source).arg("-o").arg(&library);
    let output = command.output().expect("rustc is on the path");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// A library in memory, until it is dropped.
pub(crate) struct Library(*mut c_void);

impl Library {
    pub(crate) fn open(path: &Path) -> Library {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends in a zero; the library has no initialisers.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{path:?} does not load");
        Library(handle)
    }

    /// Runs `work` below the library's functions.
    pub(crate) fn run(&self, mut work: &mut dyn FnMut()) {
        extern "C" fn callback(work: *mut c_void) {
            // SAFETY: the pointer made below, used while `run` waits.
            unsafe { (*work.cast::<&mut dyn FnMut()>())() }
        }
        type Run = extern "C" fn(extern "C" fn(*mut c_void), *mut c_void) -> usize;
        // SAFETY: `run` is a function of that type in every library of `compile`.
        unsafe {
            let run = libc::dlsym(self.0, c"run".as_ptr());
            assert!(!run.is_null());
            let run = std::mem::transmute::<*mut c_void, Run>(run);
            run(callback, (&raw mut work).cast());
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once, and nothing of it is running.
        unsafe { libc::dlclose(self.0) };
    }
}

/// Whether a file is mapped anywhere in this process.
pub(crate) fn is_loaded(path: &Path) -> bool {
    fs::read_to_string("/proc/self/maps").unwrap().contains(path.to_str().unwrap())
}
