//! Makes a file of many events for `memreel view`, and times the server on it: the first picture, the whole of it, pictures,
//! and its memory.
//!
//! ```text
//! cargo bench -p memreel-cli --bench view -- --make 10000000 FILE    only makes the file
//! ```

use std::{env, path::Path};

#[path = "../../benches/million/mod.rs"]
mod million;

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [make, n_events, path] = &words[..]
        && make == "--make"
    {
        let n_events = n_events.parse().expect("a number of events");
        let snapshot = million::synthetic_of(n_events);
        memreel::pickle::save(&snapshot, Path::new(path)).expect("a file");
    }
}
