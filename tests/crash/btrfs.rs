//! A small file system of btrfs, which copies what is written twice.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// The file system; it is unmounted with the value.
pub(crate) struct Btrfs {
    _image: tempfile::NamedTempFile,
    at: PathBuf,
}

impl Btrfs {
    /// Mounts one at a folder; `None` without the rights or `mkfs.btrfs`.
    pub(crate) fn mount(at: &Path) -> Option<Btrfs> {
        let image = tempfile::NamedTempFile::new().ok()?;
        image.as_file().set_len(200 << 20).ok()?;
        let is_done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let is_made = is_done(Command::new("mkfs.btrfs").args(["-q", "-f"]).arg(image.path()));
        let is_there =
            is_made && is_done(Command::new("mount").args(["-o", "loop"]).arg(image.path()).arg(at));
        is_there.then(|| Btrfs { _image: image, at: at.to_owned() })
    }

    /// Fills it.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.at.join("fill")).unwrap();
        // Not compressible, and not the same.
        let mut part: Vec<u8> = Vec::new();
        for number in 0_u64.. {
            part.clear();
            part.extend(
                (0..1 << 17_u64).flat_map(|at: u64| {
                    (at ^ number << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_ne_bytes()
                }),
            );
            if file.write_all(&part).and_then(|()| file.sync_data()).is_err() {
                return;
            }
        }
    }
}

impl Drop for Btrfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}
