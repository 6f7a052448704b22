//! Logs that are hard to read: colours, prefixes, mixed ranks, cut and repeated messages, later versions, no message.

use memreel_snapshot::{analysis::oom::LoggedOom, log::Messages};

use super::{
    GIB, MIB, last, read,
    torch::{Figures, message},
};

fn figures(device: u16) -> Figures {
    Figures {
        device,
        asked: GIB + u64::from(device) * MIB,
        capacity: 80 * GIB,
        free: GIB,
        process: Some(79 * GIB),
        allocated: 78 * GIB,
        unallocated: 200 * MIB,
        ..Figures::default()
    }
}

#[test]
fn prefixes_and_colours_change_no_figure() {
    let plain = last(&message(6, &figures(0)));
    for (before, rank) in [
        ("[rank3]: ", Some("rank 3")),
        ("\x1b[31m[rank3]:\x1b[0m ", Some("rank 3")),
        ("2026-11-30T10:00:00.123Z [rank3]: ERROR ", Some("rank 3")),
        ("(Worker pid=12) ", Some("Worker pid=12")),
        ("10:00:00 [INFO] ", None),
        ("ERROR 02-10 18:06:30 engine.py:139] OutOfMemoryError('", None),
    ] {
        let found = last(&format!(
            "{before}Traceback (most recent call last):\n{before}{}\n",
            message(6, &figures(0))
        ));
        assert_eq!((found.line, found.rank.as_deref()), (2, rank), "{before:?}");
        let mut found = found;
        (found.rank, found.line, found.releases) = (None, 1, plain.releases);
        assert_eq!(found, plain, "{before:?}");
    }
}

