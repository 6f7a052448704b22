//! Parses any text as allocator settings: the result is settings, or an error with a message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memreel::Settings;

fuzz_target!(|text: &str| match text.parse::<Settings>() {
    Ok(settings) => {
        let again: Settings = text.parse().expect("accepted before");
        assert_eq!(format!("{settings:?}"), format!("{again:?}"));
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
