//! The threads that compute on CPUs.

use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use crate::spec::ThreadPriority;

/// How a pool of threads is made.
#[derive(Clone, Debug)]
pub(in crate::backend::llama) struct ThreadPoolParams {
    pub(in crate::backend::llama) threads: u32,
    /// CPUs to run on; empty for all.
    pub(in crate::backend::llama) cpus: Vec<u32>,
    /// One CPU for each thread.
    pub(in crate::backend::llama) strict: bool,
    pub(in crate::backend::llama) priority: ThreadPriority,
    /// From 0 to 100; `None` is ggml's default.
    pub(in crate::backend::llama) poll: Option<u32>,
}

/// Threads of ggml, which wait for graphs to compute. The thread that computes is one of them.
#[derive(Debug)]
pub(in crate::backend::llama) struct ThreadPool(NonNull<sys::ggml_threadpool>);

impl ThreadPool {
    /// Starts the threads; the calling thread is one of them and takes their priority and CPUs.
    pub(in crate::backend::llama) fn new(params: &ThreadPoolParams) -> Option<Self> {
        // SAFETY: returns plain numbers.
        let mut raw = unsafe { sys::ggml_threadpool_params_default(params.threads as i32) };
        for cpu in &params.cpus {
            if let Some(used) = raw.cpumask.get_mut(*cpu as usize) {
                *used = true;
            }
        }
        raw.strict_cpu = params.strict;
        raw.prio = match params.priority {
            ThreadPriority::Low => sys::GGML_SCHED_PRIO_LOW,
            ThreadPriority::Normal => sys::GGML_SCHED_PRIO_NORMAL,
            ThreadPriority::Medium => sys::GGML_SCHED_PRIO_MEDIUM,
            ThreadPriority::High => sys::GGML_SCHED_PRIO_HIGH,
            ThreadPriority::Realtime => sys::GGML_SCHED_PRIO_REALTIME,
        };
        if let Some(poll) = params.poll {
            raw.poll = poll;
        }
        // SAFETY: `raw` is filled in, and only read during the call.
        NonNull::new(unsafe { sys::ggml_threadpool_new(&raw mut raw) }).map(Self)
    }

    pub(super) fn as_ptr(&self) -> *mut sys::ggml_threadpool {
        self.0.as_ptr()
    }
}

/// Ends the threads that OpenMP keeps for the next computation of the calling thread, which then starts new ones.
///
/// GNU OpenMP counts these threads over the whole process. Where there are more than CPUs, no thread spins before it sleeps, and
/// an engine that computes would pay with a third of its speed for one that does nothing.
pub(in crate::backend::llama) fn end_waiting_threads() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn omp_pause_resource_all(kind: std::ffi::c_int) -> std::ffi::c_int;
        }
        /// `omp_pause_soft` of OpenMP 5: what the program has set is kept.
        const PAUSE_SOFT: std::ffi::c_int = 1;
        // SAFETY: takes a plain number, and affects no threads but those that wait for the calling one. It refuses, by its result,
        // what it cannot do, which changes nothing.
        let _refused = unsafe { omp_pause_resource_all(PAUSE_SOFT) };
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        // SAFETY: the pool is alive; the context that used it is dropped before it.
        unsafe { sys::ggml_threadpool_free(self.0.as_ptr()) }
    }
}
