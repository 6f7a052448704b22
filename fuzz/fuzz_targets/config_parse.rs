//! Any text is settings or an error that names a place.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memreel::Settings;

fuzz_target!(|text: &str| match text.parse::<Settings>() {
    Ok(settings) => {
        let again: Settings = text.parse().expect("twice the same");
        assert_eq!(format!("{settings:?}"), format!("{again:?}"));
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
