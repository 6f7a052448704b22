//! Tests of recorded histories under other settings (`replays`), and of why requests failed (`causes`). `model_recording`
//! reads the recordings of models.
#![forbid(unsafe_code)]

mod causes;
mod model_recording;
mod replays;