#[test]
fn a_message_that_a_terminal_wrapped_is_one() {
    let whole = message(6, &figures(0));
    for width in [20, 41, 80] {
        let mut lines = vec![String::new()];
        for word in whole.split(' ').filter(|word| !word.is_empty()) {
            if lines.last().unwrap().len() + word.len() > width {
                lines.push(String::new());
            }
            let line = lines.last_mut().unwrap();
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
        let found = last(&lines.iter().map(|line| format!("[rank1]: {line}\n")).collect::<String>());
        assert_eq!(found.unallocated_bytes, Some(200 * MIB), "{width}: {found:?}");
        assert!(!found.is_cut && found.unread.is_empty(), "{width}: {found:?}");
    }
}

#[test]
fn mixed_ranks_are_kept_apart() {
    let mut log = String::new();
    for n in 0..3 {
        for rank in [2, 0, 1] {
            log += &format!("[rank{rank}]: step {n}\n[rank{rank}]: {}\n", message(6, &figures(rank)));
        }
    }
    // The halves of two messages in turn.
    let (first, second) = (message(6, &figures(5)), message(6, &figures(6)));
    let at = first.find("of which").unwrap();
    log += &format!("[rank5]: {}\n[rank6]: {}\n", &first[..at], &second[..at]);
    log += &format!("[rank5]: {}\n[rank6]: {}\n", &first[at..], &second[at..]);
    let messages = read(&log);
    let ranks: Vec<_> = messages.ranks.iter().map(|rank| rank.last.rank.clone().unwrap()).collect();
    assert_eq!(ranks, ["rank 2", "rank 0", "rank 1", "rank 5", "rank 6"]);
    assert_eq!((messages.n_messages, messages.n_repeated, messages.n_lines), (11, 6, 22));
    for rank in &messages.ranks {
        let device = rank.last.device.unwrap();
        assert_eq!(rank.last.rank.as_deref(), Some(&*format!("rank {device}")));
        let off = rank.last.requested_bytes.abs_diff(figures(device).asked);
        assert!(off <= rank.last.rounding_bytes, "{rank:?}");
        assert_eq!((rank.n_messages, rank.last.unallocated_bytes), (1, Some(200 * MIB)));
    }
    assert_eq!(messages.of_device(1).unwrap().rank.as_deref(), Some("rank 1"));
}

#[test]
fn repeated_messages_are_counted_and_the_last_one_counts() {
    let (small, large) = (message(6, &figures(0)), message(6, &Figures { asked: 4 * GIB, ..figures(0) }));
    let log = format!("{small}\nDuring handling of the above exception\n{small}\n{large}\n{large} {large}\n");
    let messages = read(&log);
    assert_eq!((messages.n_messages, messages.n_repeated), (5, 3));
    assert_eq!(messages.first.map(|first| (first.line, first.requested_bytes)), Some((1, GIB)));
    assert_eq!(messages.last.map(|last| (last.line, last.requested_bytes)), Some((4, 4 * GIB)));
}

#[test]
fn a_message_that_is_cut_has_what_it_has() {
    let whole = message(6, &figures(0));
    let n_before = whole.find(". GPU 0").unwrap();
    let end = whole.find("but unallocated").unwrap() + "but unallocated".len();
    for at in 0..whole.len() {
        let messages = read(&whole[..at]);
        match messages.last {
            None => assert!(at < n_before, "{at}"),
            Some(found) => {
                assert_eq!(found.is_cut, at < end, "{at}");
                let logged = LoggedOom::new(&found);
                assert_eq!(logged.causes().is_empty(), found.unallocated_bytes.is_none(), "{at}: {found:?}");
                assert_eq!(logged.notes().iter().any(|note| note.contains("has no end")), found.is_cut);
            }
        }
    }
    // The next line is not its rest.
    let found = last(&format!("{}\nTraceback (most recent call last):\n 3.00 GiB x\n", &whole[..n_before]));
    assert!(found.is_cut && found.unread.is_empty(), "{found:?}");
}

/// A message without an end has no sure cause, but for other processes that it names.
#[test]
fn a_cut_message_names_other_processes() {
    let others = vec![(4711, 60 * GIB)];
    let whole = message(6, &Figures { asked: 2 * GIB, free: GIB, capacity: 80 * GIB, others, ..figures(0) });
    let causes = |text: &str| {
        let found = last(text);
        let kinds = LoggedOom::new(&found).causes().iter().map(|cause| cause.kind.name()).collect::<Vec<_>>();
        (found.is_cut, kinds)
    };
    let named = whole.find("memory in use").unwrap() + "memory in use".len();
    assert_eq!(causes(&whole[..named]), (true, vec!["occupied"]));
    assert_eq!(causes(&whole[..whole.find("Process 4711").unwrap()]), (true, vec![]));
}

#[test]
fn a_later_version_is_read_as_far_as_it_is_known() {
    let later = message(15, &figures(0)).replace(
        "Of the allocated memory",
        "3.50 GiB is held by the cache of graphs. Of the allocated memory",
    );
    let found = last(&later);
    assert_eq!(found.unread, ["3.50 GiB is held by the cache of graphs"]);
    assert_eq!(found.unallocated_bytes, Some(200 * MIB));
    let notes = LoggedOom::new(&found).notes();
    assert!(
        notes.iter().any(|note| note.contains("unknown to this memreel") && note.contains("3.50 GiB")),
        "{notes:?}"
    );
}

#[test]
fn logs_without_a_message_have_none() {
    for log in [
        "",
        "\n\n",
        "step 1\nstep 2",
        "CUDA out of memory. Tried to allocate X.XX GiB (GPU 0; X.XX GiB total capacity)",
        "f\"CUDA out of memory. Tried to allocate {size}\"",
        "RESOURCE_EXHAUSTED: quota of requests exceeded",
    ] {
        assert_eq!(read(log).last, None, "{log}");
    }
    let bare = read("a\nRuntimeError: CUDA error: out of memory\n");
    assert_eq!((bare.last, bare.n_without_figures, bare.without_figures_line), (None, 1, Some(2)));
}

/// Figures that no device has are no reason to end.
#[test]
fn absurd_figures_are_read() {
    let most = u64::MAX / (1 << 30);
    let log = format!(
        "CUDA out of memory. Tried to allocate {most}.99 GiB. GPU 99999 has a total capacity of 0 bytes of which {most}.00 GiB is \
         free. Process 18446744073709551616 has 1.00 GiB memory in use. Process 1 has {most}.00 GiB memory in use. Of the allocated \
         memory {most}.00 GiB is allocated by PyTorch, with {most}.00 GiB allocated in private pools, and {most}.00 GiB is reserved \
         by PyTorch but unallocated."
    );
    let found = last(&log);
    let logged = LoggedOom::new(&found);
    assert!(!logged.causes().is_empty() && !logged.figures().is_empty() && !logged.notes().is_empty());
}

/// A line of any length, and a log of any number of messages, take bounded memory.
#[test]
fn long_lines_are_read_to_their_first_mebibyte() {
    let text = message(6, &figures(0));
    let long = format!("{}{text}\n{text}\n", "x".repeat(2 << 20));
    let messages = read(&long);
    assert_eq!((messages.n_messages, messages.n_long_lines, messages.n_lines), (1, 1, 2));
    assert_eq!(messages.last.map(|last| last.line), Some(2));
    // A bar of progress rewrites one line.
    let bars = "50%|####   | 1/2\r".repeat(100_000) + &text.replace(". ", ".\r\n");
    let messages = read(&bars);
    assert_eq!((messages.n_messages, messages.n_long_lines), (1, 0));
    assert_eq!(messages.last.unwrap().unallocated_bytes, Some(200 * MIB));
    let many: String = (0..3000).map(|rank| format!("[rank{rank}]: {text}\n")).collect();
    let messages = read(&many);
    assert_eq!((messages.n_messages, messages.ranks.len()), (3000, 1024));
}

/// The pieces in which a log is read make no difference.
#[test]
fn a_log_may_come_in_any_pieces() {
    struct Pieces<'a>(&'a [u8], usize);
    impl std::io::Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let n = self.1.min(self.0.len()).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }
    let log: String =
        (0..4).map(|rank| format!("[rank{rank}]: {}\r\nstep\n", message(11, &figures(rank)))).collect();
    let expected = read(&log);
    assert_eq!((expected.n_messages, expected.n_lines), (4, 8));
    for n in [1, 2, 7, 64] {
        let pieces = std::io::BufReader::with_capacity(n, Pieces(log.as_bytes(), n));
        assert_eq!(Messages::read(pieces, &|_| ()).unwrap(), expected, "{n}");
    }
}

