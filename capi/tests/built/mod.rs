//! The shared library, built for tests.
#![forbid(unsafe_code)]

use std::{path::PathBuf, process::Command, sync::OnceLock};

/// Builds the shared library and returns its path. Cargo does not build a `cdylib` for a test.
pub(crate) fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let test = std::env::current_exe().unwrap();
        // Test programs are in `deps`, below the folder of their profile.
        let folder = test.parent().unwrap().parent().unwrap();
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
            .arg("--target-dir")
            .arg(folder.parent().unwrap())
            .args(if folder.ends_with("release") { &["--release"][..] } else { &[] })
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        folder.join("libmemreel.so")
    };
    BUILT.get_or_init(build).clone()
}
