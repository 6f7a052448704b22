//! Cases about the records of a snapshot: traces, segments, blocks, frames and annotations.

// Cases of one kind are a few lines each, and beside each other they are easier to compare than in many files.
#![forbid(unsafe_code)]

use super::sink::Sink;

/// Where addresses of the cases begin.
pub(super) const BASE: i128 = 0x7f00_0000_0000;

pub(super) const MIB: i128 = 1 << 20;

/// Writes the top dictionary: the two lists that every snapshot has, and more keys.
pub(super) fn file(
    sink: &mut Sink<'_>,
    segments: impl FnOnce(&mut Sink<'_>),
    traces: impl FnOnce(&mut Sink<'_>),
    more: impl FnOnce(&mut Sink<'_>),
) {
    sink.dict();
    sink.key("segments");
    sink.list();
    segments(sink);
    sink.end();
    sink.key("device_traces");
    sink.list();
    traces(sink);
    sink.end();
    more(sink);
    sink.end();
}

pub(super) fn nothing(_: &mut Sink<'_>) {}

/// A file of one trace.
pub(super) fn trace(sink: &mut Sink<'_>, entries: impl FnOnce(&mut Sink<'_>)) {
    trace_and(sink, entries, nothing);
}

pub(super) fn trace_and(
    sink: &mut Sink<'_>,
    entries: impl FnOnce(&mut Sink<'_>),
    more: impl FnOnce(&mut Sink<'_>),
) {
    let traces = |sink: &mut Sink<'_>| {
        sink.list();
        entries(sink);
        sink.end();
    };
    file(sink, nothing, traces, more);
}

/// An entry of a trace, with more keys.
fn entry_with(
    sink: &mut Sink<'_>,
    action: &str,
    address: i128,
    time: usize,
    more: impl FnOnce(&mut Sink<'_>),
) {
    sized_entry(sink, action, [address, 512], time, more);
}

/// An entry of an address and a size, with more keys.
pub(super) fn sized_entry(
    sink: &mut Sink<'_>,
    action: &str,
    [address, size]: [i128; 2],
    time: usize,
    more: impl FnOnce(&mut Sink<'_>),
) {
    sink.dict();
    sink.text_field("action", action);
    sink.int_field("addr", address);
    sink.int_field("size", size);
    sink.int_field("stream", 0);
    sink.int_field("time_us", time as i128);
    more(sink);
    sink.end();
}

fn entry(sink: &mut Sink<'_>, action: &str, address: i128, time: usize) {
    entry_with(sink, action, address, time, nothing);
}

/// A segment with more keys, `blocks` among them.
pub(super) fn segment_with(
    sink: &mut Sink<'_>,
    address: i128,
    size: i128,
    device: i128,
    more: impl FnOnce(&mut Sink<'_>),
) {
    sink.dict();
    sink.int_field("device", device);
    sink.int_field("address", address);
    sink.int_field("total_size", size);
    for key in ["allocated_size", "active_size", "requested_size", "stream"] {
        sink.int_field(key, 0);
    }
    sink.text_field("segment_type", "large");
    more(sink);
    sink.end();
}

fn segment(sink: &mut Sink<'_>, address: i128, size: i128, device: i128) {
    segment_with(sink, address, size, device, |sink| {
        sink.key("blocks");
        sink.list();
        sink.end();
    });
}

fn block_with(sink: &mut Sink<'_>, address: i128, size: i128, more: impl FnOnce(&mut Sink<'_>)) {
    sink.dict();
    sink.int_field("address", address);
    sink.int_field("size", size);
    sink.int_field("requested_size", size - 1);
    sink.text_field("state", "active_allocated");
    more(sink);
    sink.end();
}

fn frame_with(sink: &mut Sink<'_>, name: &str, line: usize, more: impl FnOnce(&mut Sink<'_>)) {
    frame_in(sink, "/home/user/train.py", (name, line), more);
}

/// A frame of a function and a line in a file, with more keys.
pub(super) fn frame_in(
    sink: &mut Sink<'_>,
    path: &str,
    (name, line): (&str, usize),
    more: impl FnOnce(&mut Sink<'_>),
) {
    sink.dict();
    sink.key("name");
    sink.text(name);
    sink.text_field("filename", path);
    sink.int_field("line", line as i128);
    more(sink);
    sink.end();
}

/// The key `frames` with these frames.
pub(super) fn frames(sink: &mut Sink<'_>, write: impl FnOnce(&mut Sink<'_>)) {
    sink.key("frames");
    sink.list();
    write(sink);
    sink.end();
}

/// A beginning or an end of an annotated scope.
pub(super) fn scope(sink: &mut Sink<'_>, stage: &str, name: &str, device: i128, time: usize) {
    sink.dict();
    sink.text_field("stage", stage);
    sink.text_field("name", name);
    sink.int_field("device", device);
    sink.int_field("time_us", time as i128);
    sink.end();
}

/// A file with an event in each of some microseconds, and these annotations.
pub(super) fn annotated(sink: &mut Sink<'_>, annotations: impl FnOnce(&mut Sink<'_>)) {
    let entries =
        |sink: &mut Sink<'_>| (0..50).for_each(|at| entry(sink, "alloc", BASE + 512 * at as i128, 10 * at));
    trace_and(sink, entries, |sink| {
        sink.key("external_annotations");
        sink.list();
        annotations(sink);
        sink.end();
    });
}

pub(super) fn one_segment_on(sink: &mut Sink<'_>, device: i128) {
    file(sink, |sink| segment(sink, BASE, 2 * MIB, device), |_| {}, |_| {});
}

pub(super) fn far_devices(sink: &mut Sink<'_>, n: usize) {
    file(
        sink,
        |sink| (0..n).for_each(|at| segment(sink, BASE + at as i128 * 2 * MIB, 2 * MIB, (at as i128) << 24)),
        |_| {},
        |_| {},
    );
}

/// Devices of one segment and one event each, and ten frames an event.
pub(super) fn devices(sink: &mut Sink<'_>, n: usize) {
    let traces = |sink: &mut Sink<'_>| {
        for at in 0..n {
            sink.list();
            entry_with(sink, "alloc", BASE + at as i128 * 2 * MIB, at, |sink| {
                frames(sink, |sink| {
                    (0..10).for_each(|line| {
                        frame_with(sink, &format!("function_number_{at}_{line}"), line, nothing)
                    });
                });
            });
            sink.end();
        }
    };
    let segments = |sink: &mut Sink<'_>| {
        (0..n).for_each(|at| segment(sink, BASE + at as i128 * 2 * MIB, 2 * MIB, at as i128));
    };
    file(sink, segments, traces, nothing);
}

pub(super) fn devices_of_segments(sink: &mut Sink<'_>, n: usize) {
    let segments = |sink: &mut Sink<'_>| {
        (0..n).for_each(|at| segment(sink, BASE + at as i128 * 2 * MIB, 2 * MIB, at as i128));
    };
    file(sink, segments, nothing, nothing);
}

pub(super) fn devices_of_scopes(sink: &mut Sink<'_>, n: usize) {
    annotated(sink, |sink| (0..n).for_each(|at| scope(sink, "START", "s", at as i128, at)));
}

/// Devices of one event each, with settings of their own.
pub(super) fn devices_of_settings(sink: &mut Sink<'_>, n: usize) {
    let traces = |sink: &mut Sink<'_>| {
        for at in 0..n {
            sink.list();
            entry(sink, "alloc", BASE, at);
            sink.end();
        }
    };
    file(sink, nothing, traces, |sink| {
        sink.key("allocator_settings");
        sink.dict();
        sink.key("memreel_devices");
        sink.dict();
        for at in (0..n).rev() {
            sink.rare_key(&at.to_string());
            sink.dict();
            sink.int_field("trace_alloc_lost_entries", at as i128);
            sink.end();
        }
        sink.end();
        sink.end();
    });
}