/// PowerShell writes what a program prints in UTF-16.
#[test]
fn a_log_in_utf_16_is_read() {
    let text = format!("é step 1\r\n{}\r\n", message(6, &figures(0)));
    let plain = read(&text);
    let units = || "\u{feff}".encode_utf16().chain(text.encode_utf16());
    let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
    for bytes in [&little, &big] {
        let found = Messages::read(&**bytes, &|_| ()).unwrap();
        assert_eq!(found, plain);
    }
    assert!(plain.last.is_some());
}

#[test]
fn a_message_has_the_calls_of_its_traceback() {
    let traceback = |function: &str, line: u64| {
        format!(
            "Traceback (most recent call last):\n  File \"/home/me/train.py\", line 40, in <module>\n    main()\n  \
             File \"/home/me/net.py\", line {line}, in {function}\n    return x @ y\n           ~~^~~\n"
        )
    };
    let calls = |log: &str| {
        let calls = last(log).calls;
        calls.iter().map(|call| format!("{}:{}:{}", call.name, call.filename, call.line)).collect::<Vec<_>>()
    };
    let text = message(6, &figures(0));
    let expected = ["forward:/home/me/net.py:7", "<module>:/home/me/train.py:40"];
    assert_eq!(calls(&format!("{}{text}\n", traceback("forward", 7))), expected);
    // Another error before it, and its own without one.
    let other = format!("{}ValueError: x\n", traceback("load", 3));
    assert_eq!(calls(&format!("{other}{}{text}\n", traceback("forward", 7))), expected);
    assert!(calls(&format!("{other}{}{text}\n", "step\n".repeat(20))).is_empty());
    // The lines of two ranks in turn.
    let of = |rank: u16, function: &str| {
        let text =
            format!("{}torch.OutOfMemoryError: {}", traceback(function, 7), message(6, &figures(rank)));
        text.lines().map(|line| format!("[rank{rank}]: {line}\n")).collect::<Vec<_>>()
    };
    let mixed: String =
        of(0, "forward").into_iter().zip(of(1, "backward")).flat_map(|(one, other)| [one, other]).collect();
    let innermost = |rank: usize| read(&mixed).ranks[rank].last.calls[0].name.clone();
    assert_eq!([innermost(0), innermost(1)], ["forward", "backward"]);
    // What is printed again is the same failure.
    let twice = read(&format!("{}{text}\n{}{text}\n", traceback("forward", 7), traceback("main", 9)));
    assert_eq!((twice.n_repeated, last(&text).calls.len()), (1, 0));
}

