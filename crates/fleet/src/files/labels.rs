//! The job and the rank that the path of a file names.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use memreel_snapshot::analysis::ranks::rank_of;

/// What a path has in place of a rank that is not known, as Hive writes it.
pub(crate) const NO_RANK: &str = "__HIVE_DEFAULT_PARTITION__";

/// Returns the job: `job=…` in the path, or else the folder that the file is in.
pub(super) fn job(path: &str) -> Option<String> {
    let folders: Vec<&str> = path.split('/').collect();
    let (_, folders) = folders.split_last()?;
    let named = folders.iter().rev().find_map(|folder| folder.strip_prefix("job="));
    let folder = || folders.iter().rev().find(|folder| !folder.is_empty()).map(|folder| (*folder).to_owned());
    named.map(unescaped).or_else(folder)
}

/// Returns the rank that the path names, as `memreel ranks` reads it.
pub(super) fn rank(path: &str) -> Option<i64> {
    i64::try_from(rank_of(path)?).ok()
}

/// Returns the job and the rank of exported rows: those of the folders `job=…/rank=…`.
pub(super) fn of_export(path: &str) -> (Option<String>, Option<i64>) {
    let mut folders = path.rsplit('/').skip(1);
    let rank = folders.next().and_then(|folder| folder.strip_prefix("rank=")?.parse().ok());
    let job = folders.next().and_then(|folder| folder.strip_prefix("job=")).filter(|job| *job != NO_RANK);
    (job.map(unescaped), rank)
}

/// Returns a text as part of a path: characters that a path, a pattern or a URL could read otherwise become `%XX`.
pub(crate) fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte) || byte >= 0x80;
    let mut bytes = Vec::new();
    for byte in text.bytes() {
        if is_plain(byte) {
            bytes.push(byte);
        } else {
            bytes.extend(format!("%{byte:02X}").bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the name of the Parquet files of a snapshot: the hash keeps snapshots of one name and rank apart.
pub(crate) fn export_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default();
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    format!("{}-{:08x}.parquet", escaped(stem), hasher.finish() & 0xffff_ffff)
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code =
            after.get(..2).and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_rows_have_the_rank_of_their_folder() {
        assert_eq!(
            of_export("/rank9/events/job=a%2Fb/rank=3/rank7.parquet"),
            (Some("a/b".to_owned()), Some(3))
        );
        let none = format!("/rank9/events/job={NO_RANK}/rank={NO_RANK}/rank7.parquet");
        assert_eq!(of_export(&none), (None, None));
    }

    #[test]
    fn jobs_are_folders_and_survive_a_path() {
        assert_eq!(job("/run/a/rank0.pickle").as_deref(), Some("a"));
        assert_eq!(job("/out/events/job=x%2Fy%25/rank=0/f.parquet").as_deref(), Some("x/y%"));
        for text in ["llama 7b", "a/b=c%d", "größe", ".."] {
            assert_eq!(job(&format!("job={}/f", escaped(text))).as_deref(), Some(text));
        }
        assert_eq!(job("f"), None);
    }
}
