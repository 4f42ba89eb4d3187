//! How far a graph is that is being loaded.

use std::fmt;

use graphmill_llm::{LoadStage, loading};
use serde_json::{Value, json};

use super::{Servable, StateName};

/// What is being done for a graph, and since when. Graphs are loaded one after the other, so what
/// the engines load belongs to the one graph that has begun.
pub(crate) struct Progress {
    stage: &'static str,
    percent: Option<u8>,
    seconds: f64,
}

impl Servable {
    /// How far it is, while it is being loaded.
    pub(crate) fn progress(&self) -> Option<Progress> {
        if self.state_name() != StateName::Loading {
            return None;
        }
        let Some(began) = self.began() else {
            return Some(Progress {
                stage: "queued",
                percent: None,
                seconds: 0.0,
            });
        };
        let stage = loading().first().map(|(_, stage)| *stage);
        Some(Progress {
            stage: stage.map_or("compiling", LoadStage::as_str),
            percent: match stage {
                Some(LoadStage::Weights(part)) => Some((part.clamp(0.0, 1.0) * 100.0) as u8),
                _ => None,
            },
            seconds: began.elapsed().as_secs_f64(),
        })
    }
}

impl Progress {
    /// As the status tells it.
    pub(crate) fn json(&self) -> Value {
        let seconds = (self.seconds * 1e3).round() / 1e3;
        json!({ "stage": self.stage, "seconds": seconds, "percent": self.percent })
    }

    /// Whether its turn has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.stage != "queued"
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.stage)?;
        if let Some(percent) = self.percent {
            write!(f, " {percent} %")?;
        }
        write!(f, ", {:.1} s", self.seconds)
    }
}
