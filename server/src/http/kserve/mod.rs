//! The KServe v2 dialect.

pub(super) mod health;

use super::operation::{Answer, Group, Operation};
use crate::rescue::Cause;

/// Why a question about a graph may not be answered.
const OF_A_GRAPH: &[Cause] = &[
    Cause::UnknownModel,
    Cause::UnknownRoute,
    Cause::WrongMethod,
    Cause::Panic,
];

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v2/health/live", health::live)
            .about(
                Group::Server,
                "Whether the process answers, and no engine has failed for good",
            )
            .answers(Answer::Health),
        Operation::get("/v2/health/ready", health::ready)
            .about(
                Group::Server,
                "Whether requests would be served, by one graph at least",
            )
            .answers(Answer::Health),
        Operation::get("/v2/models/{*name}", health::model_ready)
            .about(
                Group::Server,
                "Whether requests for a graph would be served: its name, then `/ready`",
            )
            .answers(Answer::Health)
            .refuses(OF_A_GRAPH),
    ]
}
