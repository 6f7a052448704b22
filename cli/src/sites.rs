//! Sites of allocations as people read them: the innermost call, and who called it.

#![forbid(unsafe_code)]

use memreel::{
    Snapshot,
    analysis::{
        frames::{ShownFrames, base_name},
        top::{Group, Site},
    },
    snapshot::{Frame, StackIndex},
};
use serde_json::{Value, json};

use crate::{
    bytes::Bytes,
    colour::{bold, faint},
    names::short,
    text::{clean, percent},
};

/// How sites of one snapshot are printed.
pub(crate) struct Sites<'a> {
    snapshot: &'a Snapshot,
    shown: ShownFrames<'a>,
    n_frames: usize,
}

impl<'a> Sites<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, n_frames: usize) -> Sites<'a> {
        Sites { snapshot, shown: ShownFrames::of(snapshot), n_frames }
    }

    /// The frames worth a line, innermost first.
    fn frames(&self, stack: StackIndex) -> Vec<&'a Frame> {
        self.shown.telling(stack).map(|frame| self.snapshot.stacks.frame(frame)).collect()
    }

    /// The innermost call, or what is known instead.
    pub(crate) fn first(&self, site: &Site) -> String {
        match site {
            Site::Stack(stack) => {
                let frames = self.frames(*stack);
                frames.first().map_or_else(|| "(hidden frames)".to_owned(), |frame| call(frame))
            }
            Site::Size(bytes) => format!("(no stack) {} each", Bytes(*bytes)),
            Site::Function(name, file) => match &**file {
                "??" | "" => short(name),
                file => format!("{} ({})", short(name), clean(base_name(file))),
            },
            Site::File(file) => clean(file).into_owned(),
            Site::Scope(scope) if scope.is_empty() => "(no scope)".to_owned(),
            Site::Scope(scope) => clean(scope).into_owned(),
            Site::NoStack => "(no stack)".to_owned(),
            Site::Before => "(before the history)".to_owned(),
        }
    }

    /// The callers of the innermost call, in one line; `None` if there are none to tell.
    pub(crate) fn callers(&self, site: &Site) -> Option<String> {
        let Site::Stack(stack) = site else { return None };
        let frames = self.frames(*stack);
        let callers = frames.get(1..).unwrap_or_default();
        let told: Vec<String> =
            callers.iter().take(self.n_frames.saturating_sub(1)).map(|frame| call(frame)).collect();
        let n_more = callers.len() - told.len();
        let more = if n_more > 0 && !told.is_empty() { format!(" ← {n_more} more") } else { String::new() };
        (!told.is_empty()).then(|| format!("← {}{more}", told.join(" ← ")))
    }

    /// One row for a site: figures, the innermost call, and its callers below.
    pub(crate) fn row(&self, figures: &str, site: &Site) -> String {
        let (bold, faint) = (bold(), faint());
        let mut row = format!("{figures}  {bold}{}{bold:#}", self.first(site));
        if let Some(callers) = self.callers(site) {
            row += &format!("\n{:width$}  {faint}{callers}{faint:#}", "", width = figures.chars().count());
        }
        row
    }

    /// What the columns of [`Sites::group`] are.
    pub(crate) fn heading() -> String {
        let faint = faint();
        format!("{faint}{:>7} {:>11} {:>6}  allocated by ← called by{faint:#}", "share", "bytes", "blocks")
    }

    /// Share, bytes and count of a group, and where it comes from.
    pub(crate) fn group(&self, group: &Group, of_bytes: u64) -> String {
        let figures = format!(
            "{} {:>11} {:>6}",
            percent(group.bytes, of_bytes),
            Bytes(group.bytes).to_string(),
            group.n_blocks
        );
        self.row(&figures, &group.site)
    }

    /// A site for machines: every shown frame, innermost first.
    pub(crate) fn json(&self, site: &Site) -> Value {
        match site {
            Site::Stack(stack) => json!({"stack": frames(&self.shown, *stack)}),
            Site::Size(bytes) => json!({"stack": null, "size_bytes": bytes}),
            Site::Function(name, file) => json!({"function": &**name, "filename": &**file}),
            Site::File(file) => json!({"filename": &**file}),
            Site::Scope(scope) => json!({"scope": scope}),
            Site::NoStack => json!({"function": null}),
            Site::Before => json!({"scope": null}),
        }
    }

    pub(crate) fn group_json(&self, group: &Group) -> Value {
        let mut object =
            json!({"bytes": group.bytes, "blocks": group.n_blocks, "total_bytes": group.total_bytes});
        if let (Value::Object(into), Value::Object(site)) = (&mut object, self.json(&group.site)) {
            into.extend(site);
        }
        object
    }
}

fn frames(shown: &ShownFrames<'_>, stack: StackIndex) -> Vec<Value> {
    shown
        .frames(stack)
        .map(|frame| json!({"name": &*frame.name, "filename": &*frame.filename, "line": frame.line}))
        .collect()
}

/// A call as a text: function, file and line.
pub(crate) fn call(frame: &Frame) -> String {
    let file = clean(base_name(&frame.filename));
    match (&*frame.filename, frame.line) {
        ("??" | "", _) => short(&frame.name),
        (_, 0) => format!("{} ({file})", short(&frame.name)),
        (_, line) => format!("{} ({file}:{line})", short(&frame.name)),
    }
}
