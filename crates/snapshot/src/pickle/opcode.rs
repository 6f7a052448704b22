//! The opcodes of pickles under Python's names, and why some of them are rejected.
//!
//! The reader supports opcodes that make plain data: those that PyTorch's web
//! viewer supports (docs/snapshot-format.md 3.1), which are the only ones that
//! the writer uses, and a few on which the viewer throws.

#![forbid(unsafe_code)]

pub(super) const MARK: u8 = b'(';
pub(super) const STOP: u8 = b'.';
pub(super) const INT: u8 = b'I';
pub(super) const BININT: u8 = b'J';
pub(super) const BININT1: u8 = b'K';
pub(super) const BININT2: u8 = b'M';
pub(super) const NONE: u8 = b'N';
pub(super) const BINUNICODE: u8 = b'X';
pub(super) const EMPTY_LIST: u8 = b']';
pub(super) const APPEND: u8 = b'a';
pub(super) const APPENDS: u8 = b'e';
pub(super) const LIST: u8 = b'l';
pub(super) const EMPTY_DICT: u8 = b'}';
pub(super) const SETITEM: u8 = b's';
pub(super) const SETITEMS: u8 = b'u';
pub(super) const DICT: u8 = b'd';
pub(super) const EMPTY_TUPLE: u8 = b')';
pub(super) const TUPLE: u8 = b't';
pub(super) const BINGET: u8 = b'h';
pub(super) const LONG_BINGET: u8 = b'j';
pub(super) const BINPUT: u8 = b'q';
pub(super) const LONG_BINPUT: u8 = b'r';
pub(super) const BINFLOAT: u8 = b'G';
pub(super) const BINBYTES: u8 = b'B';
pub(super) const SHORT_BINBYTES: u8 = b'C';
pub(super) const PROTO: u8 = 0x80;
pub(super) const TUPLE1: u8 = 0x85;
pub(super) const TUPLE2: u8 = 0x86;
pub(super) const TUPLE3: u8 = 0x87;
pub(super) const NEWTRUE: u8 = 0x88;
pub(super) const NEWFALSE: u8 = 0x89;
pub(super) const LONG1: u8 = 0x8a;
pub(super) const LONG4: u8 = 0x8b;
pub(super) const SHORT_BINUNICODE: u8 = 0x8c;
pub(super) const BINUNICODE8: u8 = 0x8d;
pub(super) const BINBYTES8: u8 = 0x8e;
pub(super) const MEMOIZE: u8 = 0x94;
pub(super) const FRAME: u8 = 0x95;

/// Supported by the reader; the viewer throws on them.
const READ_ONLY_HERE: &[(u8, &str)] = &[
    (INT, "INT"),
    (LONG4, "LONG4"),
    (BINUNICODE8, "BINUNICODE8"),
    (BINBYTES, "BINBYTES"),
    (SHORT_BINBYTES, "SHORT_BINBYTES"),
    (BINBYTES8, "BINBYTES8"),
];

/// Opcodes that import, call or access something outside the file.
const RUN_CODE: &[(u8, &str)] = &[
    (b'c', "GLOBAL"),
    (b'R', "REDUCE"),
    (b'b', "BUILD"),
    (b'i', "INST"),
    (b'o', "OBJ"),
    (b'P', "PERSID"),
    (b'Q', "BINPERSID"),
    (0x81, "NEWOBJ"),
    (0x82, "EXT1"),
    (0x83, "EXT2"),
    (0x84, "EXT4"),
    (0x92, "NEWOBJ_EX"),
    (0x93, "STACK_GLOBAL"),
    (0x97, "NEXT_BUFFER"),
    (0x98, "READONLY_BUFFER"),
];

/// Data that snapshots do not contain: sets, Python 2 strings, protocol 0 and stack manipulation.
const NO_PART: &[(u8, &str)] = &[
    (b'0', "POP"),
    (b'1', "POP_MARK"),
    (b'2', "DUP"),
    (b'F', "FLOAT"),
    (b'L', "LONG"),
    (b'S', "STRING"),
    (b'T', "BINSTRING"),
    (b'U', "SHORT_BINSTRING"),
    (b'V', "UNICODE"),
    (b'g', "GET"),
    (b'p', "PUT"),
    (0x8f, "EMPTY_SET"),
    (0x90, "ADDITEMS"),
    (0x91, "FROZENSET"),
    (0x96, "BYTEARRAY8"),
];

/// Returns the name of an opcode that the reader supports but the viewer does not.
pub(super) fn unknown_to_viewer(op: u8) -> Option<&'static str> {
    named(READ_ONLY_HERE, op)
}

/// Returns why an opcode is refused.
pub(super) fn refusal(op: u8) -> String {
    if let Some(name) = named(RUN_CODE, op) {
        return format!(
            "the opcode {name} would run code or reach outside the file, but a snapshot contains only data; \
             do not load this file with Python unless you trust its author"
        );
    }
    match named(NO_PART, op) {
        Some(name) => {
            format!("the opcode {name} is not used by snapshots; write the file with pickle protocol 2 to 4")
        }
        None => format!("{op:#04x} is not an opcode of a pickle; is this a snapshot file?"),
    }
}

fn named(table: &[(u8, &'static str)], op: u8) -> Option<&'static str> {
    table.iter().find(|(other, _)| *other == op).map(|(_, name)| *name)
}
