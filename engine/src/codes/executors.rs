//! `GM07xx`: executors.

use graphmill_grammar::Code;

/// All codes of this theme, by number.
pub const ALL: &[&Code] = &[
    &UNKNOWN_EXECUTOR,
    &DUPLICATE_EXECUTOR,
    &RESERVED_EXECUTOR,
    &UNKNOWN_EXECUTOR_TYPE,
    &BAD_THREADS,
];

/// An executor that is not declared.
pub static UNKNOWN_EXECUTOR: Code = Code {
    number: 701,
    title: "unknown executor",
    explanation: "A node names an executor that the graph does not declare. `cpu` exists without a declaration.",
    wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
    right: r#"executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
};

/// An executor that is declared twice.
pub static DUPLICATE_EXECUTOR: Code = Code {
    number: 702,
    title: "executor declared twice",
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
    right: r#"executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
};

/// A name that executors of a graph cannot have.
pub static RESERVED_EXECUTOR: Code = Code {
    number: 703,
    title: "reserved executor name",
    explanation: "`default`, `gpu` and names that begin with `__` are reserved.",
    wrong: r#"executor {
  name: "default"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
    right: r#"executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
};

/// An executor type that does not exist.
pub static UNKNOWN_EXECUTOR_TYPE: Code = Code {
    number: 704,
    title: "unknown executor type",
    explanation: "An executor's `type` is `ThreadPoolExecutor`; the default executor may also be an `ApplicationThreadExecutor`.",
    wrong: r#"executor { name: "pool" type: "PoolExecutor" }
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
    right: r#"executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
};

/// A thread count that makes no pool.
pub static BAD_THREADS: Code = Code {
    number: 705,
    title: "thread count that makes no pool",
    explanation: "`num_threads` of an executor is a number above 0, and all pools of a graph have 256 threads at most.",
    wrong: r#"executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 0 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
    right: r#"executor {
  name: "pool"
  type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }
}
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#,
};