/// A message whose words are others has the figures that the words beside them tell.
#[test]
fn a_form_to_come_still_has_its_figures() {
    for text in [
        "CUDA out of memory: requested 2.00 GiB on device 0. The device has 80.00 GiB in total, 1.00 GiB free. This process \
         uses 70.00 GiB, 60.00 GiB allocated and 9.50 GiB cached.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (80.00 GiB total capacity; 1.00 GiB of it free; \
         allocated 60.00 GiB; reserved 69.50 GiB)",
    ] {
        let found = last(text);
        let figures = (found.requested_bytes, found.capacity_bytes, found.free_bytes);
        assert_eq!(figures, (2 * GIB, Some(80 * GIB), Some(GIB)), "{text}");
        assert_eq!(found.allocated_bytes, Some(60 * GIB), "{text}");
        assert_eq!(found.unallocated_bytes, Some(19 * GIB / 2), "{text}");
        let logged = LoggedOom::new(&found);
        assert_eq!(logged.causes()[0].kind.name(), "fragmented", "{text}");
        assert!(logged.notes().iter().any(|note| note.contains("this memreel")), "{text}");
    }
    // A text that only speaks of memory has no request.
    assert_eq!(read("CUDA out of memory happens often; the card has 8.00 GiB in total").last, None);
}

/// With a reserve of expandable segments, PyTorch says that the request is larger than a segment may become.
#[test]
fn a_request_beyond_the_reserve_is_named() {
    let text = message(
        15,
        &Figures { free: 60 * GIB, process: Some(20 * GIB), allocated: 19 * GIB, ..figures(0) },
    ) + " The request is larger than the 1.00 GiB expandable-segment reserve of this stream: raise expandable_segments_reserve.";
    let found = last(&text);
    let causes = LoggedOom::new(&found).causes();
    let advice = causes[0].advice.clone().unwrap();
    assert!(found.is_beyond_reserve && causes[0].kind.name() == "limited", "{causes:?}");
    assert!(
        advice.contains("expandable_segments_reserve") && !advice.contains("another process"),
        "{advice}"
    );
    assert_eq!(LoggedOom::new(&found).releases().as_deref(), Some("PyTorch 2.15 or later"));
}

/// Returns the names of the causes of a message with these figures, and the text of the first.
fn explained(figures: &Figures) -> (Vec<&'static str>, String) {
    let found = last(&message(10, figures));
    let causes = LoggedOom::new(&found).causes();
    let text = format!("{}; {}", causes[0].finding, causes[0].advice.as_deref().unwrap_or(""));
    (causes.iter().map(|cause| cause.kind.name()).collect(), text)
}

/// A device that had more free than was asked was not taken by others.
#[test]
fn a_device_with_room_is_limited() {
    let others = vec![(77, 19 * GIB)];
    let with_room = Figures {
        asked: 2 * GIB,
        free: 40 * GIB,
        capacity: 80 * GIB,
        others,
        process: Some(20 * GIB),
        allocated: 18 * GIB,
        unallocated: GIB,
        ..figures(0)
    };
    let (kinds, text) = explained(&with_room);
    assert_eq!(kinds, ["limited"]);
    assert!(text.contains("a container") && !text.contains("end these processes"), "{text}");
}

#[test]
fn more_than_the_device_is_a_wrong_size() {
    let huge = Figures { asked: 130_206 * GIB, ..figures(0) };
    let (kinds, text) = explained(&huge);
    assert_eq!(kinds, ["full"]);
    assert!(text.contains("a shape or size is wrong"), "{text}");
}

/// Private pools serve no other request.
#[test]
fn what_lacks_is_counted_without_private_pools() {
    let with_pools = Figures {
        asked: 15 * GIB,
        free: 6 * GIB,
        capacity: 140 * GIB,
        process: Some(134 * GIB),
        allocated: 130 * GIB,
        private: 2 * GIB,
        unallocated: 3 * GIB,
        ..figures(0)
    };
    let (_, text) = explained(&with_pools);
    assert!(text.contains("6.00 GiB more than is free outside of private pools"), "{text}");
}

/// What is in no block decides where the message lost what the device has free.
#[test]
fn a_message_that_lost_a_figure_has_its_cause() {
    let broken = message(10, &Figures { asked: GIB, unallocated: 20 * GIB, ..figures(0) });
    let (before, after) = broken.split_once(" of which ").unwrap();
    let broken = format!("{before} of which 120.00 Mi\nB {}", &after[after.find("is free").unwrap()..]);
    let found = last(&broken);
    assert_eq!(found.free_bytes, None);
    assert_eq!(LoggedOom::new(&found).causes()[0].kind.name(), "fragmented", "{found:?}");
}
