//! `GM07xx`: executors.

/// A node on a pool that its graph declares.
const WITH_POOL: &str = r#"executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#;

graphmill_grammar::codes! {
    /// An executor that is not declared.
    UNKNOWN_EXECUTOR = 701, "unknown executor" {
        explanation: "A node names an executor that the graph does not declare. `cpu` exists without a declaration.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
        right: WITH_POOL,
    }

    /// An executor that is declared twice.
    DUPLICATE_EXECUTOR = 702, "executor declared twice" {
        explanation: "Each executor is declared once; the one without a name is the default executor, and `num_threads` of the graph declares it too.",
        wrong: r#"executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
        right: WITH_POOL,
    }

    /// A name that executors of a graph cannot have.
    RESERVED_EXECUTOR = 703, "reserved executor name" {
        explanation: "`default`, `gpu` and names that begin with `__` are reserved.",
        wrong: r#"executor {
  name: "default"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
        right: WITH_POOL,
    }

    /// An executor type that does not exist.
    UNKNOWN_EXECUTOR_TYPE = 704, "unknown executor type" {
        explanation: "An executor's `type` is `ThreadPoolExecutor`; the default executor may also be an `ApplicationThreadExecutor`.",
        wrong: r#"executor { name: "pool" type: "PoolExecutor" }
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
        right: WITH_POOL,
    }

    /// A thread count that makes no pool.
    BAD_THREADS = 705, "thread count that makes no pool" {
        explanation: "`num_threads` of an executor is a number above 0, and all pools of a graph have 256 threads at most.",
        wrong: r#"executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 0 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
        right: WITH_POOL,
    }
}
