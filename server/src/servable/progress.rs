//! The progress of a graph that is being loaded.

use std::{fmt, time::Duration};

use graphmill_llm::{LoadStage, loading};
use serde_json::{Value, json};

use super::{Servable, StateName};
use crate::hub;

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
        match self.state_name() {
            StateName::Loading => {}
            StateName::Listed if !self.loads_on_demand() => {}
            _ => return None,
        }
        let Some(began) = self.began() else {
            return Some(Progress {
                stage: "queued",
                percent: None,
                seconds: 0.0,
            });
        };
        let (stage, part) = stage();
        Some(Progress {
            stage,
            percent: part.map(|part| (part.clamp(0.0, 1.0) * 100.0) as u8),
            seconds: began.elapsed().as_secs_f64(),
        })
    }
}

/// What is being done, and the part of it that is done.
fn stage() -> (&'static str, Option<f32>) {
    if let Some((stage, part)) = hub::progress::stage() {
        return (stage, Some(part));
    }
    match loading().first() {
        Some((_, stage @ LoadStage::Weights(part))) => (stage.as_str(), Some(*part)),
        Some((_, stage)) => (stage.as_str(), None),
        None => ("compiling", None),
    }
}

impl Servable {
    /// About how long it takes until the graph is loaded that is being loaded.
    pub(super) fn time_left(&self) -> Duration {
        let Some(began) = self.began() else {
            return Duration::ZERO;
        };
        left(began.elapsed(), stage().1, self.took())
    }
}

/// How long a load takes from now on: as the part of the weights says that was read, or else as the
/// last load does. Where nothing is known, it takes as long again.
fn left(elapsed: Duration, part: Option<f32>, last: Option<Duration>) -> Duration {
    /// Less says nothing.
    const TELLING: f32 = 0.02;
    match (part, last) {
        (Some(part), _) if part >= TELLING => elapsed.mul_f32((1.0 - part.min(1.0)) / part),
        (_, Some(last)) if last > elapsed => last.saturating_sub(elapsed),
        _ => elapsed,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_follows_from_the_weights_or_from_the_last_load() {
        let seconds = Duration::from_secs;
        assert_eq!(
            left(seconds(10), Some(0.25), Some(seconds(99))),
            seconds(30)
        );
        assert_eq!(left(seconds(10), Some(1.0), None), seconds(0));
        assert_eq!(
            left(seconds(10), Some(0.001), Some(seconds(15))),
            seconds(5)
        );
        assert_eq!(left(seconds(10), None, Some(seconds(5))), seconds(10));
        assert_eq!(left(seconds(0), None, None), seconds(0));
    }
}
