//! Reads the host memory of a process's group (its cgroup), for both versions of the kernel's interface.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use memreel_snapshot::words::GroupReport;

/// Limits of at least this size mean none: version 1 uses the largest multiple of a page for that.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// Returns the report of the group of a process, by its folder in `/proc`.
pub(super) fn report(process: &Path) -> Option<GroupReport> {
    let groups = fs::read_to_string(process.join("cgroup")).ok()?;
    let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    let is_unified = |line: &str| line.starts_with("0::");
    let has_memory =
        |line: &str| line.split(':').nth(1).is_some_and(|all| all.split(',').any(|of| of == "memory"));
    let path = |line: &str| line.splitn(3, ':').nth(2).map(str::to_owned);
    let old = groups.lines().find(|line| has_memory(line)).and_then(path);
    let new = groups.lines().find(|line| is_unified(line)).and_then(path);
    let of_old = || version_1(&folder(&mounts, "cgroup", &old?)?);
    let of_new = || version_2(folder(&mounts, "cgroup2", &new?)?);
    of_old().or_else(of_new)
}

/// Returns the folder of a group: where its hierarchy is mounted, and the group's path below what is mounted there.
fn folder(mounts: &str, kind: &str, group: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let mut words = source.split(' ');
        if words.next() != Some(kind) {
            return None;
        }
        let options = words.nth(1).unwrap_or("");
        if kind == "cgroup" && !options.split(',').any(|option| option == "memory") {
            return None;
        }
        let mut words = mount.split(' ').skip(3);
        let (root, place) = (words.next()?, words.next()?);
        let below = if root == "/" { group } else { group.strip_prefix(root).unwrap_or("/") };
        Some(Path::new(place).join(below.trim_start_matches('/')))
    })
}

fn number(folder: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

/// Returns the number in a line such as `file 4096`.
fn field(text: &str, key: &str) -> u64 {
    let of_line = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(of_line).unwrap_or(0)
}

fn version_2(group: PathBuf) -> Option<GroupReport> {
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let events = fs::read_to_string(group.join("memory.events")).unwrap_or_default();
    // The limits of all groups that contain a group apply to it.
    let limits =
        group.ancestors().map_while(|of| of.join("memory.stat").exists().then(|| number(of, "memory.max")));
    let of_kernel = match field(&stat, "kernel") {
        0 => {
            ["kernel_stack", "pagetables", "percpu", "sock", "slab"].map(|key| field(&stat, key)).iter().sum()
        }
        bytes => bytes,
    };
    Some(GroupReport {
        used_bytes: number(&group, "memory.current")?,
        peak_bytes: number(&group, "memory.peak"),
        limit_bytes: limits.flatten().min(),
        cache_bytes: field(&stat, "file").saturating_sub(field(&stat, "shmem")),
        shared_bytes: field(&stat, "shmem"),
        kernel_bytes: of_kernel,
        n_killed: field(&events, "oom_kill"),
    })
}

fn version_1(group: &Path) -> Option<GroupReport> {
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let events = fs::read_to_string(group.join("memory.oom_control")).unwrap_or_default();
    let limits =
        [field(&stat, "hierarchical_memory_limit"), number(group, "memory.limit_in_bytes").unwrap_or(0)];
    Some(GroupReport {
        used_bytes: number(group, "memory.usage_in_bytes")?,
        peak_bytes: number(group, "memory.max_usage_in_bytes"),
        limit_bytes: limits.into_iter().filter(|bytes| (1..NO_LIMIT_BYTES).contains(bytes)).min(),
        cache_bytes: field(&stat, "total_cache").saturating_sub(field(&stat, "total_shmem")),
        shared_bytes: field(&stat, "total_shmem"),
        kernel_bytes: number(group, "memory.kmem.usage_in_bytes").unwrap_or(0),
        n_killed: field(&events, "oom_kill"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder in place of `/proc/self`, and the files of a group.
    fn process(root: &Path, groups: &str, mounts: &str, files: &[(&str, &str)]) -> PathBuf {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(root.join("cgroup"), groups).unwrap();
        fs::write(root.join("mountinfo"), mounts).unwrap();
        root.to_owned()
    }

    #[test]
    fn a_group_of_version_2_has_the_limits_of_those_around_it() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().display();
        let mounts = format!("31 24 0:27 /pod {at}/fs rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
        let files = [
            ("fs/memory.stat", ""),
            ("fs/memory.max", "4096000\n"),
            ("fs/box/memory.current", "1000\n"),
            ("fs/box/memory.peak", "2000\n"),
            ("fs/box/memory.max", "max\n"),
            ("fs/box/memory.stat", "anon 1\nfile 700\nshmem 200\nkernel 50\n"),
            ("fs/box/memory.events", "max 5\noom 3\noom_kill 2\n"),
        ];
        let process = process(root.path(), "0::/pod/box\n", &mounts, &files);
        let expected = GroupReport {
            used_bytes: 1000,
            peak_bytes: Some(2000),
            limit_bytes: Some(4_096_000),
            cache_bytes: 500,
            shared_bytes: 200,
            kernel_bytes: 50,
            n_killed: 2,
        };
        assert_eq!(report(&process), Some(expected));
    }

    #[test]
    fn a_group_of_version_1_is_read_and_no_group_is_none() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().display();
        let mounts = format!(
            "30 24 0:26 / {at}/unified rw - cgroup2 none rw\n31 24 0:27 / {at}/mem rw - cgroup cgroup rw,memory\n"
        );
        let files = [
            ("mem/a/memory.usage_in_bytes", "1000\n"),
            ("mem/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ("mem/a/memory.stat", "cache 1\ntotal_cache 700\ntotal_shmem 200\n"),
        ];
        let process = process(root.path(), "4:cpu:/a\n5:memory:/a\n0::/\n", &mounts, &files);
        let found = report(&process).unwrap();
        assert_eq!((found.used_bytes, found.limit_bytes, found.cache_bytes), (1000, None, 500));
        assert_eq!((found.peak_bytes, found.n_killed), (None, 0));
        fs::write(process.join("cgroup"), "0::/\n").unwrap();
        assert_eq!(report(&process), None);
    }
}
