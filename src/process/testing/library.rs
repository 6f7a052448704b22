//! Small shared libraries that a test compiles and loads.

use std::{
    ffi::{CStr, CString, c_void},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles a library with a function `run` that calls back through a function
/// named `name`, in line 6 of `<name>.rs`.
///
/// It uses nothing of std, so that it can be unloaded: std's thread-locals would keep it.
pub fn compile(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
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
    compile_text(folder, name, &text.replace("NAME", name), options)
}

/// Compiles a library of any source text; returns its path.
pub fn compile_text(folder: &Path, name: &str, text: &str, options: &[&str]) -> PathBuf {
    let source = folder.join(format!("{name}.rs"));
    fs::write(&source, text).unwrap();
    let library = folder.join(format!("lib{name}.so"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "-Copt-level=1", "-Cpanic=abort"]);
    // The test may run in an emulator, while the compiler runs outside it.
    if cfg!(target_arch = "aarch64") {
        command.args(["--target=aarch64-unknown-linux-gnu", "-Clinker=cc"]);
    }
    command.args(["-Cforce-unwind-tables=yes"]).args(options).arg(&source).arg("-o").arg(&library);
    let output = command.output().expect("rustc is on the path");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// A library in memory, unloaded when it is dropped.
#[derive(Debug)]
pub struct Library(*mut c_void);

impl Library {
    /// Loads the library of a path.
    pub fn open(path: &Path) -> Library {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends in a zero; the libraries of this file have no initialisers.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{path:?} does not load");
        Library(handle)
    }

    /// Returns the address of an exported function.
    pub fn function(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library is loaded, and the name ends in a zero.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!function.is_null(), "{name:?} is not exported");
        function
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once, and none of its functions is running.
        unsafe { libc::dlclose(self.0) };
    }
}
