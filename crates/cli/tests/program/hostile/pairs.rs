//! Files that are compared: three sides of one kind, where a careless comparison costs the square of their sites. Two sides
//! have nothing in common, or everything in another order, or what they have differs at the end of a long name.

#![forbid(unsafe_code)]

use super::{
    records::{
        BASE, MIB, file, frame_in, frames, nothing, scope, segment_with, sized_entry, trace, trace_and,
    },
    sink::Sink,
};

/// What is compared.
pub(super) struct Pair {
    pub(super) name: &'static str,
    /// The files have one site for this number of those that are asked for: long names take the place of several.
    pub(super) share: usize,
    /// Writes the file of a side with a number of sites.
    pub(super) make: fn(&mut Sink<'_>, usize, usize),
}

/// A line behind all others.
const FAR: usize = 1 << 40;

const fn pair(name: &'static str, make: fn(&mut Sink<'_>, usize, usize)) -> Pair {
    Pair { name, share: 1, make }
}

pub(super) const PAIRS: &[Pair] = &[
    // Nothing matches: the functions, or the lines of one function, of which none can have moved, or all may have.
    pair("functions", |sink, n, side| sites(sink, n, |at| (512, vec![call(format!("f{side}_{at}"), at)]))),
    pair("lines", |sink, n, side| {
        sites(sink, n, |at| (1 + at % 7 + 10 * side, vec![call("f", 3 * at + side)]));
    }),
    pair("lines-stayed", |sink, n, side| {
        sites(sink, n, |at| (1, vec![call("f", if at == 0 { FAR } else { 3 * at + side })]));
    }),
    pair("lines-moved", |sink, n, side| {
        sites(sink, n, |at| match at % 2 {
            0 => (3 + at, vec![call("f", 8 * at + side * (at + 1))]),
            _ => (1 + side, vec![call("f", FAR + 6 * at + 2 * side)]),
        });
    }),
    pair("lines-of-stacks", |sink, n, side| {
        let line = |at: usize, depth: usize| 1 + 100 * depth + (at >> (4 * depth)) % 16 * (1 + side);
        sites(sink, n, |at| (1 + at + side, (0..4).map(|depth| call("f", line(at, depth))).collect()));
    }),
    // Everything matches, in another order.
    pair("order", |sink, n, side| {
        let function = |at| format!("f{}", ordered(at, n, side));
        sites(sink, n, |at| (512 + ordered(at, n, side), vec![call(function(at), 1), call("main", 1)]));
    }),
    pair("order-of-lines", |sink, n, side| {
        sites(sink, n, |at| (1, vec![call("f", ordered(at, n, side) + side * n)]));
    }),
    pair("order-of-sizes", |sink, n, side| sites(sink, n, |at| (2 * ordered(at, n, side) + 1, vec![]))),
    // Names that differ at their ends.
    Pair {
        share: 25,
        ..pair("prefix", |sink, n, side| {
            let prefix = "x".repeat(3000);
            sites(sink, n, |at| (512 + side, vec![call(format!("{prefix}{}", ordered(at, n, side)), 1)]));
        })
    },
    Pair {
        share: 25,
        ..pair("templates", |sink, n, side| {
            let (open, close) = ("at::f<".repeat(400), ">".repeat(400));
            let name = |at| format!("{open}t{at}, t{side}{close}::call(int)");
            sites(sink, n, |at| (512 + side, vec![call(name(at), 1)]));
        })
    },
    // The same stacks of another script, and of code in another folder.
    pair("script", |sink, n, side| {
        let script = Call { function: "<module>".into(), path: format!("/home/user/run{side}.py"), line: 1 };
        let inner = |at: usize| (0..4).map(move |depth| call("f", 1 + (at >> (4 * depth)) % 16));
        sites(sink, n, |at| (512 + at, inner(at).chain([script.clone()]).collect()));
    }),
    pair("folder", |sink, n, side| {
        let path = |at| format!("/build{side}/m{}.py", ordered(at, n, side));
        sites(sink, n, |at| (512 + at, vec![Call { path: path(at), ..call("f", 1) }]));
    }),
    // Other records that are compared.
    pair("segments", segments),
    pair("owners", owners),
    pair("steps", steps),
    Pair { share: 10, ..pair("devices", devices) },
];

