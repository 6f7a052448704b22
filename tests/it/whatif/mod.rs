//! Tests of recorded histories under other settings (`replays`). `model_recording` reads the recordings of models.
#![forbid(unsafe_code)]

mod model_recording;
mod replays;
