//! Reports programs that this process starts without memreel's libraries, and calls that failed, in a file in the folder of the run: a line for each, with
//! words between tabs. `memreel record` reads it at the end of the run.
//!
//! This may be a child of `vfork`, and a thread on a small stack: nothing is allocated, and each call is the system's own. A filter of
//! system calls may end the process at others, so these are only those of the C library as it starts: `openat`, `fstat`,
//! `getrlimit`, `read`, `write` and `close`.

use std::{
    cell::UnsafeCell,
    ffi::{CStr, c_char},
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

use libc::{c_int, pid_t};

use super::{
    brief_file::{READ, plain, read, with_file},
    cleaned::{List, PATH_BYTES, PRELOAD, RUN, variable},
    readable::Words,
};

/// The name of the file (`crates/cli/src/record/told.rs`).
const NAME: &[u8] = b"/unrecorded\0";

/// The preloaded library's name in a list of preloaded libraries.
const LIBRARY: &[u8] = b"libmemreel_preload";

/// The most bytes in a line: it is one write, which no other one interrupts.
const LINE_BYTES: usize = 512;

/// The most of them that are names of libraries, in front of the program.
const NAMES_BYTES: usize = 220;

/// The most bytes in the file: a loop may start programs for days.
const MOST_BYTES: i64 = 4 << 20;

/// The beginning of a program with the list of its parts.
const HEAD_BYTES: usize = 1024;

/// The path of the file.
struct Path(UnsafeCell<[u8; PATH_BYTES]>);

// SAFETY: it is written while the library is loaded, by the only thread, and read afterwards.
unsafe impl Sync for Path {}

static PATH: Path = Path(UnsafeCell::new([0; PATH_BYTES]));

/// The bytes of the path with its end; 0 if this process is of no run. Relaxed: written while there is one thread.
static N_PATH: AtomicUsize = AtomicUsize::new(0);

/// Keeps the folder of the run, which the program may take out of its environment.
pub(crate) fn keep_folder() {
    // SAFETY: the library is being loaded, so there is one thread, and the text stays while it is copied.
    unsafe {
        let Some(folder) = variable(RUN) else { return };
        let n_bytes = folder.len() + NAME.len();
        if folder.is_empty() || n_bytes > PATH_BYTES {
            return;
        }
        let path = PATH.0.get().cast::<u8>();
        ptr::copy_nonoverlapping(folder.as_ptr(), path, folder.len());
        ptr::copy_nonoverlapping(NAME.as_ptr(), path.add(folder.len()), NAME.len());
        N_PATH.store(n_bytes, Ordering::Relaxed);
    }
}

/// A program that starts, as named by its function.
#[derive(Clone, Copy)]
pub(crate) enum Program {
    /// By its path.
    Path(*const c_char),
    /// By a name that is searched for in `PATH`.
    File(*const c_char),
    /// By an open file.
    Open,
}

/// What to report about a program.
pub(crate) struct Told {
    line: Line,
    /// The position of the PID.
    kind: &'static [u8],
}

impl Told {
    /// Checks a program that is about to start; `None` if the libraries will be in it, or if it does not exist.
    ///
    /// # Safety
    /// The name of the program is null or ends in nul, if it can be read.
    pub(crate) unsafe fn of(program: Program, words: List, environment: List) -> Option<Told> {
        if N_PATH.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let words = Words::of(words)?;
        let environment = Words::of(environment);
        let named = |name: &[u8]| {
            let texts = environment.iter().flat_map(Words::texts);
            texts.map(|text| text.bytes()).find_map(|text| text.strip_prefix(name))
        };
        let preload = named(PRELOAD).unwrap_or_default();
        let mut path = [0_u8; PATH_BYTES];
        let is_preloaded = preload.windows(LIBRARY.len()).any(|part| part == LIBRARY);
        // SAFETY: the caller's promise.
        let path = unsafe { program.find(&mut path) };
        let kind: &[u8] = match (is_preloaded, path) {
            (true, Some(path)) if has_no_loader(path) => b"program\t",
            (true, _) => return None,
            // The system looks for it elsewhere, and finds it or not.
            (false, None) if !matches!(program, Program::Open) => return None,
            (false, _) if named(RUN).is_some() => b"unloaded\t",
            (false, _) => b"cleared\t",
        };
        let mut line = Line::new();
        line.push(b"\t");
        line.names(if kind == b"program\t" { b"" } else { preload });
        let first = words.texts().next().map(|text| text.bytes()).unwrap_or_default();
        line.word(path.map_or(first, CStr::to_bytes));
        words.texts().skip(1).take(2).for_each(|word| line.word(word.bytes()));
        Some(Told { line, kind })
    }

    /// Reports it as the program of this process, which is about to run it.
    pub(crate) fn tell(&self) {
        self.write(self.kind, own_process());
    }

    /// Withdraws the report, because the program did not start.
    pub(crate) fn take_back(&self) {
        self.write(b"failed\t", own_process());
    }

    /// Reports it as the program of a process.
    pub(crate) fn tell_of(&self, process: pid_t) {
        self.write(self.kind, process);
    }

    fn write(&self, kind: &[u8], process: pid_t) {
        let mut line = Line::new();
        line.push(kind);
        line.number(process);
        line.push(self.line.bytes());
        line.push(b"\n");
        append(line.bytes());
    }
}

/// Reports that another library's `malloc` comes before memreel's in this process.
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_is_behind() {
    let mut path = [0_u8; PATH_BYTES];
    // SAFETY: the system writes at most as many bytes as there are.
    let n = unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            libc::AT_FDCWD,
            c"/proc/self/exe".as_ptr(),
            path.as_mut_ptr(),
            PATH_BYTES,
        )
    };
    // This library may be initialised after the other one.
    keep_folder();
    let mut line = Line::new();
    line.word(b"");
    line.word(path.get(..usize::try_from(n).unwrap_or(0)).unwrap_or_default());
    if N_PATH.load(Ordering::Relaxed) > 0 {
        Told { line, kind: b"behind\t" }.tell();
    }
}