pub(super) fn empty_traces(sink: &mut Sink<'_>, n: usize) {
    let traces = |sink: &mut Sink<'_>| {
        for _ in 0..n {
            sink.list();
            sink.end();
        }
    };
    let segments = |sink: &mut Sink<'_>| {
        (0..n / 100).for_each(|at| segment(sink, BASE + at as i128 * 2 * MIB, 2 * MIB, at as i128));
    };
    file(sink, segments, traces, nothing);
}

pub(super) fn traces_of_one(sink: &mut Sink<'_>, n: usize) {
    let traces = |sink: &mut Sink<'_>| {
        for at in 0..n {
            sink.list();
            entry(sink, "alloc", BASE, at);
            sink.end();
        }
    };
    file(sink, nothing, traces, nothing);
}

/// Segments that claim 20 TiB, which no device has.
pub(super) fn pages(sink: &mut Sink<'_>, n: usize) {
    let segments = |sink: &mut Sink<'_>| {
        (0..n).for_each(|at| segment(sink, (at as i128 % (1 << 17)) << 45, 20 << 40, 0));
    };
    file(sink, segments, nothing, nothing);
}

/// Requests for nearly all addresses that there are.
pub(super) fn sizes(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            sink.dict();
            sink.text_field("action", if at % 2 == 0 { "alloc" } else { "segment_alloc" });
            sink.int_field("addr", (at as i128) << 30);
            sink.int_field("size", i64::MAX as i128 - at as i128);
            sink.int_field("time_us", i64::MAX as i128 - at as i128);
            sink.end();
        }
    });
}

