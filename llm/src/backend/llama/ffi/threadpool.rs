//! Threads that compute on CPUs.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use llama_cpp_sys_2 as sys;

use super::super::threads::Threads;
use crate::lock::lock;
use crate::settings::ThreadPriority;

/// A pool of ggml's threads, which wait for graphs to compute. The thread that starts a computation
/// is one of them.
#[derive(Debug)]
pub(crate) struct ThreadPool {
    raw: NonNull<sys::ggml_threadpool>,
    /// The CPUs of the threads, one each; empty if threads have no CPU of their own.
    #[cfg(target_os = "linux")]
    own_cpus: Vec<u32>,
}

impl ThreadPool {
    /// Starts the threads; the calling thread is one of them and takes their priority and CPUs.
    pub(crate) fn new(params: &Threads) -> Option<Self> {
        let count = params.decode.max(params.batch);
        // SAFETY: returns plain numbers.
        let mut raw = unsafe { sys::ggml_threadpool_params_default(count as i32) };
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
        // SAFETY: `raw` is filled in, and only read during the call.
        let raw = NonNull::new(unsafe { sys::ggml_threadpool_new(&raw mut raw) })?;
        Some(Self {
            raw,
            #[cfg(target_os = "linux")]
            own_cpus: if params.strict {
                params.cpus.clone()
            } else {
                Vec::new()
            },
        })
    }

    /// Calls `work` on this number of threads, as the only operation of a graph. If `work` panics,
    /// the calling thread panics after all threads are done. The pool must not be computing, so
    /// only the thread that computes with it may call this.
    pub(super) fn run(&self, threads: i32, work: &(dyn Fn() + Sync)) {
        let job = PoolJob {
            work,
            panic: Mutex::new(None),
        };
        // SAFETY: the context, made here and freed here, has room for the two tensors and the
        // graph. No tensor has data, and the operation looks at none. It reads `job`, which
        // outlives the computation.
        unsafe {
            let context = sys::ggml_init(sys::ggml_init_params {
                mem_size: 2 * sys::ggml_tensor_overhead()
                    + sys::ggml_graph_overhead_custom(GRAPH_NODES, false),
                mem_buffer: ptr::null_mut(),
                no_alloc: true,
            });
            let nothing = sys::ggml_new_tensor_1d(context, sys::GGML_TYPE_F32, 1);
            let job = (&raw const job).cast_mut().cast();
            let operation = sys::ggml_map_custom1(context, nothing, Some(call), ALL_THREADS, job);
            let graph = sys::ggml_new_graph_custom(context, GRAPH_NODES, false);
            sys::ggml_build_forward_expand(graph, operation);
            let mut plan = sys::ggml_graph_plan(graph, threads, self.as_ptr());
            // A computation fails only through an abort callback, and the plan has none.
            let _status = sys::ggml_graph_compute(graph, &raw mut plan);
            sys::ggml_free(context);
        }
        let panic = job
            .panic
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    pub(super) fn as_ptr(&self) -> *mut sys::ggml_threadpool {
        self.raw.as_ptr()
    }

    /// Ends the waiting threads. The calling thread, which belongs to the pool, may then run on any
    /// of the pool's CPUs until it computes. New threads begin on the CPU of the thread that starts
    /// them: if it had only one, they would all wait for that CPU before they moved to their own.
    pub(super) fn rest(&self) {
        end_waiting_threads();
        #[cfg(target_os = "linux")]
        if !self.own_cpus.is_empty() {
            run_on(&self.own_cpus);
        }
    }
}

/// Lets the calling thread run on these CPUs only.
#[cfg(target_os = "linux")]
fn run_on(cpus: &[u32]) {
    // SAFETY: the set is an array of bits; all zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.iter().map(|cpu| *cpu as usize) {
        if cpu < libc::CPU_SETSIZE as usize {
            // SAFETY: the set has a bit for this CPU.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
    }
    // SAFETY: the set is only read, and its size is correct. If the system refuses, the thread
    // keeps its CPUs.
    let _refused = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// Maximum number of nodes and leaves in a graph of [`ThreadPool::run`].
const GRAPH_NODES: usize = 8;
/// Value of ggml's macro `GGML_N_TASKS_MAX`.
const ALL_THREADS: c_int = -1;

/// The work of [`ThreadPool::run`], and its panic.
struct PoolJob<'a> {
    work: &'a (dyn Fn() + Sync),
    /// Payload of the last panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Runs the job, as the operation of the graph.
unsafe extern "C" fn call(
    _: *mut sys::ggml_tensor,
    _: *const sys::ggml_tensor,
    _: c_int,
    _: c_int,
    job: *mut c_void,
) {
    // SAFETY: `run` gives the operation a job that lives as long as the computation, and threads
    // only read it.
    let job = unsafe { &*job.cast::<PoolJob<'_>>() };
    // `AssertUnwindSafe`: nobody uses the results of a panicked job, because the panic continues in
    // the calling thread.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(job.work)) {
        *lock(&job.panic) = Some(panic);
    }
}

/// Ends the threads that OpenMP keeps for the next computation of the calling thread. That
/// computation then starts new ones.
///
/// GNU OpenMP counts these threads over the whole process. If there are more threads than CPUs,
/// none of them spins before it sleeps. The waiting threads of an idle engine would thus cost a
/// computing engine a third of its speed.
fn end_waiting_threads() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn omp_pause_resource_all(kind: std::ffi::c_int) -> std::ffi::c_int;
        }
        /// `omp_pause_soft` of OpenMP 5: keeps the program's settings.
        const PAUSE_SOFT: std::ffi::c_int = 1;
        // SAFETY: takes a plain number, and affects only threads that wait for the calling one. If
        // it cannot do this, it changes nothing and returns an error.
        let _refused = unsafe { omp_pause_resource_all(PAUSE_SOFT) };
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        // SAFETY: the pool is alive; the context that used it is dropped before it.
        unsafe { sys::ggml_threadpool_free(self.raw.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    fn pool() -> ThreadPool {
        let params = Threads {
            decode: 2,
            batch: 1,
            cpus: Vec::new(),
            strict: false,
            priority: ThreadPriority::Normal,
        };
        ThreadPool::new(&params).expect("the threads start")
    }

    fn threads(pool: &ThreadPool) -> usize {
        let seen = Mutex::new(HashSet::new());
        pool.run(2, &|| {
            seen.lock()
                .expect("no panic")
                .insert(thread::current().id());
        });
        seen.into_inner().expect("no panic").len()
    }

    #[test]
    fn work_runs_once_on_each_thread() {
        assert_eq!(threads(&pool()), 2);
    }

    #[test]
    fn a_panic_goes_on_in_the_calling_thread() {
        let pool = pool();
        let here = thread::current().id();
        let panics = || {
            assert_eq!(thread::current().id(), here, "on another thread");
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| pool.run(2, &panics)));
        assert!(outcome.is_err());
        assert_eq!(threads(&pool), 2);
    }
}
