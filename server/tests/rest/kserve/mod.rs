//! KServe's protocol over REST and gRPC.

mod batching;
mod client;
mod grpc;
mod http;
mod lies;
mod limits;
mod nodes;
#[cfg(feature = "onnx")]
mod onnx;
mod repository;
mod rows;
mod sequences;
mod stream;
mod texts;

use std::net::SocketAddr;

use crate::rest::support::{Setup, TestServer};
use client::Client;

/// Tensors that come back as they are.
const MIRROR: &str = r#"
    input_stream: "TENSOR:x"
    input_stream: "y"
    output_stream: "TENSOR:same_x"
    output_stream: "same_y"
    node {
      calculator: "PassThroughCalculator"
      input_stream: "x"
      input_stream: "y"
      output_stream: "same_x"
      output_stream: "same_y"
    }
    graph_options {
      [type.googleapis.com/graphmill.TensorOptions] {
        input { name: "x" datatype: FP32 shape: [-1, 2] }
        output { name: "same_x" datatype: FP32 shape: [-1, 2] }
      }
    }
"#;

/// Text that comes back as it is.
const TEXT: &str = r#"
    input_stream: "TEXT:text"
    output_stream: "TEXT:same"
    node {
      calculator: "PassThroughCalculator"
      input_stream: "text"
      output_stream: "same"
    }
"#;

/// A truth value, of which no tag and no option says that it is one.
const PRESENCE: &str = r#"
    input_stream: "x"
    output_stream: "there"
    node {
      calculator: "PacketPresenceCalculator"
      input_stream: "PACKET:x"
      output_stream: "PRESENCE:there"
    }
"#;

/// See [`nodes::Repeat`].
const REPEAT: &str = r#"
    input_stream: "x"
    input_side_packet: "times"
    output_stream: "repeated"
    node {
      calculator: "RepeatCalculator"
      input_stream: "x"
      input_side_packet: "times"
      output_stream: "repeated"
    }
"#;

/// See [`nodes::Sum`].
const SUM: &str = r#"
    input_stream: "x"
    input_side_packet: "first"
    output_stream: "sum"
    node {
      calculator: "SumCalculator"
      input_stream: "x"
      input_side_packet: "first"
      output_stream: "sum"
    }
"#;

/// See [`nodes::Wait`].
const WAIT: &str = r#"
    input_stream: "x"
    output_stream: "never"
    node { calculator: "WaitCalculator" input_stream: "x" output_stream: "never" }
"#;

/// A server of these graphs that listens for gRPC, too.
fn setup(graphs: &[(&str, &str)]) -> Setup {
    let setup = graphs
        .iter()
        .fold(Setup::new(), |setup, (name, text)| setup.graph(name, text));
    setup.with(|options| options.grpc = vec![SocketAddr::from(([127, 0, 0, 1], 0))])
}

async fn start(graphs: &[(&str, &str)]) -> (TestServer, Client) {
    let server = setup(graphs).start().await;
    let client = Client::connect(&server).await;
    (server, client)
}
