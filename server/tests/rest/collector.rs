//! An OpenTelemetry collector that keeps what it gets: over HTTP, and over gRPC without a library
//! for it, as a program that knows nothing of the sender.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::{Router, body::Body, http::HeaderMap, response::Response, routing::post};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message as _;
use tokio::{net::TcpListener, task::JoinSet};

/// A running collector.
pub(crate) struct Collector {
    /// Where it is, without a path.
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    _serving: JoinSet<()>,
}

/// The path of OTLP over gRPC.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

impl Collector {
    pub(crate) async fn start() -> Self {
        let requests = Arc::new(Mutex::default());
        let over_http = keep(&requests, 0, || Response::new(Body::empty()));
        // Of each message, five bytes say whether it is compressed and how long it is.
        let over_grpc = keep(&requests, 5, || {
            let response = Response::builder().header("content-type", "application/grpc");
            response.body(Body::new(Answer(0))).expect("well formed")
        });
        let router = Router::new()
            .route("/v1/traces", post(over_http))
            .route(EXPORT, post(over_grpc));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self {
            url,
            requests,
            _serving: serving,
        }
    }

    /// The spans that came.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let resources = self.requests().into_iter().flat_map(|it| it.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// The attribute of the program that sent them.
    pub(crate) fn resource(&self, name: &str) -> Option<String> {
        let mut resources = self.requests().into_iter().flat_map(|it| it.resource_spans);
        let attributes = resources.next()?.resource?.attributes;
        let found = attributes.into_iter().find(|it| it.key == name)?;
        Some(shown(found.value))
    }

    fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        let requests = self.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Kept = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// Keeps a message that has `frame` bytes before it.
fn keep(
    requests: &Kept,
    frame: usize,
    answer: fn() -> Response,
) -> impl Fn(Bytes) -> std::future::Ready<Response> + Clone + use<> {
    let requests = Arc::clone(requests);
    move |body: Bytes| {
        let request = ExportTraceServiceRequest::decode(&body[frame..]).expect("a message");
        let mut kept = requests.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(request);
        drop(kept);
        std::future::ready(answer())
    }
}

/// An empty message, and the status behind it.
struct Answer(u8);

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0 += 1;
        Poll::Ready(match self.0 {
            1 => Some(Ok(Frame::data(Bytes::from_static(&[0; 5])))),
            2 => {
                let status = [("grpc-status", "0")].map(|(name, value)| {
                    (name.parse().expect("a name"), value.parse().expect("text"))
                });
                Some(Ok(Frame::trailers(HeaderMap::from_iter(status))))
            }
            _ => None,
        })
    }
}

/// An attribute of a span as text; none if it has no such attribute.
pub(crate) fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key == name)?;
    Some(shown(found.value.clone()))
}

fn shown(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(truth)) => truth.to_string(),
        Some(Value::ArrayValue(list)) => {
            let values = list.values.into_iter().map(|value| shown(Some(value)));
            values.collect::<Vec<_>>().join(",")
        }
        other => panic!("an attribute is {other:?}"),
    }
}
