//! Settings of a graph and its nodes: executors, stream handlers, profiling.

use super::options::Extensions;
use super::port::PortSpec;
use super::table::message;
use crate::span::Spanned;

message! {
    /// An executor: a named pool of threads.
    pub struct ExecutorConfig = "ExecutorConfig" {
        /// Its name; empty or absent is the default executor.
        "name" name: Option<Spanned<String>>;
        /// Its registered type, such as `ThreadPoolExecutor`.
        "type" r#type: Option<Spanned<String>>;
        /// Its options.
        "options" options: Option<Extensions>;
    }
}

message! {
    /// A node's input policy by name, with its options.
    pub struct InputStreamHandlerConfig = "InputStreamHandlerConfig" {
        /// The policy's name; absent is `DefaultInputStreamHandler`.
        "input_stream_handler" input_stream_handler: Option<Spanned<String>>;
        /// The policy's options.
        "options" options: Option<Extensions>;
    }
}

message! {
    /// A node's output handler by name, with its options.
    pub struct OutputStreamHandlerConfig = "OutputStreamHandlerConfig" {
        /// The handler's name; absent is `InOrderOutputStreamHandler`.
        "output_stream_handler" output_stream_handler: Option<Spanned<String>>;
        /// Side packets of the handler.
        "input_side_packet" input_side_packet: Vec<PortSpec>;
        /// The handler's options.
        "options" options: Option<Extensions>;
    }
}

message! {
    /// Profiling and tracing.
    pub struct ProfilerConfig = "ProfilerConfig" {
        /// Width of a histogram's interval in microseconds; 0 is one second.
        "histogram_interval_size_usec" histogram_interval_size_usec: Option<Spanned<i64>>;
        /// Number of a histogram's intervals; 0 is one.
        "num_histogram_intervals" num_histogram_intervals: Option<Spanned<i64>>;
        /// Has no effect.
        "enable_input_output_latency" enable_input_output_latency: Option<Spanned<bool>>, deprecated = "use `enable_stream_latency`";
        /// Whether calls are timed.
        "enable_profiler" enable_profiler: Option<Spanned<bool>>;
        /// Whether the latency of streams is measured.
        "enable_stream_latency" enable_stream_latency: Option<Spanned<bool>>;
        /// Whether a packet's age counts from its timestamp.
        "use_packet_timestamp_for_added_packet" use_packet_timestamp_for_added_packet: Option<Spanned<bool>>;
        /// Events that are kept; 0 is 20000.
        "trace_log_capacity" trace_log_capacity: Option<Spanned<i64>>;
        /// Kinds of events that are not kept.
        "trace_event_types_disabled" trace_event_types_disabled: Vec<Spanned<i32>>;
        /// Where trace files go.
        "trace_log_path" trace_log_path: Option<Spanned<String>>;
        /// Number of trace files; 0 is two.
        "trace_log_count" trace_log_count: Option<Spanned<i32>>;
        /// Time between two writes in microseconds; 0 is half a second, -1 is never.
        "trace_log_interval_usec" trace_log_interval_usec: Option<Spanned<i64>>;
        /// Age in microseconds at which events are written.
        "trace_log_margin_usec" trace_log_margin_usec: Option<Spanned<i64>>;
        /// Has no effect.
        "trace_log_duration_events" trace_log_duration_events: Option<Spanned<bool>>, deprecated = "use `trace_log_instant_events`";
        /// Intervals in one trace file; 0 is ten.
        "trace_log_interval_count" trace_log_interval_count: Option<Spanned<i32>>;
        /// Whether no trace files are written.
        "trace_log_disabled" trace_log_disabled: Option<Spanned<bool>>;
        /// Whether events are traced.
        "trace_enabled" trace_enabled: Option<Spanned<bool>>;
        /// Whether single events are written and not only calls.
        "trace_log_instant_events" trace_log_instant_events: Option<Spanned<bool>>;
        /// Calculators that are profiled, as a regular expression.
        "calculator_filter" calculator_filter: Option<Spanned<String>>;
    }
}

message! {
    /// Periodic report of a running graph's state.
    pub struct GraphRuntimeInfoConfig = "GraphRuntimeInfoConfig" {
        /// Whether it is on.
        "enable_graph_runtime_info" enable_graph_runtime_info: Option<Spanned<bool>>;
        /// Time between two reports in milliseconds; 0 is ten seconds.
        "capture_period_msec" capture_period_msec: Option<Spanned<u32>>;
    }
}
