//! The storage of threads, for which the loader allocates.

use super::{HERE, assert_valid, cc, live, printed, recorded, snapshots};

/// A report uses such storage too. With glibc 2.39 and later, which brings all tables up to date at any use, it would ask for it
/// again and again if the loader's own requests were reported.
#[test]
fn storage_of_many_libraries_is_made_as_without_it() {
    const N: usize = 60;
    let (folder, tapes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let source = format!("{HERE}/storage.c");
    let first = path("lib0.so");
    cc(&["-shared", "-fPIC", "-DLIBRARY", "-o", &first, &source]);
    for n in 1..N {
        std::fs::copy(&first, path(&format!("lib{n}.so"))).unwrap();
    }
    let program = folder.path().join("storage");
    cc(&["-o", program.to_str().unwrap(), &source, "-ldl", "-lpthread"]);
    for stacks in ["none", "all"] {
        let done = recorded(&program, tapes.path(), &[])
            .env("MEMREEL", format!("all,stacks={stacks}"))
            .args([folder.path().to_str().unwrap(), &N.to_string()])
            .output()
            .unwrap();
        assert!(done.status.success(), "{stacks}: {done:?}");
        for snapshot in snapshots(tapes.path()) {
            assert_eq!(live(&snapshot, 100_000), printed(&done), "{stacks}");
            assert_valid(&snapshot);
        }
    }
}
