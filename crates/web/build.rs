//! How the module is linked.

#![forbid(unsafe_code)]

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        // As much stack as the program's main thread has.
        println!("cargo::rustc-link-arg-cdylib=-zstack-size=8388608");
        // The worker calls it once; otherwise each function of the module would start and end the program.
        println!("cargo::rustc-link-arg-cdylib=--export=__wasm_call_ctors");
    }
}
