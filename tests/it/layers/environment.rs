//! What is linked into programs, or preloaded, reads the environment in one place, which has none for a program with more
//! rights than its caller.
#![forbid(unsafe_code)]

use std::fs;

use memreel_testing::repository;

use super::unsafety::files;

/// The packages that get into programs of others.
const FOLDERS: [&str; 5] =
    ["src", "crates/lockfree/src", "crates/hooks/cuda/src", "crates/hooks/malloc/src", "crates/capi/src"];

/// Where it is read: `heap` does not know memreel.
const MAY: [&str; 2] = ["src/process/environment.rs", "crates/hooks/malloc/src/asked.rs"];

/// What passes environments on to programs that start.
const PASSES_ON: &str = "crates/hooks/cuda/src/cleaned.rs";

/// Helpers of tests, which no program has.
const TESTS: &str = "src/process/testing";

#[test]
fn one_function_reads_the_environment() {
    let all = FOLDERS.iter().flat_map(|folder| files(&repository(folder)));
    let others =
        all.filter(|file| !file.starts_with(repository(TESTS)) && !file.iter().any(|part| part == "tests"));
    let strays: Vec<_> = others
        .filter(|file| !MAY.iter().chain([&PASSES_ON]).any(|may| *file == repository(may)))
        .filter(|file| {
            let text = fs::read_to_string(file).unwrap();
            let of_program = text.lines().take_while(|line| !line.starts_with("mod tests"));
            let code = of_program.filter(|line| !line.trim_start().starts_with("//"));
            ["env::var", "env::{var", "getenv(", "environ)"]
                .iter()
                .any(|word| code.clone().any(|line| line.contains(word)))
        })
        .collect();
    assert!(strays.is_empty(), "integrate::variable reads the environment for these: {strays:#?}");
    for may in MAY {
        assert!(fs::read_to_string(repository(may)).unwrap().contains("AT_SECURE"), "{may}");
    }
}
