//! The system's memory limits for a process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::lock;

/// Limits on the memory of this process. They are read once; the memory left under them changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryLimits {
    groups: Vec<ControlGroup>,
    /// Maximum size of the address space; the next field limits data. In bytes.
    address_space: Option<u64>,
    data: Option<u64>,
    machine: Option<u64>,
}

/// A control group with a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ControlGroup {
    limit: u64,
    used: PathBuf,
    stat: PathBuf,
    /// The key in `stat` for file pages in memory that were not used lately, in bytes. They are
    /// freed when others need memory.
    files: &'static str,
}

impl MemoryLimits {
    /// Reads the limits; a limit that the system does not report is left out.
    pub(crate) fn for_this_process() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (limits, groups) = (read("/proc/self/limits"), read("/proc/self/cgroup"));
        Self {
            groups: groups_of(&groups, Path::new("/sys/fs/cgroup")),
            address_space: soft_limit(&limits, "Max address space"),
            data: soft_limit(&limits, "Max data size"),
            machine: in_kib(&read("/proc/meminfo"), "MemTotal:"),
        }
    }

    pub(crate) fn limits_mappings(&self) -> bool {
        self.address_space.or(self.data).is_some()
    }

    /// Returns the smallest limit, in bytes.
    pub(super) fn total(&self) -> u64 {
        let groups = self.groups.iter().map(|group| group.limit);
        let others = [self.address_space, self.data, self.machine];
        groups
            .chain(others.into_iter().flatten())
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Returns the bytes left under the tightest limit, as if all KV cells were in use.
    pub(crate) fn left(&self) -> u64 {
        let resident = match self.resident_left() {
            u64::MAX => u64::MAX,
            left => left.saturating_sub(unbacked()),
        };
        resident.min(self.virtual_left())
    }

    /// Number of bytes that can still become resident.
    fn resident_left(&self) -> u64 {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let machine = in_kib(&meminfo, "MemAvailable:").unwrap_or(u64::MAX);
        let groups = self.groups.iter().filter_map(ControlGroup::left);
        groups.fold(machine, u64::min)
    }

    /// Number of bytes that can still be mapped.
    fn virtual_left(&self) -> u64 {
        if !self.limits_mappings() {
            return u64::MAX;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let left = |limit: Option<u64>, used: &str| match (limit, in_kib(&status, used)) {
            (Some(limit), Some(used)) => limit.saturating_sub(used),
            _ => u64::MAX,
        };
        let mapped = left(self.address_space, "VmSize:").min(left(self.data, "VmData:"));
        // Memory that was freed but not unmapped is available to the next allocation.
        mapped.saturating_add((super::allocator().freed)())
    }
}

impl ControlGroup {
    /// Reads a group, whose files are in `folder`.
    fn read(folder: &Path, limit: &str, used: &str, files: &'static str) -> Option<Self> {
        let limit = fs::read_to_string(folder.join(limit)).ok()?;
        Some(Self {
            // The text is `max` if there is no limit.
            limit: limit.trim().parse().ok()?,
            used: folder.join(used),
            stat: folder.join("memory.stat"),
            files,
        })
    }

    fn left(&self) -> Option<u64> {
        let used: u64 = fs::read_to_string(&self.used).ok()?.trim().parse().ok()?;
        let stat = fs::read_to_string(&self.stat).unwrap_or_default();
        let files = field(&stat, self.files).and_then(|bytes| bytes.parse::<u64>().ok());
        Some((self.limit + files.unwrap_or(0)).saturating_sub(used))
    }
}

/// Returns the limited groups of a process and their parents, from `/proc/self/cgroup`. In a
/// container the paths may be those outside it; the container's own group is then at the root.
fn groups_of(cgroup: &str, root: &Path) -> Vec<ControlGroup> {
    let mut groups = Vec::new();
    for line in cgroup.lines() {
        let fields = line
            .split_once(':')
            .and_then(|(_, fields)| fields.split_once(':'));
        let Some((controllers, path)) = fields else {
            continue;
        };
        let (mount, limit, used, files) = if controllers.is_empty() {
            let files = "inactive_file ";
            (root.to_owned(), "memory.max", "memory.current", files)
        } else if controllers.split(',').any(|name| name == "memory") {
            let (limit, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
            (root.join("memory"), limit, used, "total_inactive_file ")
        } else {
            continue;
        };
        for folder in Path::new(path).ancestors() {
            let folder = mount.join(folder.strip_prefix("/").unwrap_or(folder));
            let group = ControlGroup::read(&folder, limit, used, files);
            // In version 1 of cgroups, an absent limit is a number near the maximum.
            groups.extend(group.filter(|group| group.limit < 1 << 60));
        }
    }
    groups
}

/// Returns the text behind the name of a line.
pub(crate) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map(str::trim)
}

/// Parses a limit of `/proc/self/limits`; `None` if it is unlimited.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    field(limits, name)?.split(' ').next()?.parse().ok()
}