/// Reports a driver call that failed with this status for the `n`th time.
pub(crate) fn tell_call(function: &CStr, status: c_int, n: u32) {
    if N_PATH.load(Ordering::Relaxed) == 0 {
        return;
    }
    let mut line = Line::new();
    line.word(b"");
    line.word(function.to_bytes());
    for number in [status, c_int::try_from(n).unwrap_or(c_int::MAX)] {
        line.push(b"\t");
        line.number(number);
    }
    Told { line, kind: b"call\t" }.tell();
}

impl Program {
    /// Returns the path of the file, if this process may run it.
    ///
    /// # Safety
    /// The conditions of [`Told::of`].
    unsafe fn find(self, room: &mut [u8; PATH_BYTES]) -> Option<&CStr> {
        let name = match self {
            Program::Path(name) | Program::File(name) if !name.is_null() => name,
            _ => return None,
        };
        // A list of one text, so that what cannot be read is not.
        let list = [name, ptr::null()];
        let words = Words::of(list.as_ptr())?;
        let name = words.texts().next()?.bytes();
        if matches!(self, Program::Path(_)) || name.contains(&b'/') {
            return joined(room, b"", name).filter(|path| is_executable(path));
        }
        // SAFETY: the value stays while no thread changes the environment, as for the C library's own function.
        let folders = unsafe { variable(b"PATH=") }.unwrap_or(b"/bin:/usr/bin");
        let has = |folder: &[u8]| joined(&mut [0; PATH_BYTES], folder, name).is_some_and(is_executable);
        let folder = folders.split(|byte| *byte == b':').find(|folder| has(folder))?;
        joined(room, folder, name)
    }
}

/// Returns the path of a name in a folder; `None` if it is too long to be checked.
fn joined<'a>(room: &'a mut [u8; PATH_BYTES], folder: &[u8], name: &[u8]) -> Option<&'a CStr> {
    let n_folder = if folder.is_empty() { 0 } else { folder.len() + 1 };
    if n_folder + name.len() >= PATH_BYTES {
        return None;
    }
    room.fill(0);
    let (before, rest) = room.split_at_mut(n_folder);
    if let Some((slash, before)) = before.split_last_mut() {
        before.copy_from_slice(folder);
        *slash = b'/';
    }
    rest.get_mut(..name.len())?.copy_from_slice(name);
    CStr::from_bytes_until_nul(room).ok()
}

/// Returns whether a path is a program. If this process may not run it, the report is taken back.
fn is_executable(path: &CStr) -> bool {
    const ANY: libc::mode_t = libc::S_IXUSR | libc::S_IXGRP | libc::S_IXOTH;
    let found = with_file(path, libc::O_PATH | libc::O_CLOEXEC, plain).flatten();
    found.is_some_and(|found| found.st_mode & ANY != 0)
}

