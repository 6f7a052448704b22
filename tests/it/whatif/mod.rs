//! Tests of recorded histories under other settings (`replays`), of histories that begin late (`late_starts`), and of why
//! requests failed (`causes`). `model_recording` reads the recordings of models.
#![forbid(unsafe_code)]

mod causes;
mod late_starts;
mod model_recording;
mod replays;
