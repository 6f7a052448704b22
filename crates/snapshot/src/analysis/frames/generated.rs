//! Files that torch.compile generates.

use crate::words::paths::with_slashes;

/// Returns whether torch.compile generated a file: it is in the compiler's own folder of the system's temporary files,
/// or in a cache elsewhere, where the name of `cg/ccgln3….py` is a `c` and 51 characters of a hash, and its folder is
/// named by the first two of them.
pub(in crate::analysis) fn is_generated(filename: &str) -> bool {
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
