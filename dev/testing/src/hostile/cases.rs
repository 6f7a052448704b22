//! The cases of the corpus.

use serde_json::{Value, json};

use super::{
    case::{Case, Made},
    document::repeated,
    machine,
    records::{
        BASE, MIB, alloc, and, annotated, block, empty_segment, entry, file, frame, many, of_blocks, scope,
        segment, sized_entry, stacked, traced, with_keys,
    },
};

const fn both(name: &'static str, value: fn(u64) -> Value) -> Case {
    Case { name, made: Made::Both(value) }
}

const fn pickle(name: &'static str, value: fn(u64) -> Value) -> Case {
    Case { name, made: Made::Pickle(value) }
}

const fn text(name: &'static str, text: fn(usize) -> String) -> Case {
    Case { name, made: Made::Text(text) }
}

const fn opcodes(name: &'static str, opcodes: fn(usize) -> Vec<u8>) -> Case {
    Case { name, made: Made::Opcodes(opcodes) }
}

/// The actions of a block's life.
const LIFE: [&str; 3] = ["alloc", "free_requested", "free_completed"];

/// Every case.
pub const CASES: &[Case] = &[
    // Numbers that are taken for sizes.
    both("device-2p40", |_| on_device(1 << 40)),
    both("device-2e9", |_| on_device(2_000_000_000)),
    both("device-2p63", |_| on_device(i64::MAX)),
    both("device-negative", |_| on_device(-5)),
    both("devices-far", |n| file(segments_on(n, 1 << 24), vec![])),
    both("devices", |n| {
        let frames = |at| many(10, |line| frame(format!("function_number_{at}_{line}"), line));
        let trace = |at| json!([and(entry("alloc", BASE + at * 2 * MIB, at), "frames", frames(at))]);
        file(segments_on(n, 1), many(n, trace))
    }),
    both("devices-of-segments", |n| file(segments_on(n, 1), vec![])),
    both("devices-of-scopes", |n| annotated(many(n, |at| scope("START", "s", at, at)))),
    both("devices-of-settings", |n| {
        let lost = |at: u64| (at.to_string(), json!({ "trace_alloc_lost_entries": at }));
        let devices: Value = (0..n).rev().map(lost).collect();
        and(traces_of_one(n), "allocator_settings", json!({ "memreel_devices": devices }))
    }),
    both("traces-empty", |n| file(segments_on(n / 100, 1), many(n, |_| json!([])))),
    both("traces-of-one", traces_of_one),
    // Segments that claim 20 TiB, which no device has.
    both("pages", |n| file(many(n, |at| empty_segment((at % (1 << 17)) << 45, 20 << 40, 0)), vec![])),
    // Requests for nearly all addresses that there are.
    both("sizes", |n| {
        let far = |at| (i64::MAX as u64) - at;
        let action = |at| ["alloc", "segment_alloc"][at as usize % 2];
        traced(many(
            n,
            |at| json!({ "action": action(at), "addr": at << 30, "size": far(at), "time_us": far(at) }),
        ))
    }),
    // Hashes.
    both("addresses-collide", |n| traced(colliding(n, |at, address| entry("alloc", address, at)))),
    both("segments-collide", |n| {
        let trace = colliding(n / 2, |at, address| entry("segment_alloc", address, at));
        file(colliding(n / 2, |_, address| empty_segment(address, 512, 0)), vec![trace.into()])
    }),
    both("addresses-far", |n| {
        traced(many(n, |at| entry("alloc", at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1, at)))
    }),
    both("streams", |n| with_streams(n, |at| at as i64)),
    // Streams that are equal in their low 48 bits.
    both("streams-collide", |n| with_streams(n, |at| (at << 48) as i64)),
    both("pools", |n| {
        let life = |at| LIFE.map(|action| and(entry(action, BASE, at), "pool_id", vec![0, at + 1]));
        traced((0..n).flat_map(life).collect())
    }),
    both("pools-of-segments", |n| {
        let segment = |at| and(segment(BASE + at * 2 * MIB, 2 * MIB, 0), "segment_pool_id", vec![0, at + 1]);
        file(many(n, segment), vec![json!([])])
    }),
    // Keys.
    both("keys-top", |n| with_keys(file(vec![], vec![]), n)),
    both("keys-entry", |n| traced(vec![with_keys(alloc(0), n)])),
    both("keys-frame", |n| traced(vec![stacked(0, vec![with_keys(frame("f", 1), n)])])),
    both("keys-segment", |n| file(vec![with_keys(segment(BASE, 2 * MIB, 0), n)], vec![])),
    both("keys-block", |n| of_blocks(vec![with_keys(block(BASE), n)])),
    both("keys-annotation", |n| annotated(vec![with_keys(json!({ "name": "s" }), n)])),
    both("keys-settings", |n| and(file(vec![], vec![]), "allocator_settings", with_keys(json!({}), n))),
    both("keys-metadata", |n| traced(vec![and(alloc(0), "user_metadata", with_keys(json!({}), n))])),
    opcodes("keys-repeated", machine::repeated_key),
    text("keys-repeated", |n| format!(r#"{{"segments":[],"device_traces":[]{}}}"#, r#","x":7"#.repeat(n))),
    // Values that differ late.
    both("shapes-17", |n| each_with(n, "x", differing_late)),
    both("shapes-deep", |n| each_with(n, "x", |at| json!([[[[at]]]]))),
    both("shapes-text", |n| each_with(n, "x", differing_in_the_middle)),
    both("shapes-metadata", |n| each_with(n, "user_metadata", differing_in_the_middle)),
    both("shapes-frames", |n| {
        each_with(n, "frames", |at| json!([and(frame("f", at), "x", differing_late(at))]))
    }),
    both("shapes-blocks", |n| of_blocks(many(n, |at| and(block(BASE + 512 * at), "x", differing_late(at))))),
    // Entries of which each has a key of its own.
    both("shapes-keys", |n| traced(many(n, |at| and(alloc(at), &format!("key{at}"), Value::Null)))),
    // Values that are small enough each, and take much more memory together than their text.
    both("values-of-entries", |n| {
        let values = |at: u64| [vec![at.into()], vec![json!([]); 1000]].concat();
        traced(many(n, |at| and(entry("alloc", BASE, at), "x", values(at))))
    }),
    // Texts.
    both("name-long", |n| traced(vec![stacked(0, vec![frame(repeated("(anonymous", n), 1)])])),
    both("name-templates", |n| {
        let [before, open, clones] = ["at::", "<", "[clone"].map(|part| part.repeat(n as usize));
        traced(vec![stacked(0, vec![frame(format!("{before}f{open}::call({clones}"), 1)])])
    }),
    // Frames whose long name is in a pickle once.
    both("name-shared", |n| {
        traced(many(n.min(100_000), |at| stacked(at, vec![long_named(at, 20 * n.min(500_000))])))
    }),
    both("name-shared-by-blocks", |n| {
        let frames = |at| vec![long_named(at, 20 * n.min(500_000))];
        of_blocks(many(n.min(100_000), |at| and(block(BASE + 512 * at), "frames", frames(at))))
    }),
    both("names", |n| traced(many(n, |at| stacked(at, vec![frame(format!("function_{at}"), at)])))),
    // Blocks of which each has a name of its own.
    both("names-of-blocks", |n| {
        let name =
            |at| and(entry("annotate", BASE + 512 * at, 2 * at + 1), "user_metadata", format!("block {at}"));
        traced((0..n).flat_map(|at| [entry("alloc", BASE + 512 * at, 2 * at), name(at)]).collect())
    }),
    // Blocks of one long name.
    both("name-of-blocks", |n| {
        let name = repeated("n", 20 * n.min(50_000));
        let named = |at| and(entry("annotate", BASE + 512 * at, 2 * at + 1), "user_metadata", name.clone());
        traced((0..n).flat_map(|at| [entry("alloc", BASE + 512 * at, 2 * at), named(at)]).collect())
    }),
    both("actions", |n| traced(many(n, |at| json!({ "action": format!("action{at}"), "addr": BASE })))),
    // Stacks.
    both("stack-deep", |n| traced(vec![stacked(0, many(n, |_| frame("f", 1)))])),
    opcodes("stack-deep-used", machine::deep_stack_used),
    opcodes("stacks-each-time", machine::frames_each_time),
    both("stacks", |n| {
        let frames = |at: u64| many(6, |depth| frame(format!("f{}", (at >> (2 * depth)) % 4), depth));
        traced(many(n, |at| stacked(at, frames(at))))
    }),
    // Stacks of which each has one frame more than the one before.
    pickle("stacks-of-triangle", |n| {
        let frames = |at| many(at, |depth| frame(["f", "g", "h"][depth as usize % 3], depth % 3));
        traced(many((2 * n).isqrt(), |at| stacked(at, frames(at))))
    }),
    // Deep stacks of one frame, each of another depth.
    pickle("stack-recursive", |n| traced(many(20, |at| stacked(at, many(n + at, |_| frame("f", 1)))))),
    // Scopes. A long name under which 16 are open, and many more beginnings and ends.
    both("scopes-one-name", |n| {
        let name = repeated("x", 20 * n.min(100_000));
        let more = many(n, |at| scope(["START", "END"][at as usize % 2], name.clone(), 0, 100 + at));
        annotated([many(16, |at| scope("START", name.clone(), 0, at)), more].concat())
    }),
    // Short scopes in a few that have long names.
    both("scopes-in-long-names", |n| {
        let long = many(12, |at| scope("START", repeated("x", 20 * n.min(50_000)), 0, at));
        let step = |at| {
            [("START", 0), ("END", 1)].map(|(stage, end)| scope(stage, format!("s{at}"), 0, 12 + at + end))
        };
        let blocks = traced(many(n, |at| entry("alloc", BASE + 512 * at, 12 + at)));
        and(blocks, "external_annotations", long.into_iter().chain((0..n).flat_map(step)).collect::<Vec<_>>())
    }),
    both("scopes-nested", |n| {
        let ends = many(n / 2, |at| scope("END", format!("s{}", n / 2 - 1 - at), 0, n + at));
        annotated([many(n / 2, |at| scope("START", format!("s{at}"), 0, at)), ends].concat())
    }),
    both("scopes-never-end", |n| annotated(many(n, |at| scope("START", "s", 0, at % 500)))),
    both("scopes-never-begin", |n| annotated(many(n, |at| scope("END", format!("s{at}"), 0, at % 500)))),
    both("scopes-metadata", |n| {
        each_with(n, "user_metadata", |at| format!("step {at}/layer {}/{}", at % 7, at % 3).into())
    }),
    both("scopes-long-name", |n| traced(many(30, |at| and(alloc(at), "user_metadata", repeated("a/", n))))),
    // Long names that differ at their ends.
    both("scopes-one-prefix", |n| {
        annotated(many(n, |at| scope("START", format!("{}{at}", "p/".repeat(200)), 0, at)))
    }),
    // Histories. Small segments above a block that none of them holds, which is freed again and again.
    both("windows", |n| {
        let segments = many(n, |at| empty_segment(BASE + MIB + 16 * at, 16, 0));
        let life = |at| (0..3).map(move |step| entry(LIFE[step as usize], BASE, 3 * at + step));
        let trace: Vec<Value> = (0..n).flat_map(life).collect();
        file([vec![empty_segment(BASE + 4, 2, 0)], segments].concat(), vec![trace.into()])
    }),
    both("frees-pending", |n| allocs_and(n, |at| entry("free_requested", BASE + 512 * at, n + at))),
    both("frees-unknown", |n| traced(many(n, |at| entry("free_completed", BASE + 512 * at, at)))),
    both("lives-long", |n| allocs_and(n, |at| entry("free_completed", BASE + 512 * (n - 1 - at), n + at))),
    both("lives-one-address", |n| traced(many(n, |at| entry("alloc", BASE, at)))),
    both("lives-overlap", |n| traced(many(n, |at| entry("alloc", BASE + at, at)))),
    both("segments-overlap", |n| file(many(n, |at| empty_segment(BASE + at, 2 * MIB, 0)), vec![json!([])])),
    both("segments-nested", |n| {
        file(many(n, |at| empty_segment(BASE + at, 4 * n - 2 * at, 0)), vec![many(50, alloc).into()])
    }),
    both("segments-mapped", |n| {
        let unmaps = many(n, |at| entry("segment_unmap", BASE + 1024 * at, n + at));
        traced([many(n, |at| entry("segment_map", BASE + 1024 * at, at)), unmaps].concat())
    }),
    both("segments-freed", |n| {
        let actions = |at| [("segment_alloc", 2 * at), ("segment_free", 2 * at + 1)];
        let entries = |at| actions(at).map(|(action, time)| entry(action, BASE + 512 * (at % 1000), time));
        traced((0..n).flat_map(entries).collect())
    }),
    both("blocks", |n| of_blocks(many(n, |at| block(BASE + 512 * at)))),
    both("blocks-backwards", |n| {
        let blocks = many(n, |at| block(BASE + 256 * (n - 1 - at)));
        and(of_blocks(blocks), "device_traces", json!([[]]))
    }),
    both("ooms", |n| {
        let oom = |at| json!({ "action": "oom", "device_free": 4096, "size": 1_u64 << 40, "stream": 0, "time_us": at });
        traced(many(n, oom))
    }),
    both("times-backwards", |n| {
        let action = |at| ["alloc", "free_completed"][at as usize % 2];
        traced(many(n, |at| entry(action(at), BASE + 512 * (at / 2), n - at)))
    }),
    both("times-far", |n| {
        let time = |at| [i64::MIN, i64::MAX][at as usize % 2];
        traced(many(
            n,
            |at| json!({ "action": "alloc", "addr": BASE + 512 * at, "size": 512, "time_us": time(at) }),
        ))
    }),
    // The pickle machine.
    opcodes("machine-lists", |n| b"]".repeat(n)),
    opcodes("machine-dicts", |n| b"}".repeat(n)),
    opcodes("machine-tuples", |n| b")".repeat(n)),
    opcodes("machine-marks", |n| b"(".repeat(n)),
    opcodes("machine-nones", |n| b"N".repeat(n)),
    opcodes("machine-pairs", machine::pairs),
    opcodes("machine-texts", machine::texts),
    opcodes("machine-empty-bytes", |n| b"C\0".repeat(n)),
    opcodes("machine-big", |n| b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00".repeat(n)),
    opcodes("machine-mixed", |n| b"](".repeat(n)),
    opcodes("machine-memoized", |n| b"]\x94".repeat(n)),
    opcodes("memo-many", machine::many_memoize),
    opcodes("memo-far", machine::far_numbers),
    opcodes("memo-again", machine::memo_again),
    opcodes("memo-get", machine::many_gets),
    opcodes("memo-laughs", machine::laughs),
    opcodes("memo-laughs-wide", machine::wide_laughs),
    opcodes("frames-of-protocol", |n| b"\x95\0\0\0\0\0\0\0\0".repeat(n)),
    // Lists in lists, up to a depth that JSON readers take, beside each other.
    both("nested-lists", |n| unknown(n, |_| (1..90).fold(json!([]), |inner, _| json!([inner])))),
    both("value-lists", |n| unknown(n, |_| json!([]))),
    both("value-dicts", |n| unknown(n, |_| json!({}))),
    both("value-nones", |n| unknown(n, |_| Value::Null)),
    both("value-texts", |n| unknown(n, |at| at.to_string().into())),
    both("value-of-pairs", |n| unknown(n, |at| json!([at, 1]))),
    opcodes("entries-empty", |n| machine::entries(n, b"}")),
    both("records-empty", |n| file(many(n, |_| json!({})), vec![json!([])])),
    opcodes("entries-small", |n| machine::entries(n, b"}(h\x01h\x02u")),
    opcodes("entries-one", machine::one_entry_often),
    opcodes("segments-empty", |n| machine::segments(n, [b"", b"}", b""])),
    opcodes("blocks-empty", |n| machine::segments(n, [b"}(\x8c\x06blocks](", b"}", b"eu"])),
];

fn on_device(device: i64) -> Value {
    file(vec![empty_segment(BASE, 2 * MIB, device)], vec![])
}

/// A segment on each of some devices, whose numbers are this far from each other.
fn segments_on(n: u64, distance: i64) -> Vec<Value> {
    many(n, |at| empty_segment(BASE + at * 2 * MIB, 2 * MIB, at as i64 * distance))
}

fn traces_of_one(n: u64) -> Value {
    file(vec![], many(n, |at| json!([entry("alloc", BASE, at)])))
}

/// Allocations with a key whose values differ.
fn each_with(n: u64, key: &str, value: impl Fn(u64) -> Value) -> Value {
    traced(many(n, |at| and(alloc(at), key, value(at))))
}

/// A list that differs behind the sixteenth element.
fn differing_late(at: u64) -> Value {
    json!([[0; 16].as_slice(), &[at]].concat())
}

fn differing_in_the_middle(at: u64) -> Value {
    format!("{}{at:09}{}", "a".repeat(32), "b".repeat(32)).into()
}

/// A frame at a line, of which every eighth has a long name.
fn long_named(at: u64, n: u64) -> Value {
    let name = if at.is_multiple_of(8) { repeated("n", n) } else { "f".into() };
    json!({ "name": name, "filename": "a.py", "line": at })
}

/// An unknown key with a list.
fn unknown(n: u64, item: impl FnMut(u64) -> Value) -> Value {
    and(file(vec![], vec![]), "x", many(n, item))
}

fn allocs_and(n: u64, later: impl FnMut(u64) -> Value) -> Value {
    traced([many(n, alloc), many(n, later)].concat())
}

fn with_streams(n: u64, stream: fn(u64) -> i64) -> Value {
    let entry = |at| sized_entry(LIFE[at as usize % 3], [BASE + at / 3 * 512, 512], at);
    traced(many(n, |at| and(entry(at), "stream", stream(at / 3))))
}

/// Addresses with equal hashes in hash tables without a seed (`FxHash` of rustc-hash 2): they agree in the bits that
/// choose the bucket and in the seven of the tag.
fn colliding(n: u64, record: impl Fn(u64, u64) -> Value) -> Vec<Value> {
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
    (0..n).zip((0..1 << 31).map(address).filter(fits)).map(|(at, address)| record(at, address)).collect()
}
