//! Messages in logs: those of every program, and logs that are hard to read.

mod bad_logs;
mod planted;
mod torch;

use memreel_snapshot::log::{Message, Messages};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn read(log: &str) -> Messages {
    Messages::read(log.as_bytes(), &|_| ()).unwrap()
}

fn last(log: &str) -> Message {
    read(log).last.unwrap_or_else(|| panic!("no message in {log}"))
}
