//! Writes the page that has memreel in it: `memreel-web-page MODULE PAGE`.

#![forbid(unsafe_code)]

use std::{env, fs, process::ExitCode};

fn main() -> ExitCode {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let [module, page] = &words[..] else {
        eprintln!("usage: memreel-web-page MODULE PAGE");
        return ExitCode::from(2);
    };
    let written = fs::read(module)
        .map_err(|error| error.to_string())
        .and_then(|module| memreel_cli::page_with(&module))
        .and_then(|text| fs::write(page, text).map_err(|error| error.to_string()));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("memreel-web-page: {why}");
            ExitCode::FAILURE
        }
    }
}
