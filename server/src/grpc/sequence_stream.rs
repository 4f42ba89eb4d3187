//! `ModelStreamInfer` whose messages are requests of sequences: each is a request by itself, and is
//! answered by one message, in their order. The sequences stay when the stream ends.

use std::sync::Arc;

use futures_util::stream;

use super::{
    convert,
    message::Call,
    proto::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse},
    service::infer,
    stream::{Answers, ended, given, is_final, wrong},
};
use crate::{
    bodies::Share,
    errors::Failure,
    keys::Settlement,
    kserve::{self, Label, SequenceControl, Sequences, Settings},
};

/// Answers a stream that begins with this message.
pub(super) fn answer(
    sequences: &Arc<Sequences>,
    call: Arc<Call>,
    first: (ModelInferRequest, Arc<Share>),
) -> Answers {
    let entry = call.who.entry.clone();
    let stream = SequenceStream {
        _settlement: call.who.settlement(),
        sequences: Arc::clone(sequences),
        call,
        next: Some(first),
    };
    let answers = stream::try_unfold(stream, |mut stream| async move {
        Ok(stream.next().await?.map(|answer| (answer, stream)))
    });
    ended(answers, entry)
}

struct SequenceStream {
    sequences: Arc<Sequences>,
    call: Arc<Call>,
    /// The first message, which has been read.
    next: Option<(ModelInferRequest, Arc<Share>)>,
    _settlement: Option<Settlement>,
}

impl SequenceStream {
    /// Reads a message and answers it; `None` when the client has sent all.
    async fn next(&mut self) -> Result<Option<ModelStreamInferResponse>, Failure> {
        let read = match self.next.take() {
            Some(first) => Some(first),
            None => self.call.who.guard(None).wait(self.call.next()).await?,
        };
        let Some((message, share)) = read else {
            return Ok(None);
        };
        let graph = Label {
            name: message.model_name.clone(),
            version: message.model_version.clone(),
        };
        let id = message.id.clone();
        let answer = self.answered(message).await;
        share.is_read();
        let answer = answer.map_or_else(|failure| wrong(failure, &graph, id), given);
        Ok(Some(answer))
    }

    async fn answered(&self, message: ModelInferRequest) -> Result<ModelInferResponse, Failure> {
        let parameters = convert::parameters(message.parameters.clone())?;
        if SequenceControl::read(&parameters)?.is_none() {
            let field = "parameters.sequence_id".to_owned();
            let why = "the stream is one of sequences, as its first message had one";
            return Err(kserve::wrong(field, why));
        }
        let says_final = Settings::says_final(&parameters);
        let mut answer = infer(&self.sequences, &self.call.who, message).await?;
        if says_final {
            is_final(&mut answer);
        }
        Ok(answer)
    }
}
