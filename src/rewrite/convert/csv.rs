//! Events as comma-separated values (RFC 4180), for spreadsheets and data frames.

use std::io;

use crate::snapshot::{Snapshot, StackIndex};

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl io::Write) -> io::Result<()> {
    writeln!(sink, "device,event,time_us,action,address,size_bytes,stream,scope,stack")?;
    let mut stacks: Vec<Option<String>> = vec![None; snapshot.stacks.len()];
    for (device, trace) in snapshot.device_traces.iter().enumerate() {
        for (index, entry) in trace.iter().enumerate() {
            let shape = snapshot.shapes.get(entry.shape);
            let action = entry.action.map(|action| action.name()).or_else(|| shape.text("action"));
            let scope = quoted(snapshot.user_metadata(entry));
            write!(
                sink,
                "{device},{index},{},{},{:#x},{},{},{scope},",
                entry.time_us,
                quoted(action.unwrap_or_default()),
                entry.address,
                entry.size,
                entry.stream
            )?;
            if let Some(stack) = entry.stack {
                let text = stacks[stack.index()].get_or_insert_with(|| quoted(&text(snapshot, stack)));
                sink.write_all(text.as_bytes())?;
            }
            writeln!(sink)?;
        }
    }
    Ok(())
}

/// Innermost first, as the file has it.
fn text(snapshot: &Snapshot, stack: StackIndex) -> String {
    let frames = snapshot.stacks.frames(stack);
    let frames: Vec<String> =
        frames.map(|frame| format!("{}:{}:{}", frame.filename, frame.line, frame.name)).collect();
    frames.join(";")
}

/// A field in quotes if it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
