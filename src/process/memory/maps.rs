//! Reads the mappings of a process from `smaps` in its folder.
#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    ops::Range,
    path::Path,
};

/// A mapping.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Map {
    pub(super) range: Range<u64>,
    /// For example `rw-p`.
    pub(super) rights: [u8; 4],
    /// A file, or a name such as `[heap]`.
    pub(super) path: String,
    pub(super) resident_bytes: u64,
    pub(super) shared_out_bytes: u64,
    /// The bytes that belong to the process alone and differ from the file.
    pub(super) anonymous_bytes: u64,
    pub(super) huge_bytes: u64,
    pub(super) swapped_bytes: u64,
}

impl Map {
    pub(super) fn may_run(&self) -> bool {
        self.rights[2] == b'x'
    }

    pub(super) fn is_shared(&self) -> bool {
        self.rights[3] == b's'
    }

    /// Returns whether the mapping is inaccessible and only reserves addresses.
    pub(super) fn is_guard(&self) -> bool {
        self.path.is_empty() && self.rights[..3] == *b"---"
    }
}

/// Returns all mappings of the process with this folder, by address.
pub(super) fn read(process: &Path) -> io::Result<Vec<Map>> {
    parse(BufReader::with_capacity(1 << 16, File::open(process.join("smaps"))?))
}

fn parse(mut text: impl BufRead) -> io::Result<Vec<Map>> {
    let (mut maps, mut line) = (Vec::<Map>::new(), Vec::new());
    loop {
        line.clear();
        if text.read_until(b'\n', &mut line)? == 0 {
            return Ok(maps);
        }
        let line = String::from_utf8_lossy(&line);
        if let Some(map) = heading(&line) {
            // The kernel writes a few mappings at a time. One that grows meanwhile is written again, longer.
            while maps.pop_if(|last| last.range.end > map.range.start).is_some() {}
            maps.push(map);
        } else if let Some(map) = maps.last_mut() {
            field(map, &line);
        }
    }
}

/// Reads a line such as `7f00-7f10 rw-p 00000000 08:01 42   /lib/a b.so`.
fn heading(line: &str) -> Option<Map> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    let rights = rest.as_bytes().first_chunk::<4>().copied()?;
    // The rights are followed by offset, device and inode, and then the path, which may have blanks.
    let mut path = rest;
    for _ in 0..4 {
        path = path.split_once(' ').map_or("", |(_, path)| path).trim_start();
    }
    Some(Map { range, rights, path: path.trim_end_matches('\n').to_owned(), ..Map::default() })
}

fn field(map: &mut Map, line: &str) {
    let Some((key, value)) = line.split_once(':') else { return };
    let place = match key {
        "Rss" => &mut map.resident_bytes,
        "Pss" => &mut map.shared_out_bytes,
        "Anonymous" => &mut map.anonymous_bytes,
        "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => &mut map.huge_bytes,
        "Swap" => &mut map.swapped_bytes,
        _ => return,
    };
    let kibibytes = value.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    *place += kibibytes.saturating_mul(1024);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "55d0-55d4 r-xp 00001000 08:01 42                   /lib/a b.so (deleted)\n\
                    Size:                 16 kB\nRss:                  12 kB\nPss:                   5 kB\n\
                    Anonymous:             4 kB\nAnonHugePages:      2048 kB\nSwap:                  8 kB\n\
                    VmFlags: rd ex mr mw me\n\
                    7f00-7f10 ---p 00000000 00:00 0 \nRss:                   0 kB\n";
        let maps = parse(text.as_bytes()).unwrap();
        assert_eq!(maps.len(), 2);
        let first = &maps[0];
        assert_eq!((first.range.clone(), &*first.path), (0x55d0..0x55d4, "/lib/a b.so (deleted)"));
        assert_eq!((first.resident_bytes, first.shared_out_bytes), (12 << 10, 5 << 10));
        assert_eq!((first.anonymous_bytes, first.huge_bytes, first.swapped_bytes), (4096, 2 << 20, 8192));
        assert!(first.may_run() && maps[1].is_guard());
    }

    #[test]
    fn a_mapping_that_grows_meanwhile_is_one() {
        let text = "1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB\n3000-5000 rw-p 00000000 00:00 0 \nRss: 8 kB\n\
                    3000-7000 rw-p 00000000 00:00 0 \nRss: 16 kB\n7000-9000 ---p 00000000 00:00 0 \nRss: 0 kB\n";
        let resident: Vec<u64> =
            parse(text.as_bytes()).unwrap().iter().map(|map| map.resident_bytes >> 10).collect();
        assert_eq!(resident, [4, 16, 0]);
    }
}