/// Returns whether a file appears to be a program without a loader, or with its own rights. `memreel record` checks
/// again.
fn has_no_loader(path: &CStr) -> bool {
    const RIGHTS: libc::mode_t = libc::S_ISUID | libc::S_ISGID;
    let mut head = [0_u8; HEAD_BYTES];
    let read = with_file(path, READ, |file| {
        let mode = plain(file)?.st_mode;
        Some((mode & RIGHTS != 0, read(file, &mut head)))
    });
    let Some((has_rights, n)) = read.flatten() else { return false };
    has_rights || head.get(..n).is_some_and(|head| is_without_loader(head) == Some(true))
}

/// Returns whether a program has no part that names a loader; `None` if the list of its parts is not there.
fn is_without_loader(head: &[u8]) -> Option<bool> {
    const IS_64: &[u8] = b"\x7fELF\x02\x01";
    const LOADER: u32 = 3;
    let half = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?) as usize);
    let word = |at: usize| Some(u32::from_le_bytes(*head.get(at..)?.first_chunk()?));
    if !head.starts_with(IS_64) {
        return None;
    }
    let (first, part_bytes, n_parts) = (word(32)? as usize, half(54)?, half(56)?);
    for part in 0..n_parts {
        if word(first.checked_add(part * part_bytes)?)? == LOADER {
            return Some(false);
        }
    }
    Some(true)
}

fn append(line: &[u8]) {
    let n_path = N_PATH.load(Ordering::Relaxed);
    // SAFETY: the path was written while the library was loaded.
    let path = unsafe { &*PATH.0.get() }.get(..n_path).unwrap_or_default();
    let Ok(path) = CStr::from_bytes_with_nul(path) else { return };
    let how = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // Others may have put a pipe there, which is not waited for.
    with_file(path, how | libc::O_NONBLOCK, |file| {
        let Some(end) = plain(file).map(|found| found.st_size) else { return };
        // Beyond the limit of file sizes a write would end the process.
        if end < MOST_BYTES && end + LINE_BYTES as i64 <= most_file_bytes() {
            // SAFETY: the line is there; a file has no other effect.
            unsafe { libc::syscall(libc::SYS_write, file, line.as_ptr(), line.len()) };
        }
    });
}

/// Returns the limit of file sizes; 0 if it is not known.
fn most_file_bytes() -> i64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the result is written into `limit`.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    i64::try_from(limit.rlim_cur).unwrap_or(i64::MAX)
}

/// Returns the number of this process; 0 if it is not known. The C library may remember that of a parent.
fn own_process() -> pid_t {
    let mut head = [0_u8; 16];
    let n = with_file(c"/proc/self/stat", READ, |file| read(file, &mut head)).unwrap_or(0);
    let digits = head.get(..n).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: pid_t, digit| number.wrapping_mul(10).wrapping_add(pid_t::from(digit - b'0')))
}

/// A line that is being built. What does not fit is left out.
struct Line {
    room: [u8; LINE_BYTES],
    n: usize,
}

impl Line {
    fn new() -> Line {
        Line { room: [0; LINE_BYTES], n: 0 }
    }

    fn bytes(&self) -> &[u8] {
        self.room.get(..self.n).unwrap_or_default()
    }

    fn push(&mut self, bytes: &[u8]) {
        // The last byte is that of the line's end.
        let most = LINE_BYTES - usize::from(bytes != b"\n");
        for byte in bytes {
            if let Some(place) = self.room.get_mut(..most).and_then(|room| room.get_mut(self.n)) {
                *place = *byte;
                self.n += 1;
            }
        }
    }

    /// Adds a word after a tab, without what could be taken for the end of it.
    fn word(&mut self, word: &[u8]) {
        self.push(b"\t");
        self.visible(word);
    }

    fn visible(&mut self, text: &[u8]) {
        text.iter().for_each(|byte| self.push(&[if byte.is_ascii_control() { b'?' } else { *byte }]));
    }

    /// Adds the names of the files of a list of libraries, as many as leave room for the program's.
    fn names(&mut self, list: &[u8]) {
        for path in list.split(|byte| matches!(byte, b':' | b' ')) {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let left = NAMES_BYTES.saturating_sub(self.n + 1);
            if !name.is_empty() && left > 0 {
                self.push(if self.n > 1 { b":" } else { b"" });
                self.visible(name.get(..left).unwrap_or(name));
            }
        }
    }

    fn number(&mut self, number: pid_t) {
        let (mut digits, mut rest, mut at) = ([0_u8; 10], number.unsigned_abs(), 10);
        while at > 0 && (rest > 0 || at == 10) {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.push(digits.get(at..).unwrap_or_default());
    }
}
