//! How many threads compute.

/// Physical cores, as far as this process may use them: a second thread on a core only takes turns with the first.
pub(super) fn default_threads() -> u32 {
    let usable = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores =
        std::fs::read_to_string("/proc/cpuinfo").map_or(0, |cpuinfo| physical_cores(&cpuinfo));
    (if cores == 0 {
        usable
    } else {
        usable.min(cores)
    }) as u32
}

/// Counts the distinct cores in the text of `/proc/cpuinfo`; 0 where it does not name them.
fn physical_cores(cpuinfo: &str) -> usize {
    let mut cores = Vec::new();
    for processor in cpuinfo.split("\n\n") {
        let value = |key: &str| {
            let line = processor.lines().find(|line| {
                line.split(':')
                    .next()
                    .is_some_and(|name| name.trim() == key)
            })?;
            line.split(':').nth(1)?.trim().parse::<u32>().ok()
        };
        if let (Some(package), Some(core)) = (value("physical id"), value("core id")) {
            cores.push((package, core));
        }
    }
    cores.sort_unstable();
    cores.dedup();
    cores.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_share_a_core() {
        let processor =
            |core: u32| format!("processor\t: 0\nphysical id\t: 0\ncore id\t\t: {core}\n");
        let cpuinfo = [processor(0), processor(1), processor(0), processor(1)].join("\n");
        assert_eq!(physical_cores(&cpuinfo), 2);
        assert_eq!(physical_cores("processor : 0\nBogoMIPS : 50\n"), 0);
    }
}
