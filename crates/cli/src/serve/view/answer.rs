//! Answers in words: the summary of a device, each part with its place in the page, and what commands print.

#![forbid(unsafe_code)]

use memreel_snapshot::history::Absence;
use serde_json::{Value, json};

use super::{device::Device, refusal::Refusal, request::Request};
use crate::{
    findings::{
        summary::{NextSteps, Summary},
        summary_part::SummaryPart,
    },
    input::NamedSnapshot,
    question::answered,
    row::Maker,
    text::Page,
};

/// The questions about one device, each with the words of its command.
const QUESTIONS: [(&str, &[&str]); 3] =
    [("oom", &["oom"]), ("leaks", &["leaks"]), ("settings", &["replay", "--sweep"])];

/// The files of the page by their numbers, and what makes the program whose commands answer about them.
pub(super) struct PageFiles<'f> {
    pub(super) named: &'f dyn Fn(usize) -> Result<NamedSnapshot, Refusal>,
    pub(super) make: Maker,
}

/// Returns the summary of a device, or what the command of a question prints.
pub(super) fn answer(
    request: &Request,
    device: &Device<'_>,
    asked: &PageFiles<'_>,
) -> Result<Value, Refusal> {
    let Some(question) = request.text("question") else { return summary(device) };
    if question == "fit" {
        return fit(request, asked);
    }
    let unknown =
        || Refusal::usage(format!("{question:?} is not a question; use oom, leaks, settings or fit"));
    let (_, command) = QUESTIONS.iter().find(|(name, _)| *name == question).ok_or_else(unknown)?;
    let of = (asked.named)(request.number("file")?.unwrap_or(0))?;
    let device = format!("--device={}", device.id);
    let words = [command, &[&*device, "--", &of.name][..]].concat();
    asked.print(&words, vec![of.clone()])
}

/// Returns the sentences about a device, and the commands that show more.
fn summary(device: &Device<'_>) -> Result<Value, Refusal> {
    let summary = Summary::new(&device.history);
    let parts = summary.parts(Absence::of_file(device.history.snapshot()), &Page::in_memory(None));
    let parts = parts.map_err(|error| Refusal::missing(error.to_string()))?;
    let mut next = NextSteps::default();
    next.add(&summary);
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let part =
        |part: &SummaryPart| json!({ "topic": part.topic, "lines": lines(&part.text), "place": part.place });
    let command = |(command, what)| json!({ "command": command, "what": what });
    Ok(json!({
        "parts": parts.iter().map(part).collect::<Vec<_>>(),
        "next": next.commands().map(command).collect::<Vec<_>>(),
    }))
}

/// Returns the prediction from several files, whose sizes are given as `0=4,1=8`: those of the first and the second file.
fn fit(request: &Request, asked: &PageFiles<'_>) -> Result<Value, Refusal> {
    let mut words = vec!["fit".to_owned()];
    for option in ["limit", "at"] {
        words.extend(request.text(option).map(|value| format!("--{option}={value}")));
    }
    let mut named = Vec::new();
    for pair in request.text("sizes").unwrap_or_default().split(',') {
        let wrong = || Refusal::usage("give each file its size, such as the batch size");
        let (file, size) = pair.split_once('=').ok_or_else(wrong)?;
        let of = (asked.named)(file.parse().map_err(|_| wrong())?)?;
        words.extend(["--size".to_owned(), size.to_owned(), of.name.clone()]);
        named.push(of);
    }
    asked.print(&words.iter().map(String::as_str).collect::<Vec<_>>(), named)
}

impl PageFiles<'_> {
    /// Returns what a command prints about files.
    fn print(&self, words: &[&str], named: Vec<NamedSnapshot>) -> Result<Value, Refusal> {
        let answer = answered(self.make, named, words, None);
        let answer = answer.map_err(|refusal| Refusal::usage(refusal.message))?;
        Ok(json!({ "lines": answer.text.lines().collect::<Vec<_>>(), "status": answer.status }))
    }
}
