//! Settings of a graph and its nodes: executors, stream handlers, profiling.

use super::options::Extensions;
use super::port::PortSpec;
use super::table::message;
use crate::span::Spanned;

message! {
    /// An executor: a named thread pool.
    pub struct ExecutorConfig = "ExecutorConfig" {
        /// Name of the executor; the default executor if empty or absent.
        "name" name: Option<Spanned<String>>;
        /// Registered type, such as `ThreadPoolExecutor`.
        "type" r#type: Option<Spanned<String>>;
        /// Options of the executor in extension form.
        "options" options: Option<Extensions>;
    }
}

message! {
    /// The name and options of a node's input policy.
    pub struct InputStreamHandlerConfig = "InputStreamHandlerConfig" {
        /// Name of the policy; the default is `DefaultInputStreamHandler`.
        "input_stream_handler" input_stream_handler: Option<Spanned<String>>;
        /// Options of the policy in extension form.
        "options" options: Option<Extensions>;
    }
}

message! {
    /// The name and options of a node's output handler.
    pub struct OutputStreamHandlerConfig = "OutputStreamHandlerConfig" {
        /// Name of the handler; the default is `InOrderOutputStreamHandler`.
        "output_stream_handler" output_stream_handler: Option<Spanned<String>>;
        /// Side packets of the handler.
        "input_side_packet" input_side_packet: Vec<PortSpec>;
        /// Options of the handler in extension form.
        "options" options: Option<Extensions>;
    }
}

message! {
    /// Settings of profiling and tracing.
    pub struct ProfilerConfig = "ProfilerConfig" {
        /// Width of a histogram's interval in microseconds; 0 is one second.
        "histogram_interval_size_usec" histogram_interval_size_usec: Option<Spanned<i64>>;
        /// Number of a histogram's intervals; 0 is one.
        "num_histogram_intervals" num_histogram_intervals: Option<Spanned<i64>>;
        /// Replaced by `enable_stream_latency`; has no effect.
        "enable_input_output_latency" enable_input_output_latency: Option<Spanned<bool>>, deprecated = "use `enable_stream_latency`";
        /// Measures the duration of calls.
        "enable_profiler" enable_profiler: Option<Spanned<bool>>;
        /// Measures the latency of streams.
        "enable_stream_latency" enable_stream_latency: Option<Spanned<bool>>;
        /// Measures the age of a packet from its timestamp.
        "use_packet_timestamp_for_added_packet" use_packet_timestamp_for_added_packet: Option<Spanned<bool>>;
        /// Number of events that are kept; 0 is 20000.
        "trace_log_capacity" trace_log_capacity: Option<Spanned<i64>>;
        /// Kinds of events that are not kept.
        "trace_event_types_disabled" trace_event_types_disabled: Vec<Spanned<i32>>;
        /// Path at which trace files are written.
        "trace_log_path" trace_log_path: Option<Spanned<String>>;
        /// Number of trace files; 0 is two.
        "trace_log_count" trace_log_count: Option<Spanned<i32>>;
        /// Time between two writes in microseconds; 0 is half a second, -1 is never.
        "trace_log_interval_usec" trace_log_interval_usec: Option<Spanned<i64>>;
        /// Age in microseconds at which events are written.
        "trace_log_margin_usec" trace_log_margin_usec: Option<Spanned<i64>>;
        /// Replaced by `trace_log_instant_events`; has no effect.
        "trace_log_duration_events" trace_log_duration_events: Option<Spanned<bool>>, deprecated = "use `trace_log_instant_events`";
        /// Number of intervals in a trace file; 0 is ten.
        "trace_log_interval_count" trace_log_interval_count: Option<Spanned<i32>>;
        /// Switches off the writing of trace files.
        "trace_log_disabled" trace_log_disabled: Option<Spanned<bool>>;
        /// Switches on the tracing of events.
        "trace_enabled" trace_enabled: Option<Spanned<bool>>;
        /// Writes single events, not only calls.
        "trace_log_instant_events" trace_log_instant_events: Option<Spanned<bool>>;
        /// Calculators that are profiled, as a regular expression.
        "calculator_filter" calculator_filter: Option<Spanned<String>>;
    }
}

message! {
    /// Settings of the periodic report of a running graph's state.
    pub struct GraphRuntimeInfoConfig = "GraphRuntimeInfoConfig" {
        /// Switches on the periodic report.
        "enable_graph_runtime_info" enable_graph_runtime_info: Option<Spanned<bool>>;
        /// Time between two reports in milliseconds; 0 is ten seconds.
        "capture_period_msec" capture_period_msec: Option<Spanned<u32>>;
    }
}
