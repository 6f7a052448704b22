//! Writes the page that has memreel in it: `memreel-web-page MODULE PAGE`.

#![forbid(unsafe_code)]

use std::{env, ffi::OsStr, fs, process::ExitCode};

use zopfli::{Format, Options};

fn main() -> ExitCode {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let [module, page] = &words[..] else {
        eprintln!("usage: memreel-web-page MODULE PAGE");
        return ExitCode::from(2);
    };
    match write(module, page) {
        Ok(sizes) => {
            println!("{sizes}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("memreel-web-page: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the page, and returns the sizes of what it is made of.
fn write(module: &OsStr, page: &OsStr) -> Result<String, String> {
    let module = fs::read(module).map_err(|error| error.to_string())?;
    // Readers download what is compressed here once.
    let mut deflated = Vec::new();
    zopfli::compress(Options::default(), Format::Gzip, &module[..], &mut deflated)
        .map_err(|error| error.to_string())?;
    let text = memreel_cli::page_with(&deflated)?;
    fs::write(page, &text).map_err(|error| error.to_string())?;
    Ok(format!("module: {} bytes, {} with gzip; page: {} bytes", module.len(), deflated.len(), text.len()))
}
