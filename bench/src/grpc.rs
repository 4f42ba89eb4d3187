//! A load of `ModelInfer` over gRPC: how many runs of a graph a second, and how long each takes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tonic::{
    Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::samples::Samples;

/// A tensor of a request or of an answer, as the protocol writes it.
#[derive(Clone, PartialEq, prost::Message)]
struct Tensor {
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
    inputs: Vec<Tensor>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    raw_input_contents: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct InferResponse {
    #[prost(message, repeated, tag = "5")]
    outputs: Vec<Tensor>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    raw_output_contents: Vec<Vec<u8>>,
}

/// What is sent.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server, such as `http://127.0.0.1:9000`.
    pub url: String,
    /// The graph.
    pub graph: String,
    /// Its input.
    pub input: String,
    /// The bytes of the tensor.
    pub bytes: usize,
    /// Requests at once, on one connection.
    pub streams: usize,
    /// How long.
    pub time: Duration,
}

/// What came back.
pub struct Measurement {
    /// Runs a second.
    pub rate: f64,
    /// How long each took, in nanoseconds.
    pub latencies: Samples,
}

/// Sends a load; the error is the first that came back.
pub async fn measure(load: &Load) -> Result<Measurement, String> {
    let endpoint = Endpoint::from_shared(load.url.clone()).map_err(|error| error.to_string())?;
    let channel = endpoint
        .connect()
        .await
        .map_err(|error| error.to_string())?;
    let request = Arc::new(InferRequest {
        model_name: load.graph.clone(),
        inputs: vec![Tensor {
            name: load.input.clone(),
            datatype: "UINT8".to_owned(),
            shape: vec![load.bytes as i64],
        }],
        raw_input_contents: vec![vec![7; load.bytes]],
    });
    // What is made at the first request is not what is measured.
    infer(&channel, &request).await?;
    let begun = Instant::now();
    let mut streams = JoinSet::new();
    for _ in 0..load.streams {
        let (channel, request, time) = (channel.clone(), Arc::clone(&request), load.time);
        streams.spawn(async move {
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
    while let Some(stream) = streams.join_next().await {
        latencies.extend(stream.map_err(|error| error.to_string())??);
    }
    Ok(Measurement {
        rate: latencies.len() as f64 / begun.elapsed().as_secs_f64(),
        latencies: Samples::new(latencies),
    })
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
