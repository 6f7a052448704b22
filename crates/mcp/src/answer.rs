//! The answer to a call: the program's output, cleaned and cut, and notes about it.

#![forbid(unsafe_code)]

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;

use crate::{child::Ended, clean::clean, json::objects, limits::Limits, output::Output, tool::Question};

/// Returns the answer for a question that ended.
pub(crate) fn answer(question: &Question, ended: &Ended, limits: &Limits) -> CallToolResult {
    let Some(status) = ended.status else {
        let seconds = limits.timeout.as_secs_f64();
        return refusal(&format!(
            "no answer within {seconds} s; ask about one device or a smaller file, or start the server with a longer \
             --timeout"
        ));
    };
    let text = String::from_utf8_lossy(&ended.out.kept);
    let part = if question.is_json { json_part(&text, limits) } else { text_part(&text, limits) };
    let (meaning, is_error) = meaning(status, ended.out.is_endless, limits);
    let message = String::from_utf8_lossy(&ended.err.kept);
    let left_out = left_out(question, &part, &ended.out);
    let notes = [clean(message.trim()).into_owned(), meaning, left_out];
    let notes: Vec<String> = notes.into_iter().filter(|note| !note.is_empty()).collect();
    // The answer comes from a file, and the notes from memreel.
    let mut content = Vec::new();
    if !part.text.is_empty() {
        content.push(ContentBlock::text(part.text));
    }
    if !notes.is_empty() || content.is_empty() {
        let nothing = if notes.is_empty() { "nothing was printed" } else { "" };
        content.push(ContentBlock::text(format!("{nothing}{}", notes.join("\n"))));
    }
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    if let Some(objects) = part.objects
        && !is_error
    {
        result.structured_content = Some(json!({ "status": status.code(), "objects": objects }));
    }
    result
}

/// Returns the answer for a question that was not asked.
pub(crate) fn refusal(why: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(clean(why).into_owned())])
}

/// The part of an output that an answer has.
struct Part {
    text: String,
    objects: Option<Vec<serde_json::Value>>,
    n_lines: u64,
    /// Whether the only line in it is incomplete.
    is_cut_line: bool,
}

fn text_part(text: &str, limits: &Limits) -> Part {
    let clean = clean(text);
    let end = clean.char_indices().nth(limits.max_answer_chars).map_or(clean.len(), |(at, _)| at);
    let mut shown = &clean[..end];
    let is_cut = end < clean.len();
    let last = shown.rfind('\n').filter(|_| is_cut);
    if let Some(last) = last {
        shown = &shown[..=last];
    }
    let n_lines = shown.lines().count() as u64;
    Part { text: shown.to_owned(), objects: None, n_lines, is_cut_line: is_cut && last.is_none() }
}

fn json_part(text: &str, limits: &Limits) -> Part {
    let read = objects(text, limits.max_answer_chars);
    if read.objects.is_empty() {
        return text_part(text, limits);
    }
    let n_lines = read.objects.len() as u64;
    Part { text: read.text, objects: Some(read.objects), n_lines, is_cut_line: false }
}

/// Returns the meaning of an exit status, if the answer does not show it, and whether it is an error.
fn meaning(status: ExitStatus, is_endless: bool, limits: &Limits) -> (String, bool) {
    let meaning = match status.code() {
        // The program finds a closed pipe if its answer was not read to the end.
        _ if is_endless => return (String::new(), false),
        Some(0) => return (String::new(), false),
        Some(1) => return ("status 1: the data has a finding".to_owned(), false),
        Some(4) => return ("status 4: a limit is exceeded".to_owned(), false),
        Some(2) => "status 2: the question is invalid".to_owned(),
        Some(3) => "status 3: a file cannot be read or is not a snapshot".to_owned(),
        Some(other) => format!("status {other}: memreel failed; this is a bug in memreel"),
        None => {
            let signal = status.signal().unwrap_or_default();
            let megabytes = limits.max_memory_bytes >> 20;
            format!(
                "memreel was killed by signal {signal}; the question may need more than {megabytes} MiB of \
                 memory (the server's --max-memory)"
            )
        }
    };
    (meaning, true)
}

