//! Captures of streams, and the graphs that they become.

use super::{
    clock::Clock,
    context,
    memory::Access,
    state::{Answer, Driver, code},
};

/// What an operation does to values.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Fill { start: u64, bytes: u64, value: u8 },
    Copy { to: u64, from: u64, bytes: usize },
    Write { to: u64, values: Vec<u8> },
    None,
}

/// A captured operation: its effect, its accesses, and the numbers of the regions that these are in.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) effect: Effect,
    pub(crate) accesses: Vec<(Access, Vec<(u64, u64)>)>,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Capture {
    origin: usize,
    mode: u32,
    thread: u64,
    is_invalid: bool,
    /// The streams that take part, with the clocks that they had before.
    members: Vec<(usize, Clock)>,
    /// The accesses so far with their clocks, to find those that are not ordered within the graph.
    accesses: Vec<Access>,
    graph: Graph,
}

impl Driver {
    pub(crate) fn begin_capture(&mut self, line: usize, mode: u32) -> Answer<()> {
        let found = &self.lines[line];
        if found.handle == 0 {
            return Err(code::CAPTURE_UNSUPPORTED);
        }
        if found.capture.is_some() {
            return Err(code::INVALID_VALUE);
        }
        let id = self.handle();
        let thread = context::thread();
        let members = vec![(line, self.lines[line].clock.clone())];
        let (accesses, graph) = (Vec::new(), Graph::default());
        let capture = Capture { origin: line, mode, thread, is_invalid: false, members, accesses, graph };
        self.captures.insert(id, capture);
        self.lines[line].capture = Some(id);
        Ok(())
    }

    pub(crate) fn end_capture(&mut self, line: usize) -> Answer<Graph> {
        let id = self.lines[line].capture.ok_or(code::INVALID_VALUE)?;
        let capture = self.captures.get(&id).ok_or(code::INVALID_VALUE)?;
        if capture.origin != line {
            return Err(code::CAPTURE_UNMATCHED);
        }
        let Some(capture) = self.captures.remove(&id) else { return Err(code::INVALID_VALUE) };
        let now = self.lines[line].clock.clone();
        let is_joined = capture.members.iter().all(|(member, before)| {
            self.lines[*member].n_operations <= now.get(*member).max(before.get(*member))
        });
        for (member, before) in capture.members {
            let line = &mut self.lines[member];
            (line.clock, line.capture) = (before, None);
        }
        match (capture.is_invalid, is_joined) {
            (true, _) => Err(code::CAPTURE_INVALIDATED),
            (_, false) => Err(code::CAPTURE_UNJOINED),
            _ => Ok(capture.graph),
        }
    }

    /// Invalidates a stream's capture because of a call that it does not permit.
    pub(crate) fn invalidate(&mut self, id: u64, code: u32) -> u32 {
        self.captures.entry(id).and_modify(|capture| capture.is_invalid = true);
        code
    }

    /// Makes a stream that waits for an event take part in the event's capture.
    pub(crate) fn join_capture(&mut self, line: usize, event: Option<u64>) -> Answer<()> {
        match (self.lines[line].capture, event) {
            (None, None) => Ok(()),
            (Some(own), Some(other)) if own == other => Ok(()),
            (Some(own), _) => Err(self.invalidate(own, code::CAPTURE_ISOLATION)),
            (None, Some(other)) if !self.captures.contains_key(&other) => Err(code::CAPTURED_EVENT),
            (None, Some(other)) if self.lines[line].handle == 0 => {
                Err(self.invalidate(other, code::CAPTURE_IMPLICIT))
            }
            (None, Some(other)) => {
                let before = self.lines[line].clock.clone();
                self.captures.entry(other).and_modify(|capture| capture.members.push((line, before)));
                self.lines[line].capture = Some(other);
                Ok(())
            }
        }
    }

    /// Fails for a call that no capture permits, unless the thread allows it.
    pub(crate) fn outside_captures(&mut self) -> Answer<()> {
        if context::capture_mode() == 2 {
            return Ok(());
        }
        let thread = context::thread();
        let forbids =
            |capture: &Capture| capture.mode == 0 || (capture.mode == 1 && capture.thread == thread);
        let ids: Vec<u64> =
            self.captures.iter().filter(|(_, capture)| forbids(capture)).map(|(id, _)| *id).collect();
        ids.iter().for_each(|id| _ = self.invalidate(*id, 0));
        if ids.is_empty() { Ok(()) } else { Err(code::CAPTURE_UNSUPPORTED) }
    }

    /// Runs an operation, or adds it to the graph of the stream's capture.
    pub(crate) fn queue(&mut self, line: usize, accesses: Vec<Access>, effect: Effect) -> Answer<()> {
        let Some(id) = self.lines[line].capture else {
            self.operate(line, &accesses)?;
            self.run(&effect);
            return Ok(());
        };
        let now = self.tick(line);
        let mut placed = Vec::new();
        for access in accesses.into_iter().filter(|access| access.bytes > 0) {
            let Some(regions) = self.memory.spanned(access.start, access.bytes) else {
                return Err(self.invalidate(id, code::INVALID_VALUE));
            };
            placed.push((Access { line, time: now.get(line), ..access }, regions));
        }
        let Some(capture) = self.captures.get_mut(&id) else { return Err(code::CAPTURE_INVALIDATED) };
        let mut races = Vec::new();
        for (access, _) in &placed {
            let unordered = |old: &&Access| now.get(old.line) < old.time && old.conflicts(access);
            races.extend(capture.accesses.iter().filter(unordered).map(|old| (access.clone(), old.clone())));
        }
        capture.accesses.extend(placed.iter().map(|(access, _)| access.clone()));
        capture.graph.nodes.push(Node { effect, accesses: placed });
        for (new, old) in races {
            let text = format!("in a graph: {}", self.race(&new, &old));
            self.violations.push(text);
        }
        Ok(())
    }

    /// Launches a graph as one operation of a stream.
    pub(crate) fn launch(&mut self, graph: &Graph, line: usize) -> Answer<()> {
        let placed = || graph.nodes.iter().flat_map(|node| &node.accesses);
        for (access, regions) in placed() {
            if self.memory.spanned(access.start, access.bytes).as_ref() != Some(regions) {
                let Access { start, bytes, what, .. } = access;
                let text = format!("a graph is launched whose {what} [{start:#x}, +{bytes}) was freed");
                return Err(self.misused(text));
            }
        }
        let accesses: Vec<Access> = placed().map(|(access, _)| access.clone()).collect();
        self.operate(line, &accesses)?;
        graph.nodes.iter().for_each(|node| self.run(&node.effect));
        Ok(())
    }

    fn run(&mut self, effect: &Effect) {
        match effect {
            Effect::Fill { start, bytes, value } => self.memory.fill(*start, *bytes, *value),
            Effect::Copy { to, from, bytes } => {
                let values = self.memory.read(*from, *bytes);
                self.memory.write(*to, values.into_iter());
            }
            Effect::Write { to, values } => self.memory.write(*to, values.iter().copied()),
            Effect::None => {}
        }
    }
}