/// Addresses with equal hashes in hash tables without a seed (`FxHash` of rustc-hash 2): they agree in the bits that
/// choose the bucket and in the seven of the tag.
fn colliding(n: usize) -> impl Iterator<Item = i128> {
    /// The inverse of rustc-hash's multiplier, modulo 2^64.
    const INVERSE: u64 = {
        let multiplier = 0xf135_7aea_2e62_a9c5_u64;
        let (mut inverse, mut bit) = (1_u64, 0);
        // Newton's iteration doubles the number of right bits.
        while bit < 6 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(multiplier.wrapping_mul(inverse)));
            bit += 1;
        }
        inverse
    };
    let address = |low: u64| (low | 0x155 << 40).wrapping_mul(INVERSE);
    let fits = |address: &u64| *address < 1 << 57 && address.is_multiple_of(8);
    (0..1 << 31).map(address).filter(fits).map(i128::from).take(n)
}

pub(super) fn colliding_addresses(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| colliding(n).enumerate().for_each(|(at, address)| entry(sink, "alloc", address, at)));
}

pub(super) fn colliding_segments(sink: &mut Sink<'_>, n: usize) {
    let segments = |sink: &mut Sink<'_>| colliding(n / 2).for_each(|address| segment(sink, address, 512, 0));
    let traces = |sink: &mut Sink<'_>| {
        sink.list();
        colliding(n / 2).enumerate().for_each(|(at, address)| entry(sink, "segment_alloc", address, at));
        sink.end();
    };
    file(sink, segments, traces, nothing);
}

pub(super) fn far_addresses(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            entry(sink, "alloc", i128::from((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1), at);
        }
    });
}

fn with_streams(sink: &mut Sink<'_>, n: usize, stream: fn(usize) -> i128) {
    trace(sink, |sink| {
        for at in 0..n {
            sink.dict();
            sink.text_field("action", ["alloc", "free_requested", "free_completed"][at % 3]);
            sink.int_field("addr", BASE + at as i128 / 3 * 512);
            sink.int_field("size", 512);
            sink.int_field("stream", stream(at / 3));
            sink.int_field("time_us", at as i128);
            sink.end();
        }
    });
}

pub(super) fn streams(sink: &mut Sink<'_>, n: usize) {
    with_streams(sink, n, |at| at as i128);
}

/// Streams that are equal in their low 48 bits.
pub(super) fn colliding_streams(sink: &mut Sink<'_>, n: usize) {
    with_streams(sink, n, |at| i128::from(((at as u64) << 48) as i64));
}

pub(super) fn pools(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            for action in ["alloc", "free_requested", "free_completed"] {
                entry_with(sink, action, BASE, at, |sink| pool(sink, "pool_id", at));
            }
        }
    });
}

fn pool(sink: &mut Sink<'_>, key: &str, number: usize) {
    sink.key(key);
    sink.tuple();
    sink.int(0);
    sink.int(number as i128 + 1);
    sink.end();
}