/// A call of a stack.
#[derive(Clone)]
struct Call {
    function: String,
    path: String,
    line: usize,
}

fn call(function: impl Into<String>, line: usize) -> Call {
    Call { function: function.into(), path: "/home/user/train.py".to_owned(), line }
}

/// The place of a site in the order of a side.
fn ordered(at: usize, n: usize, side: usize) -> usize {
    match side {
        0 => at,
        1 => n - 1 - at,
        _ => (at + n / 2) % n,
    }
}

/// Blocks of a size each, with stacks from the innermost call on, which are live at the end.
fn sites(sink: &mut Sink<'_>, n: usize, site: impl Fn(usize) -> (usize, Vec<Call>)) {
    trace(sink, |sink| {
        for at in 0..n {
            let (bytes, calls) = site(at);
            let address = BASE + MIB * at as i128;
            sized_entry(sink, "alloc", [address, bytes as i128], at, |sink| stack(sink, &calls));
        }
    });
}

fn stack(sink: &mut Sink<'_>, calls: &[Call]) {
    frames(sink, |sink| {
        for Call { function, path, line } in calls {
            // What is often in a file is in it once.
            let name = format!("{function} {path} {line}");
            sink.shared(&name, |sink| frame_in(sink, path, (function, *line), nothing));
        }
    });
}

/// Segments of which no two sides have the same.
fn segments(sink: &mut Sink<'_>, n: usize, side: usize) {
    let segments = |sink: &mut Sink<'_>| {
        for at in 0..n {
            let address = BASE + (4 * at + side) as i128 * 2 * MIB;
            segment_with(sink, address, 2 * MIB, 0, |sink| {
                stack(sink, &[call(format!("f{at}"), side), call("main", 1)]);
            });
        }
    };
    file(sink, segments, |sink| (sink.list(), sink.end()).1, nothing);
}

/// Segments of libraries of which each is an owner.
fn owners(sink: &mut Sink<'_>, n: usize, side: usize) {
    let library = |at: usize| format!("/usr/lib/libowner{}.so", ordered(at, n, side) + side % 2);
    trace(sink, |sink| {
        for at in 0..n {
            let address = BASE + 2 * MIB * at as i128;
            sized_entry(sink, "segment_alloc", [address, 2 * MIB], at, |sink| {
                stack(sink, &[Call { path: library(at), ..call("f(int)", 0) }]);
            });
        }
    });
}

/// Scopes with a block each, every other one of which no other side has.
fn steps(sink: &mut Sink<'_>, n: usize, side: usize) {
    let blocks = |sink: &mut Sink<'_>| {
        for at in 0..n {
            let address = BASE + MIB * at as i128;
            sized_entry(sink, "alloc", [address, 512 + side as i128], 4 * at + 1, nothing);
        }
    };
    let scopes = |sink: &mut Sink<'_>| {
        sink.key("external_annotations");
        sink.list();
        for at in 0..n {
            let name = if at % 2 == 0 { "step".to_owned() } else { format!("s{side}_{at}") };
            scope(sink, "START", &name, 0, 4 * at);
            scope(sink, "END", &name, 0, 4 * at + 2);
        }
        sink.end();
    };
    trace_and(sink, blocks, scopes);
}

/// Devices of a block each, in another order.
fn devices(sink: &mut Sink<'_>, n: usize, side: usize) {
    let traces = |sink: &mut Sink<'_>| {
        for at in 0..n {
            sink.list();
            let bytes = 512 + ordered(at, n, side) as i128;
            sized_entry(sink, "alloc", [BASE, bytes], at, |sink| {
                stack(sink, &[call(format!("f{at}"), side)])
            });
            sink.end();
        }
    };
    file(sink, nothing, traces, nothing);
}
