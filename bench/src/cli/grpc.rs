//! `graphmill-bench grpc`: how many runs of a graph a second, and how long each takes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::json;
use tokio::task::JoinSet;
use tonic::{
    Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{BenchResult, add_rate};
use crate::results::Results;

#[derive(Clone, Debug, Args)]
pub(super) struct GrpcArguments {
    /// A running server's address for gRPC, with a graph that gives back its one tensor.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9000")]
    base_url: String,
    /// Name of the graph that gives back its tensor.
    #[arg(long, value_name = "NAME", default_value = "mirror")]
    model: String,
    /// Name of the input of that graph.
    #[arg(long, value_name = "NAME", default_value = "x")]
    input: String,
    /// Size of the tensor in bytes.
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// Number of concurrent requests, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    streams: Vec<usize>,
    /// Duration of each measurement in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// A tensor of a request or of an answer, as the protocol writes it.
#[derive(Clone, PartialEq, prost::Message)]
struct TensorHeader {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    datatype: String,
    #[prost(int64, repeated, tag = "3")]
    shape: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct InferRequest {
    #[prost(string, tag = "1")]
    model_name: String,
    #[prost(message, repeated, tag = "5")]
    inputs: Vec<TensorHeader>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    raw_input_contents: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct InferResponse {
    #[prost(message, repeated, tag = "5")]
    outputs: Vec<TensorHeader>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    raw_output_contents: Vec<Vec<u8>>,
}

pub(super) fn run(arguments: &GrpcArguments, results: &mut Results) -> BenchResult {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    for &streams in &arguments.streams {
        let (latencies, time) = runtime.block_on(load(arguments, streams))?;
        let mut row = json!({"streams": streams, "bytes": arguments.bytes});
        add_rate(&mut row, latencies, time);
        results.add(row);
    }
    Ok(())
}

/// Returns the duration of each request, in nanoseconds, and of all together. Fails with the first error
/// that comes back.
async fn load(arguments: &GrpcArguments, streams: usize) -> BenchResult<(Vec<f64>, Duration)> {
    let endpoint = Endpoint::from_shared(arguments.base_url.clone())?;
    let channel = endpoint.connect().await?;
    let request = Arc::new(InferRequest {
        model_name: arguments.model.clone(),
        inputs: vec![TensorHeader {
            name: arguments.input.clone(),
            datatype: "UINT8".to_owned(),
            shape: vec![arguments.bytes as i64],
        }],
        raw_input_contents: vec![vec![7; arguments.bytes]],
    });
    // What is made at the first request is not what is measured.
    infer(&channel, &request).await?;
    let begun = Instant::now();
    let time = Duration::from_secs(arguments.seconds);
    let mut running = JoinSet::new();
    for _ in 0..streams {
        let (channel, request) = (channel.clone(), Arc::clone(&request));
        running.spawn(async move {
            let mut latencies = Vec::new();
            while begun.elapsed() < time {
                let sent = Instant::now();
                infer(&channel, &request).await?;
                latencies.push(sent.elapsed().as_nanos() as f64);
            }
            Ok::<_, String>(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(stream) = running.join_next().await {
        latencies.extend(stream??);
    }
    Ok((latencies, begun.elapsed()))
}

async fn infer(channel: &Channel, request: &InferRequest) -> Result<(), String> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| error.to_string())?;
    let path = PathAndQuery::from_static("/inference.GRPCInferenceService/ModelInfer");
    let codec = ProstCodec::<InferRequest, InferResponse>::default();
    let answer = grpc.unary(Request::new(request.clone()), path, codec).await;
    let answer = answer.map_err(|status| status.to_string())?.into_inner();
    if answer.raw_output_contents != request.raw_input_contents {
        return Err("the tensor did not come back as it was sent".to_owned());
    }
    Ok(())
}