pub(super) fn pools_of_segments(sink: &mut Sink<'_>, n: usize) {
    let segments = |sink: &mut Sink<'_>| {
        for at in 0..n {
            segment_with(sink, BASE + at as i128 * 2 * MIB, 2 * MIB, 0, |sink| {
                pool(sink, "segment_pool_id", at)
            });
        }
    };
    file(sink, segments, |sink| (sink.list(), sink.end()).1, nothing);
}

/// Where a dictionary with many keys is.
pub(super) enum Place {
    Top,
    Entry,
    Frame,
    Segment,
    Block,
    Annotation,
    Settings,
    Metadata,
}

/// A dictionary with many keys.
pub(super) fn keys(sink: &mut Sink<'_>, n: usize, place: Place) {
    let keys = |sink: &mut Sink<'_>| {
        for at in 0..n {
            sink.rare_key(&format!("key{at:07}"));
            sink.none();
        }
    };
    let dict = |sink: &mut Sink<'_>, key: &str| {
        sink.key(key);
        sink.dict();
        keys(sink);
        sink.end();
    };
    match place {
        Place::Top => file(sink, nothing, nothing, keys),
        Place::Settings => file(sink, nothing, nothing, |sink| dict(sink, "allocator_settings")),
        Place::Entry => trace(sink, |sink| entry_with(sink, "alloc", BASE, 0, keys)),
        Place::Metadata => {
            trace(sink, |sink| entry_with(sink, "alloc", BASE, 0, |sink| dict(sink, "user_metadata")));
        }
        Place::Frame => trace(sink, |sink| {
            entry_with(sink, "alloc", BASE, 0, |sink| frames(sink, |sink| frame_with(sink, "f", 1, keys)));
        }),
        Place::Segment => file(sink, |sink| segment_with(sink, BASE, 2 * MIB, 0, keys), nothing, nothing),
        Place::Block => file(
            sink,
            |sink| one_segment_of(sink, |sink| block_with(sink, BASE, 512, keys)),
            nothing,
            nothing,
        ),
        Place::Annotation => annotated(sink, |sink| {
            sink.dict();
            sink.text_field("name", "s");
            keys(sink);
            sink.end();
        }),
    }
}

/// One segment with these blocks.
fn one_segment_of(sink: &mut Sink<'_>, blocks: impl FnOnce(&mut Sink<'_>)) {
    segment_with(sink, BASE, 1 << 40, 0, |sink| {
        sink.key("blocks");
        sink.list();
        blocks(sink);
        sink.end();
    });
}

/// One key of the top dictionary, given again and again.
pub(super) fn repeated_key(sink: &mut Sink<'_>, n: usize) {
    file(sink, nothing, nothing, |sink| {
        for at in 0..n {
            sink.key("x");
            sink.int(at as i128);
        }
    });
}

/// Where values differ that begin alike.
pub(super) enum Late {
    Element,
    Level,
    Middle,
    Text,
}

/// Entries with an unknown key whose values differ late, so that each has a shape of its own.
pub(super) fn shapes(sink: &mut Sink<'_>, n: usize, late: Late) {
    let middle = |at: usize| format!("{}{at:09}{}", "a".repeat(32), "b".repeat(32));
    trace(sink, |sink| {
        for at in 0..n {
            entry_with(sink, "alloc", BASE + 512 * at as i128, at, |sink| match late {
                Late::Element => late_element(sink, at),
                Late::Level => {
                    sink.key("x");
                    (0..4).for_each(|_| sink.list());
                    sink.int(at as i128);
                    (0..4).for_each(|_| sink.end());
                }
                Late::Middle => {
                    sink.key("x");
                    sink.text(&middle(at));
                }
                Late::Text => {
                    sink.key("user_metadata");
                    sink.text(&middle(at));
                }
            });
        }
    });
}

/// An unknown key with a list that differs behind the sixteenth element.
fn late_element(sink: &mut Sink<'_>, at: usize) {
    sink.key("x");
    sink.list();
    (0..16).for_each(|_| sink.int(0));
    sink.int(at as i128);
    sink.end();
}

