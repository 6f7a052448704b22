//! Files that are compared: three sides of one kind, where a careless comparison costs the square of their sites. Two sides
//! have nothing in common, or everything in another order, or what they have differs at the end of a long name.

use serde_json::{Value, json};

use super::records::{BASE, MIB, and, file, many, scope, segment, sized_entry, traced};

/// What is compared.
#[derive(Debug)]
pub struct Pair {
    /// What it is called.
    pub name: &'static str,
    /// The files have one site for this number of those that are asked for: long names take the place of several.
    pub share: usize,
    /// Makes the snapshot of a side with a number of sites.
    pub value: fn(u64, u64) -> Value,
}

/// A line behind all others.
const FAR: u64 = 1 << 40;

const fn pair(name: &'static str, value: fn(u64, u64) -> Value) -> Pair {
    Pair { name, share: 1, value }
}

/// Every pair.
pub const PAIRS: &[Pair] = &[
    // Nothing matches: the functions, or the lines of one function, of which none can have moved, or all may have.
    pair("functions", |n, side| sites(n, |at| (512, vec![call(format!("f{side}_{at}"), at)]))),
    pair("lines", |n, side| sites(n, |at| (1 + at % 7 + 10 * side, vec![call("f", 3 * at + side)]))),
    pair("lines-stayed", |n, side| {
        sites(n, |at| (1, vec![call("f", if at == 0 { FAR } else { 3 * at + side })]))
    }),
    pair("lines-moved", |n, side| {
        sites(n, |at| match at % 2 {
            0 => (3 + at, vec![call("f", 8 * at + side * (at + 1))]),
            _ => (1 + side, vec![call("f", FAR + 6 * at + 2 * side)]),
        })
    }),
    pair("lines-of-stacks", |n, side| {
        let line = |at: u64, depth: u64| 1 + 100 * depth + (at >> (4 * depth)) % 16 * (1 + side);
        sites(n, |at| (1 + at + side, many(4, |depth| call("f", line(at, depth)))))
    }),
    // Everything matches, in another order.
    pair("order", |n, side| {
        let function = |at| format!("f{}", ordered(at, n, side));
        sites(n, |at| (512 + ordered(at, n, side), vec![call(function(at), 1), call("main", 1)]))
    }),
    pair("order-of-lines", |n, side| sites(n, |at| (1, vec![call("f", ordered(at, n, side) + side * n)]))),
    pair("order-of-sizes", |n, side| sites(n, |at| (2 * ordered(at, n, side) + 1, vec![]))),
    // Names that differ at their ends.
    Pair {
        share: 25,
        ..pair("prefix", |n, side| {
            let prefix = "x".repeat(3000);
            sites(n, |at| (512 + side, vec![call(format!("{prefix}{}", ordered(at, n, side)), 1)]))
        })
    },
    Pair {
        share: 25,
        ..pair("templates", |n, side| {
            let (open, close) = ("at::f<".repeat(400), ">".repeat(400));
            let name = |at| format!("{open}t{at}, t{side}{close}::call(int)");
            sites(n, |at| (512 + side, vec![call(name(at), 1)]))
        })
    },
    // The same stacks of another script, and of code in another folder.
    pair("script", |n, side| {
        let script = call_in(format!("/home/user/run{side}.py"), "<module>", 1);
        let inner = |at: u64| many(4, |depth| call("f", 1 + (at >> (4 * depth)) % 16));
        sites(n, |at| (512 + at, [inner(at), vec![script.clone()]].concat()))
    }),
    pair("folder", |n, side| {
        let path = |at| format!("/build{side}/m{}.py", ordered(at, n, side));
        sites(n, |at| (512 + at, vec![call_in(path(at), "f", 1)]))
    }),
    // Other records that are compared: segments of which no two sides have the same.
    pair("segments", |n, side| {
        let stack = |at| vec![call(format!("f{at}"), side), call("main", 1)];
        let segment = |at| segment(BASE + (4 * at + side) * 2 * MIB, 2 * MIB, 0);
        file(many(n, |at| and(segment(at), "frames", stack(at))), vec![json!([])])
    }),
    // Segments of libraries of which each is an owner.
    pair("owners", |n, side| {
        let library = |at| format!("/usr/lib/libowner{}.so", ordered(at, n, side) + side % 2);
        let entry = |at| sized_entry("segment_alloc", [BASE + 2 * MIB * at, 2 * MIB], at);
        traced(many(n, |at| and(entry(at), "frames", vec![call_in(library(at), "f(int)", 0)])))
    }),
    // Scopes with a block each, every other one of which no other side has.
    pair("steps", |n, side| {
        let name = |at| if at % 2 == 0 { "step".to_owned() } else { format!("s{side}_{at}") };
        let scopes =
            |at| [("START", 0), ("END", 2)].map(|(stage, time)| scope(stage, name(at), 0, 4 * at + time));
        let blocks = many(n, |at| sized_entry("alloc", [BASE + MIB * at, 512 + side], 4 * at + 1));
        and(traced(blocks), "external_annotations", (0..n).flat_map(scopes).collect::<Vec<_>>())
    }),
    // Devices of a block each, in another order.
    Pair {
        share: 10,
        ..pair("devices", |n, side| {
            let entry = |at| sized_entry("alloc", [BASE, 512 + ordered(at, n, side)], at);
            file(vec![], many(n, |at| json!([and(entry(at), "frames", vec![call(format!("f{at}"), side)])])))
        })
    },
];

fn call(function: impl Into<Value>, line: u64) -> Value {
    call_in("/home/user/train.py".to_owned(), function, line)
}

fn call_in(path: String, function: impl Into<Value>, line: u64) -> Value {
    json!({ "name": function.into(), "filename": path, "line": line })
}

/// The place of a site in the order of a side.
fn ordered(at: u64, n: u64, side: u64) -> u64 {
    match side {
        0 => at,
        1 => n - 1 - at,
        _ => (at + n / 2) % n,
    }
}

/// Blocks of a size each, with stacks from the innermost call on, which are live at the end.
fn sites(n: u64, site: impl Fn(u64) -> (u64, Vec<Value>)) -> Value {
    traced(many(n, |at| {
        let (bytes, calls) = site(at);
        and(sized_entry("alloc", [BASE + MIB * at, bytes], at), "frames", calls)
    }))
}
