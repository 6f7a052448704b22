//! Cases about the stack machine and the memo of pickles, as opcodes.

/// A snapshot with an unknown key, whose value these opcodes make.
pub(super) fn with_value(opcodes: &[u8]) -> Vec<u8> {
    [b"}(\x8c\x08segments]\x8c\x0ddevice_traces]\x8c\x01x", opcodes, b"u"].concat()
}

/// Tuples of two numbers, all different.
pub(super) fn pairs(n: usize) -> Vec<u8> {
    let pair = |at: usize| [b'M', at as u8, (at >> 8) as u8, b'M', (at >> 16) as u8, (at >> 24) as u8, 0x86];
    (0..n).flat_map(pair).collect()
}

/// Texts of three bytes, all different.
pub(super) fn texts(n: usize) -> Vec<u8> {
    let letter = |at: usize| 33 + (at % 90) as u8;
    (0..n).flat_map(|at| [0x8c, 3, letter(at), letter(at / 90), letter(at / 8100)]).collect()
}

pub(super) fn many_memoize(n: usize) -> Vec<u8> {
    with_value(&[b"N".as_slice(), &b"\x94".repeat(n)].concat())
}

pub(super) fn far_numbers(n: usize) -> Vec<u8> {
    let put = |at: u32| [b"r".as_slice(), &at.wrapping_mul(2_654_435_761).to_le_bytes()].concat();
    with_value(&[b"N".to_vec(), (0..n as u32).flat_map(put).collect()].concat())
}

pub(super) fn memo_again(n: usize) -> Vec<u8> {
    with_value(&[b"](".as_slice(), &b"Nq\xff".repeat(n), b"e"].concat())
}

pub(super) fn many_gets(n: usize) -> Vec<u8> {
    with_value(&[b"](]q\xff".as_slice(), &b"h\xff".repeat(n), b"e"].concat())
}

/// Each list holds the one before twice.
pub(super) fn laughs(n: usize) -> Vec<u8> {
    let number = |at: u32| ((1 << 20) + at).to_le_bytes();
    let twice = |at: u32| [b"](j", &number(at)[..], b"j", &number(at), b"er", &number(at + 1)].concat();
    let lists = (0..n.min(90) as u32).flat_map(twice).collect();
    with_value(&[b"(]r\0\0\x10\0".to_vec(), lists, b"N".repeat(n.saturating_sub(90)), b"t".to_vec()].concat())
}

/// A list of many values, and a list that holds it as often.
pub(super) fn wide_laughs(n: usize) -> Vec<u8> {
    with_value(&[b"((".as_slice(), &b"N".repeat(n), b"lq\xff(", &b"h\xff".repeat(n), b"lt"].concat())
}

/// A deep stack of which every event has the whole.
pub(super) fn deep_stack_used(n: usize) -> Vec<u8> {
    let frame = |name: u8| {
        [b"}(\x8c\x04name\x8c\x01fX\x08\0\0\0filename\x8c\x04a.py\x8c\x04lineK", &[name][..], b"uq", &[name]]
            .concat()
    };
    let frames = [
        b"](".to_vec(),
        (0..3).flat_map(frame).collect(),
        b"h\0h\x01h\x02".repeat(4 * n / 3),
        b"eq\x03".to_vec(),
    ];
    let entry = |at: usize| {
        [b"}(h\x04h\x05h\x06J", &(512 * at as u32).to_le_bytes()[..], b"h\x07M\0\x02h\x08h\x03u"].concat()
    };
    let words = b"\x8c\x06actionq\x04\x8c\x05allocq\x05\x8c\x04addrq\x06\x8c\x04sizeq\x07\x8c\x06framesq\x08";
    let kept = [b"\x8c\x01x](".as_slice(), &frames.concat(), words, b"e"].concat();
    let entries: Vec<u8> = (0..n).flat_map(entry).collect();
    [b"}(", &kept[..], b"\x8c\x08segments]\x8c\x0ddevice_traces](](", &entries, b"eeu"].concat()
}