/// Parses a number of KiB and returns it in bytes.
fn in_kib(text: &str, name: &str) -> Option<u64> {
    let kib: u64 = field(text, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns the bytes of KV cells that have no memory yet. With many cells the count takes a while,
/// so it is not done often.
fn unbacked() -> u64 {
    static FOUND: Mutex<Option<(Instant, Duration, u64)>> = Mutex::new(None);
    let mut found = lock(&FOUND);
    if let Some((at, took, bytes)) = *found
        && at.elapsed() < 50 * took
    {
        return bytes;
    }
    let at = Instant::now();
    let bytes = (super::allocator().unbacked)();
    *found = Some((at, at.elapsed(), bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(root: &Path, path: &str, files: &[(&str, &str)]) {
        let folder = root.join(path);
        fs::create_dir_all(&folder).expect("writable");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("writable");
        }
    }

    #[test]
    fn the_smallest_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let root = root.path();
        folder(
            root,
            "a",
            &[("memory.max", "5000\n"), ("memory.current", "1000\n")],
        );
        folder(
            root,
            "a/b",
            &[
                ("memory.max", "3000\n"),
                ("memory.current", "1000\n"),
                (
                    "memory.stat",
                    "anon 600\ninactive_file 400\nactive_file 7\n",
                ),
            ],
        );
        folder(
            root,
            "a/b/c",
            &[("memory.max", "max\n"), ("memory.current", "10\n")],
        );
        let groups = groups_of("0::/a/b/c\n", root);
        let left: Vec<_> = groups.iter().filter_map(ControlGroup::left).collect();
        assert_eq!(left, [2400, 4000]);
        let limits = MemoryLimits {
            groups,
            ..MemoryLimits::default()
        };
        assert_eq!(limits.total(), 3000);
    }

    #[test]
    fn groups_of_the_first_version_are_read() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let root = root.path();
        let file = |limit: &'static str| {
            [
                ("memory.limit_in_bytes", limit),
                ("memory.usage_in_bytes", "100"),
            ]
        };
        folder(root, "memory/x", &file("900"));
        folder(root, "memory", &file("9223372036854771712"));
        let text = "8:cpu,cpuacct:/x\n4:memory:/x/elsewhere\n0::/\n";
        let left: Vec<_> = groups_of(text, root)
            .iter()
            .filter_map(ControlGroup::left)
            .collect();
        assert_eq!(left, [800]);
        assert_eq!(groups_of("", root), []);
    }

    #[test]
    fn limits_of_a_process_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
            Max data size             unlimited            unlimited            bytes\n\
            Max address space         1048576              unlimited            bytes\n";
        assert_eq!(soft_limit(text, "Max address space"), Some(1 << 20));
        assert_eq!(soft_limit(text, "Max data size"), None);
        assert_eq!(
            in_kib("VmPeak:\t 9 kB\nVmSize:\t  12 kB\n", "VmSize:"),
            Some(12 << 10)
        );
    }
}
