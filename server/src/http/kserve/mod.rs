//! The KServe v2 dialect.

mod health;

use super::operation::{Answer, Group, Operation};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v2/health/live", health::live)
            .about(Group::Server, "Whether the process answers")
            .answers(Answer::Health),
        Operation::get("/v2/health/ready", health::ready)
            .about(Group::Server, "Whether requests would be served")
            .answers(Answer::Health),
    ]
}