/// A trace of dictionaries that these opcodes make; `h\x01` and `h\x02` are the key and the value of an action.
pub(super) fn entries(n: usize, opcodes: &[u8]) -> Vec<u8> {
    let before = b"}(\x8c\x08segments]\x8c\x0ddevice_traces](](}(\x8c\x06actionq\x01\x8c\x05allocq\x02u";
    [before, &opcodes.repeat(n)[..], b"eeu"].concat()
}

pub(super) fn one_entry_often(n: usize) -> Vec<u8> {
    let before = b"}(\x8c\x08segments]\x8c\x0ddevice_traces](](}(\x8c\x06action\x8c\x05allocuq\x01";
    [before, &b"h\x01".repeat(n)[..], b"eeu"].concat()
}

/// Segments that these opcodes make.
pub(super) fn segments(n: usize, [before, opcodes, after]: [&[u8]; 3]) -> Vec<u8> {
    [b"}(\x8c\x0ddevice_traces]\x8c\x08segments](", before, &opcodes.repeat(n), after, b"eu"].concat()
}

/// A key of the top dictionary, given again and again.
pub(super) fn repeated_key(n: usize) -> Vec<u8> {
    [b"}(\x8c\x08segments]\x8c\x0ddevice_traces]".as_slice(), &b"\x8c\x01xK\x07".repeat(n), b"u"].concat()
}

/// A list of blocks that many segments share.
pub(super) fn blocks_again(n: usize) -> Vec<u8> {
    let before = b"}(\x8c\x08segments](}(\x8c\x06blocks](";
    [before, &b"}".repeat(n)[..], b"euq\0", &b"h\0".repeat(n), b"eu"].concat()
}

/// A trace that many devices share.
pub(super) fn trace_again(n: usize) -> Vec<u8> {
    let entries = b"}(\x8c\x06action\x8c\x05allocu".repeat(n);
    [b"}(\x8c\x0ddevice_traces](](", &entries[..], b"eq\0", &b"h\0".repeat(n), b"eu"].concat()
}

/// Each dictionary holds, under a key of its own, a list of the one before: lists of frames, to a reader that takes them for
/// stacks.
pub(super) fn frames_in_frames(n: usize) -> Vec<u8> {
    let frame = |at: u32| {
        // The dictionary before: the first has number 0, each later one comes with its key.
        let before = (2 * at).saturating_sub(1).to_le_bytes();
        [b"}\x94\x8c\x08key", format!("{at:05}").as_bytes(), b"\x94](j", &before, b"es"].concat()
    };
    [b"](}\x94", &(0..n as u32).flat_map(frame).collect::<Vec<_>>()[..], b"e"].concat()
}

/// What CPython writes of a snapshot that another program read and built anew: no frame is shared, and every container
/// has a number in the memo. The smallest such file takes the most memory for its length.
pub(super) fn frames_each_time(n: usize) -> Vec<u8> {
    let word = |text: &&str| [&[0x8c, text.len() as u8], text.as_bytes(), b"\x94"].concat();
    let words =
        ["action", "alloc", "addr", "size", "stream", "time_us", "frames", "name", "filename", "line", "f"];
    let before = [b"}\x94(\x8c\x05words\x94]\x94(", &words.iter().flat_map(word).collect::<Vec<_>>()[..]];
    let frame = |line: u8| [b"}\x94(h\x0ah\x0dh\x0bh\x0dh\x0cK", &[line][..], b"u"].concat();
    let frames: Vec<u8> = (0..20).flat_map(frame).collect();
    // The words have the numbers from 3 on.
    let entry = |at: u32| {
        let [address, time] = [4096 + 512 * at, at].map(u32::to_le_bytes);
        let numbers =
            [b"}\x94(h\x03h\x04h\x05J", &address[..], b"h\x06M\0\x02h\x07K\0h\x08J", &time].concat();
        [&numbers[..], b"h\x09]\x94(", &frames, b"eu"].concat()
    };
    let entries: Vec<u8> = (0..n as u32).flat_map(entry).collect();
    let lists = b"e\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94]\x94(]\x94(";
    [&before.concat(), &lists[..], &entries, b"eeu"].concat()
}
