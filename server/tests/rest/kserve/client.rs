//! A client of gRPC: tonic's, which knows nothing of the server but its messages.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use graphmill_server::inference::{
    InferParameter, ModelInferRequest, ModelStreamInferResponse, infer_parameter::ParameterChoice,
    model_infer_request::InferInputTensor,
};
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::rest::support::TestServer;

/// How long an answer may take, on a machine that does other things too.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct Client {
    grpc: Grpc<Channel>,
    key: Option<String>,
}

impl Client {
    pub(super) async fn connect(server: &TestServer) -> Self {
        let address = server.server.grpc_addresses()[0];
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URL");
        let channel = endpoint.connect().await.expect("it listens");
        Self {
            grpc: Grpc::new(channel),
            key: None,
        }
    }

    pub(super) fn with_key(&self, key: &str) -> Self {
        Self {
            grpc: self.grpc.clone(),
            key: Some(key.to_owned()),
        }
    }

    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if let Some(key) = &self.key {
            let value = format!("Bearer {key}").parse().expect("ASCII");
            request.metadata_mut().insert("authorization", value);
        }
        request
    }

    /// Calls a method of one message and one answer.
    pub(super) async fn call<Q, A>(&self, method: &str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.send(method, self.request(message)).await
    }

    /// The same, for a request with metadata.
    pub(super) async fn send<Q, A>(&self, method: &str, request: Request<Q>) -> Result<A, Status>
    where
        Q: prost::Message + Default + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.grpc.clone();
        grpc.ready().await.expect("a connection");
        let answered = grpc.unary(request, path(method), ProstCodec::<Q, A>::default());
        let answered = tokio::time::timeout(PATIENCE, answered).await;
        Ok(answered.expect("an answer in time")?.into_inner())
    }

    /// Opens a stream of messages.
    pub(super) async fn open(
        &self,
        receiver: tokio::sync::mpsc::UnboundedReceiver<ModelInferRequest>,
    ) -> Result<Streaming<ModelStreamInferResponse>, Status> {
        let messages = stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        let mut grpc = self.grpc.clone();
        grpc.ready().await.expect("a connection");
        let codec = ProstCodec::<ModelInferRequest, ModelStreamInferResponse>::default();
        let opened = grpc.streaming(self.request(messages), path("ModelStreamInfer"), codec);
        let opened = tokio::time::timeout(PATIENCE, opened).await;
        Ok(opened.expect("an answer in time")?.into_inner())
    }
}

fn path(method: &str) -> PathAndQuery {
    let path = if method.starts_with('/') {
        method.to_owned()
    } else {
        format!("/inference.GRPCInferenceService/{method}")
    };
    path.parse().expect("a path")
}

/// A request for a graph.
pub(super) fn request(graph: &str) -> ModelInferRequest {
    ModelInferRequest {
        model_name: graph.to_owned(),
        ..ModelInferRequest::default()
    }
}

/// Adds an input with its bytes.
pub(super) fn with_input(
    mut request: ModelInferRequest,
    name: &str,
    datatype: &str,
    shape: &[i64],
    bytes: impl Into<Bytes>,
) -> ModelInferRequest {
    request.inputs.push(InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    });
    request.raw_input_contents.push(bytes.into());
    request
}

/// Adds a parameter.
pub(super) fn with(
    mut request: ModelInferRequest,
    name: &str,
    value: ParameterChoice,
) -> ModelInferRequest {
    let parameter = InferParameter {
        parameter_choice: Some(value),
    };
    request.parameters.insert(name.to_owned(), parameter);
    request
}

/// Code and message of what has to be an error.
pub(super) fn refused<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.expect_err("an error");
    (status.code(), status.message().to_owned())
}
