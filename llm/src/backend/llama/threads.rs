//! Number, CPUs and priority of the threads that compute, checked against the limits of this
//! process.

use std::collections::HashSet;
use std::fs;

use super::devices;
use crate::memory_budget::field;
use crate::protocol::LoadError;
use crate::settings::{Device, Numa, PluginConfig, ThreadPriority};

/// The threads that compute for an engine.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    /// Number of threads that decode.
    pub(super) decode: u32,
    /// Number of threads that process prompts.
    pub(super) batch: u32,
    /// CPUs to run on; empty for all.
    pub(super) cpus: Vec<u32>,
    /// True if each thread gets one CPU of its own.
    pub(super) strict: bool,
    pub(super) priority: ThreadPriority,
}

impl Threads {
    /// # Errors
    /// [`LoadError::Spec`] if this process may not use a CPU or a priority that the spec names, or
    /// cannot tell which CPUs it may use.
    pub(super) fn new(knobs: &PluginConfig, device: Device, numa: Numa) -> Result<Self, LoadError> {
        let allowed = allowed_cpus();
        let mut cpus = knobs.cpu_affinity.clone().unwrap_or_default();
        cpus.sort_unstable();
        cpus.dedup();
        if !allowed.is_empty()
            && let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu))
        {
            let message = format!("names CPU {cpu}, but this process may only use {allowed:?}");
            return Err(LoadError::spec("cpu_affinity", message));
        }
        check_priority(knobs.thread_priority)?;
        let mut usable = cpus.clone();
        if usable.is_empty() {
            usable = allowed;
        }
        let default = || default_threads(&usable);
        let decode = knobs.threads.unwrap_or_else(default);
        let batch = knobs.batch_threads.unwrap_or(decode);
        let strict = knobs.cpu_strict.unwrap_or_else(|| {
            let no_gpu = !devices::have_gpus(device);
            no_gpu && numa == Numa::Off && is_one_for_each(decode, batch, &usable)
        });
        if strict && usable.is_empty() {
            return Err(LoadError::spec(
                "cpu_strict",
                "needs `cpu_affinity`: this system does not report the CPUs of a process",
            ));
        }
        if strict {
            cpus = usable;
        }
        Ok(Self {
            decode,
            batch,
            cpus,
            strict,
            priority: knobs.thread_priority,
        })
    }
}

/// Returns true if each thread has its own CPU by default.
pub(crate) fn threads_have_own_cpus() -> bool {
    let allowed = allowed_cpus();
    let threads = default_threads(&allowed);
    is_one_for_each(threads, threads, &allowed)
}

/// Returns true if the number of CPUs equals the number of threads. Threads that may run on any CPU
/// are sometimes put on the same one, where one waits for the other; so each gets a CPU of its own.
/// With fewer threads than CPUs, the system finds free ones, while a pinned thread would stay on a
/// busy CPU.
fn is_one_for_each(decode: u32, batch: u32, cpus: &[u32]) -> bool {
    decode == batch && decode as usize == cpus.len()
}

/// Counts the physical cores of these CPUs, because a second thread on a core only takes turns with
/// the first. Fewer if a quota gives the process less time.
fn default_threads(cpus: &[u32]) -> u32 {
    let usable = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match physical_cores(&cpuinfo, cpus) {
        0 => usable as u32,
        cores => usable.min(cores) as u32,
    }
}

/// Counts the distinct cores of these CPUs (of all, if none is given) in the text of
/// `/proc/cpuinfo`; 0 if it does not list cores.
fn physical_cores(cpuinfo: &str, cpus: &[u32]) -> usize {
    let mut cores = HashSet::new();
    for processor in cpuinfo.split("\n\n") {
        let value = |key: &str| {
            let mut entries = processor.lines().filter_map(|line| line.split_once(':'));
            let (_, value) = entries.find(|(name, _)| name.trim() == key)?;
            value.trim().parse::<u32>().ok()
        };
        let counts = value("processor").is_none_or(|cpu| cpus.is_empty() || cpus.contains(&cpu));
        if let (Some(package), Some(core), true) = (value("physical id"), value("core id"), counts)
        {
            cores.insert((package, core));
        }
    }
    cores.len()
}

/// Returns the CPUs that this process may use; empty if the system does not say.
fn allowed_cpus() -> Vec<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    cpu_list(field(&status, "Cpus_allowed_list:").unwrap_or_default())
}

/// Reads a list such as `0-3,8`.
fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// Refuses a real-time priority without the permission for it. ggml would otherwise fail to set it
/// at every graph.
fn check_priority(priority: ThreadPriority) -> Result<(), LoadError> {
    /// Bit of `CAP_SYS_NICE` in a set of capabilities.
    const SYS_NICE: u64 = 1 << 23;
    if matches!(priority, ThreadPriority::Low | ThreadPriority::Normal) {
        return Ok(());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let capabilities = field(&status, "CapEff:");
    let capabilities = capabilities.and_then(|set| u64::from_str_radix(set, 16).ok());
    let real_time = field(&limits, "Max realtime priority");
    let real_time = real_time.and_then(|limits| limits.split(' ').next());
    if capabilities.is_some_and(|set| set & SYS_NICE != 0)
        || real_time.is_some_and(|most| most != "0")
    {
        return Ok(());
    }
    let message = format!(
        "`{priority}` is real-time, and this process may not use it (CAP_SYS_NICE, or a limit `rtprio`)"
    );
    Err(LoadError::spec("thread_priority", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_share_a_core_and_only_named_cpus_count() {
        let processor = |cpu: u32, core: u32| {
            format!("processor\t: {cpu}\nphysical id\t: 0\ncore id\t\t: {core}\n")
        };
        let cpuinfo = [
            processor(0, 0),
            processor(1, 1),
            processor(2, 0),
            processor(3, 1),
        ]
        .join("\n");
        assert_eq!(physical_cores(&cpuinfo, &[]), 2);
        assert_eq!(physical_cores(&cpuinfo, &[0, 2]), 1);
        assert_eq!(physical_cores("processor : 0\nBogoMIPS : 50\n", &[]), 0);
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpu_list("\t0-2,5\n"), [0, 1, 2, 5]);
        assert!(cpu_list("").is_empty());
    }
}
