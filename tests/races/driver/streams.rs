//! Streams and events, and the order that they make.

use super::{
    clock::Clock,
    context,
    memory::Access,
    state::{Answer, Driver, code},
};

/// One stream: a queue of operations in order. Its number is the index in [`Driver::lines`].
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) context: u64,
    pub(crate) handle: u64,
    pub(crate) thread: u64,
    /// Everything before the stream's next operation.
    pub(crate) clock: Clock,
    pub(crate) n_operations: u64,
    /// Whether the legacy default stream waits for it, and it for that.
    pub(crate) is_blocking: bool,
    /// The capture that the stream takes part in.
    pub(crate) capture: Option<u64>,
}

/// An event, and the point in time that was recorded last.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: u64,
    pub(crate) recorded: Option<Clock>,
    pub(crate) capture: Option<u64>,
}

/// A kernel that runs until the host sets a flag.
#[derive(Debug)]
pub(crate) struct Spin {
    pub(crate) line: usize,
    pub(crate) time: u64,
    pub(crate) flag: u64,
}

const LEGACY: u64 = 0;
const PER_THREAD: u64 = 2;

impl Driver {
    pub(crate) fn new_stream(&mut self, flags: u32) -> u64 {
        let handle = self.idle_streams.pop().unwrap_or_else(|| self.handle());
        let line = self.new_line(context::current(), handle, 0, flags & 1 == 0);
        self.streams.insert((0, handle, 0), line);
        handle
    }

    pub(crate) fn new_line(&mut self, context: u64, handle: u64, thread: u64, is_blocking: bool) -> usize {
        let (clock, n_operations, capture) = (Clock::default(), 0, None);
        self.lines.push(Line { context, handle, thread, clock, n_operations, is_blocking, capture });
        self.lines.len() - 1
    }

    pub(crate) fn destroy_stream(&mut self, handle: u64) -> Answer<()> {
        let Some(line) = self.streams.remove(&(0, handle, 0)) else {
            return Err(self.misused(format!("stream {handle:#x} is destroyed, but is not alive")));
        };
        if self.lines[line].capture.is_some() {
            self.violations.push(format!("{} is destroyed while it is captured", self.name(line)));
        }
        // The driver reuses handles; its queued work still runs.
        self.idle_streams.push(handle);
        Ok(())
    }

    /// Returns the line of a handle in the current context and on this thread.
    pub(crate) fn line(&mut self, handle: u64) -> Answer<usize> {
        if handle > PER_THREAD {
            return match self.streams.get(&(0, handle, 0)) {
                Some(line) => Ok(*line),
                None => Err(self.misused(format!("stream {handle:#x} is used, but is not alive"))),
            };
        }
        let context = self.current()?;
        // 0 and 1 are both the legacy default stream.
        let handle = if handle == PER_THREAD { PER_THREAD } else { LEGACY };
        let thread = if handle == PER_THREAD { context::thread() } else { 0 };
        if let Some(line) = self.streams.get(&(context, handle, thread)) {
            return Ok(*line);
        }
        let line = self.new_line(context, handle, thread, true);
        self.streams.insert((context, handle, thread), line);
        Ok(line)
    }

    /// Returns the line of a handle for work, which only the context of the stream may queue.
    pub(crate) fn line_for_work(&mut self, handle: u64) -> Answer<usize> {
        let line = self.line(handle)?;
        if self.lines[line].context == self.current()? { Ok(line) } else { Err(code::INVALID_HANDLE) }
    }

    pub(crate) fn name(&self, line: usize) -> String {
        let Line { context, handle, thread, .. } = self.lines[line];
        let of = if thread > 0 { format!(" of thread {thread}") } else { String::new() };
        format!("stream {handle:#x}{of} of context {context:#x}")
    }

    /// Counts an operation of a stream, and returns the clock that is before or at it.
    pub(crate) fn tick(&mut self, line: usize) -> Clock {
        let Line { context, handle, is_blocking, capture, .. } = self.lines[line];
        let mut clock = std::mem::take(&mut self.lines[line].clock);
        if capture.is_none() {
            clock.join(&self.done);
            let is_legacy = handle == LEGACY;
            let others =
                self.lines.iter().filter(|other| other.context == context && other.capture.is_none());
            let ordered = others
                .filter(|other| (is_legacy && other.is_blocking) || (is_blocking && other.handle == LEGACY));
            ordered.for_each(|other| clock.join(&other.clock));
        }
        let this = &mut self.lines[line];
        this.n_operations += 1;
        clock.set(line, this.n_operations);
        this.clock = clock.clone();
        clock
    }

    /// Queues an operation that accesses memory.
    pub(crate) fn operate(&mut self, line: usize, accesses: &[Access]) -> Answer<()> {
        for access in accesses {
            if access.bytes > 0 && self.memory.spanned(access.start, access.bytes).is_none() {
                if access.start == 0 {
                    return Err(code::INVALID_VALUE);
                }
                let Access { start, bytes, what, .. } = access;
                let text = format!("{what} [{start:#x}, +{bytes}) is outside of all memory");
                return Err(self.misused(text));
            }
        }
        let now = self.tick(line);
        for access in accesses.iter().filter(|access| access.bytes > 0) {
            let access = Access { line, time: now.get(line), ..access.clone() };
            for old in self.memory.access(&access, &now) {
                let text = self.race(&access, &old);
                self.violations.push(text);
            }
        }
        Ok(())
    }

    pub(crate) fn race(&self, new: &Access, old: &Access) -> String {
        let at = |access: &Access| {
            let Access { start, bytes, what, line, .. } = access;
            format!("{what} [{start:#x}, +{bytes}) on {}", self.name(*line))
        };
        format!("RACE: {} is not ordered after {}", at(new), at(old))
    }

    pub(crate) fn record(&mut self, event: u64, handle: u64) -> Answer<()> {
        let line = self.line(handle)?;
        let Some(found) = self.events.get(&event) else {
            return Err(self.misused(format!("event {event:#x} is recorded, but is not alive")));
        };
        if found.context != self.lines[line].context {
            return Err(code::INVALID_HANDLE);
        }
        let capture = self.lines[line].capture;
        // In a graph an event is not an operation.
        let now = if capture.is_some() { self.lines[line].clock.clone() } else { self.tick(line) };
        self.events.entry(event).and_modify(|event| (event.recorded, event.capture) = (Some(now), capture));
        Ok(())
    }

    pub(crate) fn wait(&mut self, handle: u64, event: u64) -> Answer<()> {
        let line = self.line(handle)?;
        let Some(Event { recorded, capture, .. }) = self.events.get(&event) else {
            return Err(self.misused(format!("event {event:#x} is waited for, but is not alive")));
        };
        let (Some(clock), capture) = (recorded.clone(), *capture) else { return Ok(()) };
        self.join_capture(line, capture)?;
        if capture.is_none() {
            self.tick(line);
        }
        self.lines[line].clock.join(&clock);
        Ok(())
    }
}
