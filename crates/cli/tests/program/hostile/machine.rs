//! Cases about the stack machine and the memo of pickles, and about values without a meaning.

#![forbid(unsafe_code)]

use super::{records::file, sink::Sink};

/// Opens the top dictionary with an unknown key, whose value comes next.
fn with_value(sink: &mut Sink<'_>, write: impl FnOnce(&mut Sink<'_>)) {
    file(
        sink,
        |_| {},
        |_| {},
        |sink| {
            sink.key("x");
            write(sink);
        },
    );
}

/// Tuples of two numbers, all different.
pub(super) fn pairs(sink: &mut Sink<'_>, n: usize) {
    for at in 0..n {
        sink.raw(&[b'M', at as u8, (at >> 8) as u8, b'M', (at >> 16) as u8, (at >> 24) as u8, 0x86]);
    }
}

/// Texts of three bytes, all different.
pub(super) fn texts(sink: &mut Sink<'_>, n: usize) {
    (0..n).for_each(|at| {
        sink.raw(&[0x8c, 3, 33 + (at % 90) as u8, 33 + (at / 90 % 90) as u8, 33 + (at / 8100 % 90) as u8])
    });
}

pub(super) fn many_memoize(sink: &mut Sink<'_>, n: usize) {
    with_value(sink, |sink| {
        sink.none();
        sink.raw_times(b"\x94", n);
    });
}

pub(super) fn far_numbers(sink: &mut Sink<'_>, n: usize) {
    with_value(sink, |sink| {
        sink.none();
        for at in 0..n as u32 {
            sink.raw(b"r");
            sink.raw(&at.wrapping_mul(2_654_435_761).to_le_bytes());
        }
    });
}

pub(super) fn memo_again(sink: &mut Sink<'_>, n: usize) {
    with_value(sink, |sink| {
        sink.list();
        sink.raw_times(b"Nq\xff", n);
        sink.end();
    });
}

pub(super) fn many_gets(sink: &mut Sink<'_>, n: usize) {
    with_value(sink, |sink| {
        sink.raw(b"](]q\xff");
        sink.raw_times(b"h\xff", n);
        sink.raw(b"e");
    });
}

/// Each list holds the one before twice.
pub(super) fn laughs(sink: &mut Sink<'_>, n: usize) {
    with_value(sink, |sink| {
        sink.raw(b"(]r\0\0\x10\0");
        for at in 0..n.min(90) as u32 {
            let before = ((1 << 20) + at).to_le_bytes();
            sink.raw(b"](j");
            sink.raw(&before);
            sink.raw(b"j");
            sink.raw(&before);
            sink.raw(b"er");
            sink.raw(&((1 << 20) + at + 1).to_le_bytes());
        }
        sink.raw_times(b"N", n.saturating_sub(90));
        sink.raw(b"t");
    });
}

/// A list of many values, and a list that holds it as often.
pub(super) fn wide_laughs(sink: &mut Sink<'_>, n: usize) {
    with_value(sink, |sink| {
        sink.raw(b"((");
        sink.raw_times(b"N", n);
        sink.raw(b"lq\xff(");
        sink.raw_times(b"h\xff", n);
        sink.raw(b"lt");
    });
}

/// Lists in lists, up to a depth that JSON readers take, beside each other.
pub(super) fn nested(sink: &mut Sink<'_>, n: usize) {
    with_value(sink, |sink| {
        sink.list();
        for _ in 0..n {
            (0..90).for_each(|_| sink.list());
            (0..90).for_each(|_| sink.end());
        }
        sink.end();
    });
}

/// What a list of the case `value` holds.
pub(super) enum Item {
    List,
    Dict,
    None,
    Text,
    Pair,
}

/// An unknown key with a list of small values.
pub(super) fn value(sink: &mut Sink<'_>, n: usize, part: Item) {
    with_value(sink, |sink| {
        sink.list();
        for at in 0..n {
            match part {
                Item::List => {
                    sink.list();
                    sink.end();
                }
                Item::Dict => {
                    sink.dict();
                    sink.end();
                }
                Item::None => sink.none(),
                Item::Text => sink.text(&at.to_string()),
                Item::Pair => {
                    sink.tuple();
                    sink.int(at as i128);
                    sink.int(1);
                    sink.end();
                }
            }
        }
        sink.end();
    });
}

/// A trace of dictionaries that these opcodes make; `h\x01` and `h\x02` are the key and the value of an action.
pub(super) fn entries(sink: &mut Sink<'_>, n: usize, opcodes: &[u8]) {
    sink.raw(b"}(\x8c\x08segments]\x8c\x0ddevice_traces](](}(\x8c\x06actionq\x01\x8c\x05allocq\x02u");
    sink.raw_times(opcodes, n);
    sink.raw(b"eeu");
}

pub(super) fn one_entry_often(sink: &mut Sink<'_>, n: usize) {
    sink.raw(b"}(\x8c\x08segments]\x8c\x0ddevice_traces](](}(\x8c\x06action\x8c\x05allocuq\x01");
    sink.raw_times(b"h\x01", n);
    sink.raw(b"eeu");
}

pub(super) fn segments(sink: &mut Sink<'_>, n: usize, opcodes: &[u8]) {
    sink.raw(b"}(\x8c\x0ddevice_traces]\x8c\x08segments](");
    sink.raw_times(opcodes, n);
    sink.raw(b"eu");
}

pub(super) fn empty_blocks(sink: &mut Sink<'_>, n: usize) {
    sink.raw(b"}(\x8c\x0ddevice_traces]\x8c\x08segments](}(\x8c\x06blocks](");
    sink.raw_times(b"}", n);
    sink.raw(b"eueu");
}
