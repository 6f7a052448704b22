//! Nothing; with a build script, Cargo regards the build dependencies of this package.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