pub(super) fn shapes_of_frames(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            entry_with(sink, "alloc", BASE + 512 * at as i128, at, |sink| {
                frames(sink, |sink| frame_with(sink, "f", at, |sink| late_element(sink, at)));
            });
        }
    });
}

pub(super) fn shapes_of_blocks(sink: &mut Sink<'_>, n: usize) {
    let blocks = |sink: &mut Sink<'_>| {
        (0..n).for_each(|at| block_with(sink, BASE + 512 * at as i128, 512, |sink| late_element(sink, at)));
    };
    file(sink, |sink| one_segment_of(sink, blocks), nothing, nothing);
}

/// Entries of which each has a key of its own.
pub(super) fn shapes_of_keys(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            entry_with(sink, "alloc", BASE + 512 * at as i128, at, |sink| {
                sink.rare_key(&format!("key{at}"));
                sink.none();
            });
        }
    });
}

fn entry_of_frames(sink: &mut Sink<'_>, at: usize, write: impl FnOnce(&mut Sink<'_>)) {
    entry_with(sink, "alloc", BASE + 512 * at as i128, at, |sink| frames(sink, write));
}

pub(super) fn long_name(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        entry_of_frames(sink, 0, |sink| frame_with(sink, &"(anonymous".repeat(n), 1, nothing));
    });
}

pub(super) fn template_name(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        entry_of_frames(sink, 0, |sink| {
            let name = format!("{}f{}::call({}", "at::".repeat(n), "<".repeat(n), "[clone".repeat(n));
            frame_with(sink, &name, 1, nothing);
        });
    });
}

/// Frames whose long name is in the file once.
pub(super) fn shared_name(sink: &mut Sink<'_>, n: usize) {
    let name = "n".repeat(20 * n.min(500_000));
    // JSON has the name in full each time.
    let is_shared = sink.shares();
    trace(sink, |sink| {
        for at in 0..n.min(100_000) {
            entry_of_frames(sink, at, |sink| {
                sink.dict();
                sink.text_field("name", if at == 0 || at % 8 == 0 && is_shared { &name } else { "f" });
                sink.text_field("filename", "a.py");
                sink.int_field("line", at as i128);
                sink.end();
            });
        }
    });
}

pub(super) fn names(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        (0..n).for_each(|at| {
            entry_of_frames(sink, at, |sink| frame_with(sink, &format!("function_{at}"), at, nothing));
        });
    });
}

pub(super) fn actions(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            sink.dict();
            sink.key("action");
            sink.text(&format!("action{at}"));
            sink.int_field("addr", BASE);
            sink.end();
        }
    });
}

pub(super) fn deep_stack(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        entry_of_frames(sink, 0, |sink| {
            (0..n).for_each(|_| sink.shared("frame", |sink| frame_with(sink, "f", 1, nothing)));
        });
    });
}

/// A deep stack of which every event has the whole.
pub(super) fn deep_stack_used(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            entry_with(sink, "alloc", BASE + 512 * at as i128, at, |sink| {
                sink.key("frames");
                sink.shared("stack", |sink| {
                    sink.list();
                    (0..4 * n).for_each(|line| {
                        sink.shared(["f", "g", "h"][line % 3], |sink| {
                            frame_with(sink, "f", line % 3, nothing)
                        });
                    });
                    sink.end();
                });
            });
        }
    });
}

pub(super) fn stacks(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            entry_of_frames(sink, at, |sink| {
                for depth in 0..6 {
                    let name = format!("f{}", (at >> (2 * depth)) % 4);
                    sink.shared(&name, |sink| frame_with(sink, &name, depth, nothing));
                }
            });
        }
    });
}

/// Stacks of which each has one frame more than the one before.
pub(super) fn triangle(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        let side = (2 * n).isqrt();
        for at in 0..side {
            entry_of_frames(sink, at, |sink| {
                for depth in 0..at {
                    let name = ["f", "g", "h"][depth % 3];
                    sink.shared(name, |sink| frame_with(sink, name, depth % 3, nothing));
                }
            });
        }
    });
}

