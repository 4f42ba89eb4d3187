//! `ModelStreamInfer` whose messages are requests of sequences: each is a request by itself, and is
//! answered by one message, in their order. The sequences stay when the stream ends.

use std::sync::Arc;

use axum::response::Response;
use futures_util::stream;
use hyper::body::Frame;

use super::{
    convert, infer,
    message::{self, Messages},
    proto::{ModelInferRequest, ModelInferResponse},
    status, stream as streams,
};
use crate::{
    bodies::Share,
    errors::Failure,
    keys::Settlement,
    kserve::{self, Label, SequenceControl, Sequences, Settings},
    run::RequestContext,
};

/// Answers a stream that begins with this message.
pub(super) fn answer(
    sequences: &Arc<Sequences>,
    who: RequestContext,
    first: (ModelInferRequest, Arc<Share>),
    messages: Messages,
) -> Response {
    let stream = SequenceStream {
        _settlement: who.settlement(),
        sequences: Arc::clone(sequences),
        who,
        messages,
        next: Some(first),
    };
    message::response(stream::unfold(Some(stream), |stream| async move {
        Some(stream?.next().await)
    }))
}

struct SequenceStream {
    sequences: Arc<Sequences>,
    who: RequestContext,
    messages: Messages,
    /// The first message, which has been read.
    next: Option<(ModelInferRequest, Arc<Share>)>,
    _settlement: Option<Settlement>,
}

impl SequenceStream {
    /// Reads a message and writes the answer to it, or the end.
    async fn next(mut self) -> (message::Part, Option<Self>) {
        let (message, share) = match self.read().await {
            Ok(Some(read)) => read,
            Ok(None) => return (Ok(Frame::trailers(status::trailers(None))), None),
            Err(failure) => {
                self.who.entry.failed(&failure);
                let trailers = status::trailers(Some(&failure));
                return (Ok(Frame::trailers(trailers)), None);
            }
        };
        let graph = Label {
            name: message.model_name.clone(),
            version: message.model_version.clone(),
        };
        let id = message.id.clone();
        let answer = answered(&self.sequences, &self.who, message).await;
        share.is_read();
        let frame = match answer {
            Ok(answer) => streams::given(answer),
            Err(failure) => streams::wrong(failure, &graph, id),
        };
        (Ok(frame), Some(self))
    }

    async fn read(&mut self) -> Result<Option<(ModelInferRequest, Arc<Share>)>, Failure> {
        if let Some(first) = self.next.take() {
            return Ok(Some(first));
        }
        self.who.guard(None).wait(self.messages.next()).await
    }
}

async fn answered(
    sequences: &Arc<Sequences>,
    who: &RequestContext,
    message: ModelInferRequest,
) -> Result<ModelInferResponse, Failure> {
    let parameters = convert::parameters(message.parameters.clone())?;
    if SequenceControl::read(&parameters)?.is_none() {
        let field = "parameters.sequence_id".to_owned();
        let why = "the stream is one of sequences, as its first message had one";
        return Err(kserve::wrong(field, why));
    }
    let says_final = Settings::says_final(&parameters);
    let mut answer = infer::answer(sequences, who, message).await?;
    if says_final {
        streams::is_final(&mut answer);
    }
    Ok(answer)
}
