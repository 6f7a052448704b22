//! Files that are refused: those that lie about what they have, and those of other programs.

use std::fs;

use super::{
    cases::CASES,
    document::{Form, of_opcodes},
    machine,
};
use crate::fixtures::fixtures;

/// A file that cannot be read.
#[derive(Debug)]
pub struct Refused {
    /// What it is called.
    pub name: String,
    /// What it contains.
    pub bytes: Vec<u8>,
    /// A part of the message, which stands there once.
    pub message: &'static str,
}

/// Returns every such file.
#[must_use]
pub fn refused() -> Vec<Refused> {
    let all = others().into_iter().chain(code()).chain(lies()).chain(lacking());
    all.map(|(name, bytes, message)| Refused { name, bytes, message }).collect()
}

type Row = (String, Vec<u8>, &'static str);

fn row(name: &str, bytes: impl Into<Vec<u8>>, message: &'static str) -> Row {
    (name.to_owned(), bytes.into(), message)
}

/// Files of other programs, and of none.
fn others() -> Vec<Row> {
    let sound = fs::read(fixtures("synthetic/valid.pickle")).unwrap();
    let legacy = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.";
    let text = "not a memory snapshot but a text file; give a file written by _dump_snapshot";
    let state = "the opcode GLOBAL would run code or reach outside the file, but a snapshot contains only data; \
                 do not load this file with Python unless you trust its author; it seems to be a checkpoint (a \
                 state_dict)";
    vec![
        row("cut", &sound[..sound.len() / 2], "the file ends"),
        row("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "gzip; decompress it first"),
        row("zstd", b"\x28\xb5\x2f\xfd\x04\0", "zstd; decompress it first"),
        row("zip", b"PK\x03\x04\0\0", "a ZIP archive, as torch.save writes it"),
        row("old", legacy, "a file of torch.save, as PyTorch before 1.6"),
        row("weights", b"\x0b\0\0\0\0\0\0\0{\"w\": [0]}  ", "a safetensors file"),
        row("empty", b"", "not a memory snapshot: the file is empty"),
        row("text", b"hello, this is no pickle\n", text),
        row("script", "import torch  # führt aus\n".repeat(200), text),
        row("settings", b"[section]\nkey = 1\n", "it starts like JSON but is not valid JSON"),
        row("json", b"{\"segments\": [", "the JSON was cut off"),
        row("state_dict", b"\x80\x02ccollections\nOrderedDict\nq\0)Rq\x01.", state),
        row("odd", b"\x80\x04\x01", "is this a snapshot file?"),
        row("number", of_opcodes(b"K\x07"), "not a readable snapshot"),
    ]
}

/// Pickles that would run code.
fn code() -> Vec<Row> {
    let system = b"cos\nsystem\n(\x8c\x02lstR";
    let named = [
        row("global", of_opcodes(system), "the opcode GLOBAL would run code"),
        row("protocol-0", b"cos\nsystem\n(S'ls'\ntR.", "the opcode GLOBAL would run code"),
        row(
            "stack-global",
            with_value(b"\x8c\x02os\x8c\x06system\x93"),
            "the opcode STACK_GLOBAL would run code",
        ),
        row("reduce", with_value(b"NN\x86R"), "the opcode REDUCE would run code"),
    ];
    let opcodes = [
        (b'c', "the opcode GLOBAL would run code"),
        (0x93, "the opcode STACK_GLOBAL would run code"),
        (b'R', "the opcode REDUCE would run code"),
        (b'b', "the opcode BUILD would run code"),
        (b'i', "the opcode INST would run code"),
        (b'o', "the opcode OBJ would run code"),
        (0x81, "the opcode NEWOBJ would run code"),
        (0x92, "the opcode NEWOBJ_EX would run code"),
        (b'P', "the opcode PERSID would run code"),
        (b'Q', "the opcode BINPERSID would run code"),
        (0x82, "the opcode EXT1 would run code"),
        (0x97, "the opcode NEXT_BUFFER would run code"),
    ];
    let alone = opcodes.map(|(op, message)| row(&format!("code-{op:x}"), with_value(&[op]), message));
    named.into_iter().chain(alone).collect()
}

/// Pickles that claim more than they have, hold themselves, or would outgrow their length.
fn lies() -> Vec<Row> {
    const N: usize = 100_000;
    let nest = "nest more than 100 deep";
    let grow = "grows after being put into another";
    let itself = "contains itself";
    let outgrow = "outgrow it many times over";
    let nested = |n| with_value(&[vec![b']'; n], vec![b'a'; n - 1]].concat());
    let trace = b"}(\x8c\x08segments]\x8c\x0ddevice_traces]q\0h\0au";
    let entry = b"}(\x8c\x0ddevice_traces]q\0]q\x01}(\x8c\x06action\x8c\x05alloc\x8c\x06framesh\x01uaau";
    let keys = CASES.iter().find(|case| case.name == "keys-entry").unwrap();
    vec![
        row("memo-unknown", of_opcodes(b"h\x07"), "nothing was memoized as number 7"),
        row("nested-lists", nested(N), nest),
        row("nested-far", nested(10 * N), "far more than a snapshot of this length needs"),
        row("nested-tuples", with_value(&[b")".as_slice(), &vec![0x85; N]].concat()), nest),
        row("nested-frames", of_opcodes(&machine::frames_in_frames(N)), nest),
        row("marks", with_value(&vec![b'('; N]), "at byte"),
        row("list-in-itself", with_value(b"]q\0h\0a"), itself),
        row("list-in-its-dict", with_value(b"]q\0}\x8c\x01kh\0sa"), grow),
        row("list-in-its-tuple", with_value(b"]q\0h\0\x85a"), grow),
        row("trace-in-itself", of_opcodes(trace), itself),
        row("trace-as-frames", of_opcodes(entry), grow),
        row("laughs", of_opcodes(&machine::laughs(90)), outgrow),
        row("blocks-again", of_opcodes(&machine::blocks_again(N)), outgrow),
        row("trace-again", of_opcodes(&machine::trace_again(N)), outgrow),
        row("keys", keys.of(Form::Pickle, N), "more than 256 keys"),
    ]
}

/// Lengths beyond the end of the file, opcodes that are cut off, and opcodes without what they need, between spaces.
fn lacking() -> Vec<Row> {
    let beyond = b"X\xff\xff\xff\x7fabc X\xff\xff\xff\xffabc B\xff\xff\xff\x7f \x8b\xff\xff\xff\x7f \
                   \x8d\xff\xff\xff\xff\xff\xff\xff\x7f \x8e\xff\xff\xff\xff\xff\xff\xff\xff \x8a\xff C\xff";
    let cut = b"\x80 \x95\0\0 K M\0 J\0\0 \x8a \x8a\x02\0 \x8b\0 \x8c \x8c\x02a X\0 \x8d\0 G\0\0 h j\0 Nq Nr\0 B\0 \
                C\x01 \x8e\0";
    let needy =
        b"I12 a ]a s }s }Ns u e t l d \x85 N\x86 NN\x87 q\0 \x94 (q\0 N(a ](Ne(Nu }(Nu N(Ne })Ns]s }](}NuNs";
    let parts = |name, opcodes: &'static [u8], end: &'static [u8], message| {
        let parts = opcodes.split(|byte| *byte == b' ').enumerate();
        parts.map(move |(at, part)| row(&format!("{name}-{at}"), [b"\x80\x04", part, end].concat(), message))
    };
    let beyond = parts("beyond", beyond, b"", "the file ends");
    let cut = parts("ends", cut, b"", "the file ends");
    beyond.chain(cut).chain(parts("needs", needy, b".", "at byte")).collect()
}

/// Returns a snapshot with one more key, whose value these opcodes make.
#[must_use]
pub fn with_value(opcodes: &[u8]) -> Vec<u8> {
    of_opcodes(&machine::with_value(opcodes))
}