/// Deep stacks of one frame, each of another depth.
pub(super) fn recursive_stack(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..20 {
            entry_of_frames(sink, at, |sink| {
                (0..n + at).for_each(|_| sink.shared("frame", |sink| frame_with(sink, "f", 1, nothing)));
            });
        }
    });
}

/// A long name under which 16 scopes are open, and many more beginnings and ends.
pub(super) fn scopes_of_one_name(sink: &mut Sink<'_>, n: usize) {
    let name = "x".repeat(20 * n.min(100_000));
    annotated(sink, |sink| {
        (0..16).for_each(|at| scope(sink, "START", &name, 0, at));
        // JSON has the name in full each time.
        for at in 0..if sink.shares() { n } else { 0 } {
            scope(sink, if at % 2 == 0 { "START" } else { "END" }, &name, 0, 100 + at);
        }
    });
}

pub(super) fn nested_scopes(sink: &mut Sink<'_>, n: usize) {
    annotated(sink, |sink| {
        (0..n / 2).for_each(|at| scope(sink, "START", &format!("s{at}"), 0, at));
        (0..n / 2).for_each(|at| scope(sink, "END", &format!("s{}", n / 2 - 1 - at), 0, n + at));
    });
}

pub(super) fn endless_scopes(sink: &mut Sink<'_>, n: usize) {
    annotated(sink, |sink| (0..n).for_each(|at| scope(sink, "START", "s", 0, at % 500)));
}

pub(super) fn beginless_scopes(sink: &mut Sink<'_>, n: usize) {
    annotated(sink, |sink| (0..n).for_each(|at| scope(sink, "END", &format!("s{at}"), 0, at % 500)));
}

pub(super) fn metadata_scopes(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            entry_with(sink, "alloc", BASE + 512 * at as i128, at, |sink| {
                sink.key("user_metadata");
                sink.text(&format!("step {at}/layer {}/{}", at % 7, at % 3));
            });
        }
    });
}

pub(super) fn long_scope(sink: &mut Sink<'_>, n: usize) {
    let name = "a/".repeat(n);
    trace(sink, |sink| {
        for at in 0..30 {
            entry_with(sink, "alloc", BASE + 512 * at as i128, at, |sink| {
                sink.text_field("user_metadata", &name)
            });
            if !sink.shares() {
                break;
            }
        }
    });
}

/// Scopes whose long names differ at their ends.
pub(super) fn scopes_of_one_prefix(sink: &mut Sink<'_>, n: usize) {
    let name = |at: usize| format!("{}{at}", "p/".repeat(200));
    annotated(sink, |sink| (0..n).for_each(|at| scope(sink, "START", &name(at), 0, at)));
}

/// Blocks of which each has a name of its own.
pub(super) fn block_names(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            let address = BASE + 512 * at as i128;
            entry(sink, "alloc", address, 2 * at);
            entry_with(sink, "annotate", address, 2 * at + 1, |sink| {
                sink.text_field("user_metadata", &format!("block {at}"));
            });
        }
    });
}

/// Entries whose values are small enough each, and take much more memory together than their text.
pub(super) fn many_values(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            entry_with(sink, "alloc", BASE, at, |sink| {
                sink.key("x");
                sink.list();
                sink.int(at as i128);
                for _ in 0..1000 {
                    sink.list();
                    sink.end();
                }
                sink.end();
            });
        }
    });
}

/// Segments without keys.
pub(super) fn empty_records(sink: &mut Sink<'_>, n: usize) {
    let segments = |sink: &mut Sink<'_>| (0..n).for_each(|_| (sink.dict(), sink.end()).1);
    file(sink, segments, |sink| (sink.list(), sink.end()).1, nothing);
}

/// Small segments above a block that none of them holds, which is freed again and again.
pub(super) fn windows(sink: &mut Sink<'_>, n: usize) {
    let segments = |sink: &mut Sink<'_>| {
        segment(sink, BASE + 4, 2, 0);
        (0..n).for_each(|at| segment(sink, BASE + MIB + 16 * at as i128, 16, 0));
    };
    let traces = |sink: &mut Sink<'_>| {
        sink.list();
        for at in 0..n {
            for (step, action) in ["alloc", "free_requested", "free_completed"].into_iter().enumerate() {
                entry(sink, action, BASE, 3 * at + step);
            }
        }
        sink.end();
    };
    file(sink, segments, traces, nothing);
}

