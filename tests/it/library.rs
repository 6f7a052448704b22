//! Small shared libraries, compiled when a test asks for them. The library's own unit tests use this file too.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A library whose function `run` calls back from a function of a given name,
/// which stands in line 6 of `<name>.rs`. It needs nothing of std, so that it
/// can be unloaded: std's thread-locals would hold it.
pub(crate) fn compile(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
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

/// A library of any text.
pub(crate) fn compile_text(folder: &Path, name: &str, text: &str, options: &[&str]) -> PathBuf {
    let source = folder.join(format!("{name}.rs"));
    fs::write(&source, text).unwrap();
    let library = folder.join(format!("lib{name}.so"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "-Copt-level=1", "-Cpanic=abort"]);
    command.args(["-Cforce-unwind-tables=yes"]).args(options).arg(&source).arg("-o").arg(&library);
    let output = command.output().expect("rustc is on the path");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}