/// Returns a note about the lines that an answer does not have.
fn left_out(question: &Question, part: &Part, out: &Output) -> String {
    let n_before = question.n_skipped.min(out.n_lines);
    let end = n_before + part.n_lines;
    if end >= out.n_lines && !out.is_endless && !part.is_cut_line {
        let is_behind = n_before > 0 && part.n_lines == 0;
        return if is_behind { format!("the answer has only {} lines", out.n_lines) } else { String::new() };
    }
    let n_lines = format!("{}{}", if out.is_endless { "more than " } else { "" }, out.n_lines);
    let shown = if part.is_cut_line {
        format!("the start of line {end} of {n_lines} is shown")
    } else {
        format!("lines {} to {end} of {n_lines} are shown", n_before + 1)
    };
    let next = if end < out.n_lines { format!("; skip_lines {end} shows the next") } else { String::new() };
    let narrower = match &question.narrower[..] {
        [] => String::new(),
        names => format!("; {} can make the answer shorter", names.join(", ")),
    };
    format!("{shown}{next}{narrower}")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const LIMITS: Limits = Limits {
        timeout: std::time::Duration::from_secs(60),
        max_memory_bytes: 1 << 30,
        max_answer_chars: 12,
    };

    /// Returns the texts of an answer, whether it is an error, and its objects.
    fn answered(
        code: i32,
        printed: &str,
        message: &str,
        is_json: bool,
        n_skipped: u64,
    ) -> (Vec<String>, Value) {
        let output = |text: &str| Output {
            kept: text.lines().map(|line| format!("{line}\n")).collect::<String>().into_bytes(),
            n_lines: text.lines().count() as u64 + n_skipped,
            is_endless: false,
        };
        let question = Question { words: Vec::new(), is_json, n_skipped, narrower: vec!["n".to_owned()] };
        let status = Some(ExitStatus::from_raw(code << 8));
        let answer =
            answer(&question, &Ended { status, out: output(printed), err: output(message) }, &LIMITS);
        let answer = serde_json::to_value(answer).unwrap();
        let texts = answer["content"].as_array().unwrap().iter();
        (texts.map(|block| block["text"].as_str().unwrap().to_owned()).collect(), answer)
    }

    #[test]
    fn findings_are_answers_and_refusals_are_errors() {
        let (texts, answer) = answered(0, "fine", "", false, 0);
        assert_eq!((texts, &answer["isError"]), (vec!["fine\n".to_owned()], &Value::Bool(false)));
        let (texts, answer) = answered(4, "over", "", false, 0);
        assert_eq!(
            (&texts[1][..], &answer["isError"]),
            ("status 4: a limit is exceeded", &Value::Bool(false))
        );
        let (texts, answer) = answered(3, "", "memreel: bad\u{1b}[2J", false, 0);
        assert_eq!(answer["isError"], true);
        assert_eq!(texts, ["memreel: bad\\u{1b}[2J\nstatus 3: a file cannot be read or is not a snapshot"]);
        assert_eq!(answered(101, "", "", false, 0).1["isError"], true);
        assert_eq!(answered(0, "", "", false, 0).0, ["nothing was printed"]);
    }

    #[test]
    fn a_long_answer_ends_with_a_line() {
        let (texts, _) = answered(0, "one\ntwo\nthree and more\nfour", "", false, 0);
        assert_eq!(texts[0], "one\ntwo\n");
        assert_eq!(
            texts[1],
            "lines 1 to 2 of 4 are shown; skip_lines 2 shows the next; n can make the answer shorter"
        );
        let (texts, _) = answered(0, "three and more\nfour", "", false, 2);
        assert_eq!(texts[0], "three and mo");
        assert!(texts[1].starts_with("the start of line 3 of 4 is shown; skip_lines 3 "), "{}", texts[1]);
        let (texts, _) = answered(0, "four", "", false, 3);
        assert_eq!(texts, ["four\n"]);
        let (texts, _) = answered(0, "", "", false, 4);
        assert_eq!(texts, ["the answer has only 4 lines"]);
        // Cleaning makes a text longer, and not longer than the limit.
        let (texts, _) = answered(0, &"\u{202e}".repeat(12), "", false, 0);
        assert_eq!(texts[0].chars().count(), 12);
    }

    #[test]
    fn objects_are_whole() {
        let (texts, answer) = answered(1, "{\"a\": 1}\n{\"b\": 2}", "", true, 0);
        assert_eq!(texts[0], "{\"a\":1}\n");
        assert_eq!(answer["structuredContent"], json!({"status": 1, "objects": [{"a": 1}]}));
        assert!(texts[1].contains("finding") && texts[1].contains("lines 1 to 1 of 2"), "{}", texts[1]);
        let (texts, answer) = answered(0, "{\"abcdefgh\": 123456}", "", true, 0);
        assert_eq!(texts[0], "{\"abcdefgh\":");
        assert_eq!(answer["structuredContent"], Value::Null);
    }
}