pub(super) fn pending_frees(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        (0..n).for_each(|at| entry(sink, "alloc", BASE + 512 * at as i128, at));
        (0..n).for_each(|at| entry(sink, "free_requested", BASE + 512 * at as i128, n + at));
    });
}

pub(super) fn unknown_frees(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| (0..n).for_each(|at| entry(sink, "free_completed", BASE + 512 * at as i128, at)));
}

pub(super) fn long_lives(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        (0..n).for_each(|at| entry(sink, "alloc", BASE + 512 * at as i128, at));
        (0..n).for_each(|at| entry(sink, "free_completed", BASE + 512 * (n - 1 - at) as i128, n + at));
    });
}

pub(super) fn one_address(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| (0..n).for_each(|at| entry(sink, "alloc", BASE, at)));
}

pub(super) fn overlapping_lives(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| (0..n).for_each(|at| entry(sink, "alloc", BASE + at as i128, at)));
}

pub(super) fn overlapping_segments(sink: &mut Sink<'_>, n: usize) {
    let segments = |sink: &mut Sink<'_>| (0..n).for_each(|at| segment(sink, BASE + at as i128, 2 * MIB, 0));
    file(sink, segments, |sink| (sink.list(), sink.end()).1, nothing);
}

pub(super) fn nested_segments(sink: &mut Sink<'_>, n: usize) {
    let segments = |sink: &mut Sink<'_>| {
        (0..n).for_each(|at| segment(sink, BASE + at as i128, 4 * n as i128 - 2 * at as i128, 0));
    };
    let traces = |sink: &mut Sink<'_>| {
        sink.list();
        (0..50).for_each(|at| entry(sink, "alloc", BASE + 512 * at as i128, at));
        sink.end();
    };
    file(sink, segments, traces, nothing);
}

pub(super) fn mapped_segments(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        (0..n).for_each(|at| entry(sink, "segment_map", BASE + 1024 * at as i128, at));
        (0..n).for_each(|at| entry(sink, "segment_unmap", BASE + 1024 * at as i128, n + at));
    });
}

pub(super) fn freed_segments(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            entry(sink, "segment_alloc", BASE + 512 * (at % 1000) as i128, 2 * at);
            entry(sink, "segment_free", BASE + 512 * (at % 1000) as i128, 2 * at + 1);
        }
    });
}

pub(super) fn blocks(sink: &mut Sink<'_>, n: usize) {
    let blocks =
        |sink: &mut Sink<'_>| (0..n).for_each(|at| block_with(sink, BASE + 512 * at as i128, 512, nothing));
    file(sink, |sink| one_segment_of(sink, blocks), nothing, nothing);
}

pub(super) fn blocks_backwards(sink: &mut Sink<'_>, n: usize) {
    let blocks = |sink: &mut Sink<'_>| {
        (0..n).rev().for_each(|at| block_with(sink, BASE + 256 * at as i128, 512, nothing));
    };
    file(sink, |sink| one_segment_of(sink, blocks), |sink| (sink.list(), sink.end()).1, nothing);
}

pub(super) fn ooms(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            sink.dict();
            sink.text_field("action", "oom");
            sink.int_field("device_free", 4096);
            sink.int_field("size", 1 << 40);
            sink.int_field("stream", 0);
            sink.int_field("time_us", at as i128);
            sink.end();
        }
    });
}

pub(super) fn backward_times(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            entry(sink, ["alloc", "free_completed"][at % 2], BASE + 512 * (at / 2) as i128, n - at);
        }
    });
}

pub(super) fn far_times(sink: &mut Sink<'_>, n: usize) {
    trace(sink, |sink| {
        for at in 0..n {
            sink.dict();
            sink.text_field("action", "alloc");
            sink.int_field("addr", BASE + 512 * at as i128);
            sink.int_field("size", 512);
            sink.int_field("time_us", if at % 2 == 0 { i64::MIN } else { i64::MAX }.into());
            sink.end();
        }
    });
}
