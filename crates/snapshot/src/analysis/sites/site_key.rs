//! Matches sites across snapshots: stacks by the texts of their frames, because their numbers differ.

use super::site::Site;
use crate::{
    analysis::ShownFrames,
    history::{FrameIds, TextIds},
    model::{Frame, Text},
    words::paths::with_slashes,
};

/// A site that compares across snapshots.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SiteKey {
    /// The numbers of the identifying frames.
    Calls(Box<[u64]>),
    Size(u64),
    Owner(Text),
}

/// Numbers the frames of several snapshots.
#[derive(Debug, Default)]
pub(crate) struct SiteKeys<'a> {
    frames: FrameIds<'a>,
    /// The names of functions in generated files.
    generated: TextIds<'a>,
}

/// The offset added to the number of a function in a generated file.
const GENERATED: u64 = 1 << 32;

impl<'a> SiteKeys<'a> {
    /// Returns the key of a site; `shown` belongs to its snapshot.
    pub(crate) fn of(&mut self, site: &Site, shown: &ShownFrames<'a>) -> SiteKey {
        match site {
            Site::Stack(stack) => {
                SiteKey::Calls(shown.identifying_frames(*stack).map(|frame| self.frame(frame)).collect())
            }
            Site::Size(bytes) => SiteKey::Size(*bytes),
            Site::Owner(owner) => SiteKey::Owner(owner.clone()),
            _ => SiteKey::Size(0),
        }
    }

    /// Returns the number of a frame: frames with the same name, file and line have the same number. Files that
    /// torch.compile generates are named by a hash of their content, which differs from run to run: for these only the
    /// function counts.
    fn frame(&mut self, frame: &'a Frame) -> u64 {
        if is_generated(&frame.filename) {
            GENERATED | u64::from(self.generated.id(&frame.name))
        } else {
            u64::from(self.frames.id(frame))
        }
    }
}

/// Returns whether torch.compile generated a file: it is in the compiler's own folder of the system's temporary files,
/// or in a cache elsewhere, where the name of `cg/ccgln3….py` is a `c` and 51 characters of a hash, and its folder is
/// named by the first two of them.
fn is_generated(filename: &str) -> bool {
    const HASH: usize = 51;
    let path = with_slashes(filename);
    let mut parts = path.rsplit('/');
    let hash = parts.next().and_then(|name| name.strip_prefix('c')?.strip_suffix(".py"));
    let is_hash = |hash: &str| hash.len() == HASH && hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
    path.contains("torchinductor_")
        || hash.zip(parts.next()).is_some_and(|(hash, folder)| is_hash(hash) && hash[..2] == *folder)
}

#[cfg(test)]
mod tests {
    use super::is_generated;

    #[test]
    fn files_of_the_compiler_are_known_wherever_they_are() {
        let hash = "cgln3pvg53epprj6bixvear4p42le6tgqbnh2kqxiqrrsibdqte";
        assert!(is_generated(&format!("/scratch/cache/cg/c{hash}.py")));
        assert!(is_generated(&format!(r"D:\cache\cg\c{hash}.py")));
        assert!(is_generated("/tmp/torchinductor_me/xy/model.py"));
        assert!(!is_generated(&format!("/scratch/cache/cx/c{hash}.py")));
        for path in ["", "c.py", "/a/cg/cg.py", "/a/om/common.py"] {
            assert!(!is_generated(path), "{path}");
        }
    }
}
