//! Restricts the files that questions may be about.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// The folders whose files may be asked about.
#[derive(Clone, Debug)]
pub(crate) struct Roots(Vec<PathBuf>);

impl Roots {
    /// Resolves the folders. Without any, questions may be about every file.
    pub(crate) fn new(folders: &[PathBuf]) -> io::Result<Roots> {
        let resolved = |folder: &PathBuf| match fs::canonicalize(folder) {
            Ok(path) if path.is_dir() => Ok(path),
            Ok(_) => Err(io::Error::new(io::ErrorKind::NotADirectory, not_a_folder(folder, "it is a file"))),
            Err(error) => Err(io::Error::new(error.kind(), not_a_folder(folder, &error.to_string()))),
        };
        folders.iter().map(resolved).collect::<io::Result<_>>().map(Roots)
    }

    /// Returns the variable that restricts a question to the folders; `None` if questions may be about every file.
    ///
    /// # Errors
    /// A folder's name contains a colon, which separates names.
    pub(crate) fn variable(&self) -> io::Result<Option<(&'static str, OsString)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let joined = env::join_paths(&self.0).map_err(|_| {
            io::Error::new(io::ErrorKind::NotFound, "a folder name for --root has a colon; rename the folder")
        })?;
        Ok(Some(("MEMREEL_ROOTS", joined)))
    }

    /// Returns the path of a file without links: a regular file below one of the folders.
    pub(crate) fn file(&self, name: &str) -> Result<PathBuf, String> {
        if name == "-" {
            return Err("standard input cannot be used here; give the path of a snapshot".to_owned());
        }
        let path = match fs::canonicalize(name) {
            Ok(path) if self.has(&path) => path,
            // Whether a file outside of the folders exists is not reported either.
            Ok(_) => return Err(self.outside(name)),
            Err(_) if !self.0.is_empty() => return Err(self.outside(name)),
            Err(error) => return Err(format!("{name}: cannot be read: {error}")),
        };
        match fs::metadata(&path) {
            Ok(found) if found.is_file() => Ok(path),
            Ok(found) if found.is_dir() => {
                Err(format!("{name}: a folder; give the path of a snapshot in it"))
            }
            Ok(_) => Err(format!("{name}: a pipe or a device; give the path of a regular file")),
            Err(error) => Err(format!("{name}: cannot be read: {error}")),
        }
    }

    fn has(&self, path: &Path) -> bool {
        self.0.is_empty() || self.0.iter().any(|root| path.starts_with(root))
    }

    fn outside(&self, name: &str) -> String {
        let roots: Vec<_> = self.0.iter().map(|root| root.display().to_string()).collect();
        format!("{name}: not in a folder of --root, which are {}", roots.join(", "))
    }
}

fn not_a_folder(folder: &Path, why: &str) -> String {
    format!("{} is not a folder for --root: {why}", folder.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    #[test]
    fn only_regular_files_below_a_root_are_found() {
        let all = tempfile::tempdir().unwrap();
        let inside = all.path().join("inside");
        fs::create_dir(&inside).unwrap();
        for file in [all.path().join("secret"), inside.join("a")] {
            fs::write(file, "x").unwrap();
        }
        symlink(all.path().join("secret"), inside.join("link")).unwrap();
        symlink(inside.join("a"), inside.join("good")).unwrap();
        let _socket = UnixListener::bind(inside.join("socket")).unwrap();

        let roots = Roots::new(std::slice::from_ref(&inside)).unwrap();
        let ask = |name: &str| roots.file(inside.join(name).to_str().unwrap());
        assert_eq!(ask("a").unwrap(), fs::canonicalize(inside.join("a")).unwrap());
        assert_eq!(ask("good"), ask("a"));
        for outside in ["link", "../secret", "../missing", "missing", "/etc/passwd"] {
            assert!(ask(outside).unwrap_err().contains("not in a folder of --root"), "{outside}");
        }
        assert!(ask(".").unwrap_err().contains("a folder"));
        assert!(ask("socket").unwrap_err().contains("a pipe or a device"));
        assert!(ask("a\0b").is_err());

        let every = Roots::new(&[]).unwrap();
        assert!(every.file(all.path().join("secret").to_str().unwrap()).is_ok());
        assert!(every.file("/dev/zero").unwrap_err().contains("a pipe or a device"));
        assert!(every.file("-").unwrap_err().contains("standard input"));
        assert!(every.file("/no/such/file").unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_root_is_a_folder() {
        assert!(Roots::new(&["/etc/passwd".into()]).unwrap_err().to_string().contains("it is a file"));
        assert!(Roots::new(&["/no/such/folder".into()]).unwrap_err().to_string().contains("--root"));
    }
}
