//! Tests modules with broken files: truncated, changed, or in another format. Every address still gets a name.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::super::{
    super::modules::{Fingerprint, Module},
    debug_file::Arena,
    demangle::demangle,
    image::{self, Probe},
};
use crate::process::testing::{
    library::{compile, compile_text},
    random::Random,
};

/// Returns a module with the present build of a file, so that the file is read instead of rejected.
fn module(path: &Path) -> Module {
    let data = fs::read(path).unwrap();
    let fingerprint = Fingerprint::of_file(&data).unwrap_or(Fingerprint::of_number(0));
    Module { path: path.into(), bias: 0, ranges: Vec::new(), fingerprint }
}

/// Returns the calls at some offsets, innermost first, `-` for none. No panic is caught: one fails the test.
fn names(path: &Path, offsets: &[u64]) -> Vec<String> {
    let arena = Arena::default();
    let probes: Vec<Probe> =
        offsets.iter().map(|offset| Probe { offset: *offset, is_return: true }).collect();
    let places = image::look_up(&module(path), &probes, &arena, &mut |text| Arc::from(text));
    let text = |call: &image::Call| format!("{}:{}", demangle(call.function.unwrap_or_default()), call.line);
    let texts = places.iter().map(|place| place.calls.iter().map(text).collect::<Vec<_>>().join(" < "));
    texts.map(|text| if text.is_empty() { "-".into() } else { text }).collect()
}

/// Returns the offset of the function `name` in a library.
fn offset_of(path: &Path, name: &str) -> u64 {
    use object::{Object, ObjectSymbol};
    let data = fs::read(path).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let is_it = |symbol: &object::Symbol<'_, '_>| symbol.name_bytes().unwrap() == name.as_bytes();
    file.dynamic_symbols().chain(file.symbols()).find(is_it).unwrap().address()
}

#[test]
fn a_file_cut_short_or_changed_anywhere_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let whole = compile(folder.path(), "sound", &["-Cdebuginfo=2"]);
    let offsets: Vec<u64> = (0..0x4000).step_by(97).chain([offset_of(&whole, "run"), u64::MAX - 1]).collect();
    let sound = names(&whole, &offsets);
    assert!(sound.contains(&"run:10".into()), "{sound:?}");
    let data = fs::read(&whole).unwrap();
    let broken = folder.path().join("broken.so");
    let mut random = Random::new(7);
    let mut random = |n: usize| random.index(n);
    let mut n_different = 0;
    for round in 0..3000 {
        let mut data = data.clone();
        if round % 3 == 0 {
            data.truncate(random(data.len()));
        }
        for _ in 0..random(12) {
            let n = data.len().max(1);
            // Half of the changes hit the headers and tables at either end.
            let at = if round % 2 == 0 { random(n) } else { n - 1 - random(n.min(4096)) };
            if let Some(byte) = data.get_mut(at) {
                *byte = [0, 0xff, 0x80, 0x7f, random(256) as u8][random(5)];
            }
        }
        fs::write(&broken, &data).unwrap();
        let names = names(&broken, &offsets);
        assert_eq!(names.len(), offsets.len());
        n_different += usize::from(names != sound);
    }
    assert!(n_different > 500, "only {n_different} of the files were broken where it matters");
}

#[test]
fn a_file_that_is_not_a_library_names_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (name, data) in [("empty", &b""[..]), ("text", b"not an ELF file"), ("magic", b"\x7fELF\x02\x01\x01")]
    {
        let path = folder.path().join(name);
        fs::write(&path, data).unwrap();
        assert_eq!(names(&path, &[0, 5]), ["-", "-"], "{name}");
    }
    let fingerprint = Fingerprint::of_number(0);
    let gone = Module { path: "/gone.so".into(), bias: 0, ranges: Vec::new(), fingerprint };
    let (arena, probe) = (Arena::default(), Probe { offset: 5, is_return: true });
    let places = image::look_up(&gone, &[probe], &arena, &mut |text| Arc::from(text));
    assert_eq!(places, [image::Place::default()]);
    assert!(Arena::default().map(folder.path()).is_none(), "a folder");
    assert!(Arena::default().map(Path::new("/dev/zero")).is_none(), "a device");
}

#[test]
fn lines_are_found_where_linkers_put_them() {
    let folder = tempfile::tempdir().unwrap();
    let inlined = "core::hint::black_box";
    let ways: [(&str, &[&str], &str, bool); 5] = [
        ("in_file", &["-Cdebuginfo=2"], "run:10", true),
        ("packed", &["-Cdebuginfo=2", "-Csplit-debuginfo=packed"], "run:10", true),
        ("unpacked", &["-Cdebuginfo=2", "-Csplit-debuginfo=unpacked"], "run:10", true),
        ("zlib", &["-Cdebuginfo=2", "-Clink-arg=-Wl,--compress-debug-sections=zlib"], "run:10", true),
        ("none", &["-Cdebuginfo=0", "-Cstrip=symbols"], "run:0", false),
    ];
    for (name, options, expected, has_inlined) in ways {
        let path = compile(folder.path(), name, options);
        let run = offset_of(&path, "run");
        let names = names(&path, &(run..run + 48).collect::<Vec<_>>());
        assert_eq!(names[0], expected, "{name}");
        let is_inlined = |name: &String| name.starts_with(inlined) && name.contains(" < run:11");
        assert_eq!(names.iter().any(is_inlined), has_inlined, "{name}: {names:?}");
    }
}

/// Creates a library that contains only a link to `full.debug`, with a checksum.
fn linked(folder: &Path, name: &str, checksum: u32) -> PathBuf {
    let bytes = [&b"full.debug\0\0"[..], &checksum.to_ne_bytes()].concat();
    let text = format!(
        "#![no_std]
        #[panic_handler] fn panic(_: &core::panic::PanicInfo) -> ! {{ loop {{}} }}
        #[used] #[unsafe(link_section = \".gnu_debuglink\")] static LINK: [u8; 16] = {bytes:?};"
    );
    compile_text(folder, name, &text, &["-Clink-arg=-Wl,--build-id=none"])
}

#[test]
fn a_separate_debug_file_must_be_of_the_same_build() {
    let folder = tempfile::tempdir().unwrap();
    let full = compile(folder.path(), "full", &["-Cdebuginfo=2", "-Clink-arg=-Wl,--build-id=none"]);
    let debug = folder.path().join("full.debug");
    fs::rename(&full, &debug).unwrap();
    let (run, checksum) = (offset_of(&debug, "run"), crc32fast::hash(&fs::read(&debug).unwrap()));
    let right = linked(folder.path(), "right", checksum);
    assert_eq!(names(&right, &[run]), ["run:10"]);
    assert_ne!(names(&linked(folder.path(), "wrong", checksum ^ 1), &[run]), ["run:10"]);
    fs::create_dir(folder.path().join(".debug")).unwrap();
    fs::rename(&debug, folder.path().join(".debug/full.debug")).unwrap();
    assert_eq!(names(&right, &[run]), ["run:10"]);
}
