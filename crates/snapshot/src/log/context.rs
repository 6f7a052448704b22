//! Collects what other lines of a log show about the memory: the state of XLA's and TensorFlow's pool, and the buffers
//! of llama.cpp.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;

use super::message::{Message, Part, Program};

static OF_POOL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(Limit|InUse|LargestFreeBlock): *([0-9]+)$").expect("a constant"));

static BUFFER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b([A-Za-z]+[0-9]+) +((?:[A-Za-z]+ )?buffer) size += +([0-9.]+) MiB").expect("a constant")
});

static FREE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"using device [A-Za-z]+([0-9]+) .*- ([0-9]+) MiB free").expect("a constant")
});

/// The most devices and buffers of each that are kept.
const MAX_DEVICES: usize = 64;
const MAX_BUFFERS: usize = 16;

/// A pool belongs to a message at most this number of lines later, because its chunks may be listed in between.
const NEAR_LINES: u64 = 10_000;

/// The facts seen so far.
#[derive(Debug, Default)]
pub(super) struct Context {
    pool_line: u64,
    limit_bytes: Option<u64>,
    in_use_bytes: Option<u64>,
    buffers: BTreeMap<u16, Vec<Part>>,
    free: BTreeMap<u16, u64>,
}

impl Context {
    pub(super) fn add(&mut self, line: u64, text: &str) {
        if let Some(found) = OF_POOL.captures(text) {
            let bytes = found[2].parse().ok();
            match &found[1] {
                "Limit" => (self.pool_line, self.limit_bytes) = (line, bytes),
                "InUse" => self.in_use_bytes = bytes,
                _ => {}
            }
        } else if let Some(found) = BUFFER.captures(text) {
            self.add_buffer(&found[1], &found[2], &found[3]);
        } else if let Some(found) = FREE.captures(text)
            && let (Ok(device), Ok(mib)) = (found[1].parse(), found[2].parse::<u64>())
            && self.free.len() < MAX_DEVICES
        {
            // A model is loaded again: earlier buffers are gone.
            self.buffers.remove(&device);
            self.free.insert(device, mib << 20);
        }
    }

    fn add_buffer(&mut self, device: &str, name: &str, mib: &str) {
        let number = device.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse();
        let (Ok(device), Ok(mib)) = (number, mib.parse::<f64>()) else { return };
        if self.buffers.len() == MAX_DEVICES && !self.buffers.contains_key(&device) {
            return;
        }
        let parts = self.buffers.entry(device).or_default();
        if parts.len() < MAX_BUFFERS {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            parts.push(Part { name: name.to_owned(), bytes: (mib * 1_048_576.0).round() as u64 });
        }
    }

    /// Adds to a message what is known of its device or its pool.
    pub(super) fn complete(&self, message: &mut Message) {
        match message.program {
            Program::Xla | Program::TensorFlow
                if self.limit_bytes.is_some() && message.line - self.pool_line <= NEAR_LINES =>
            {
                message.limit_bytes = message.limit_bytes.or(self.limit_bytes);
                message.allocated_bytes = message.allocated_bytes.or(self.in_use_bytes);
            }
            Program::Ggml => {
                let device = message.device.unwrap_or(0);
                message.parts.extend(self.buffers.get(&device).into_iter().flatten().cloned());
                let held = message.parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add);
                // The free memory is that before the buffers.
                message.free_bytes = self.free.get(&device).map(|free| free.saturating_sub(held));
                message.allocated_bytes = (held > 0).then_some(held);
            }
            _ => {}
        }
    }
}
