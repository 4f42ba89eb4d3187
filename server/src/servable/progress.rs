//! Progress of a graph being loaded.

use std::{fmt, time::Duration};

use graphmill_llm::{LoadStage, loading};
use serde_json::{Value, json};

use super::{Servable, StateName};
use crate::hub;

/// The stage of loading a graph, and its start. Graphs are loaded one after the other, so the
/// progress of engines belongs to the graph that has started.
pub(crate) struct Progress {
    stage: &'static str,
    percent: Option<u8>,
    seconds: f64,
}

impl Servable {
    /// Returns its progress while it is being loaded.
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

    /// Returns an estimate of the time until the running load is complete.
    pub(super) fn time_left(&self) -> Duration {
        let Some(began) = self.began() else {
            return Duration::ZERO;
        };
        left(began.elapsed(), stage().1, self.load_time())
    }
}

/// Returns the current stage, and its progress from 0 to 1.
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

/// Estimates the remaining time of a load from the share of the weights that was read, or else from
/// the last load. Without either, it is the time so far.
fn left(elapsed: Duration, part: Option<f32>, last: Option<Duration>) -> Duration {
    /// Share below which the estimate would be too uncertain.
    const TELLING: f32 = 0.02;
    match (part, last) {
        (Some(part), _) if part >= TELLING => elapsed.mul_f32((1.0 - part.min(1.0)) / part),
        (_, Some(last)) if last > elapsed => last.saturating_sub(elapsed),
        _ => elapsed,
    }
}

impl Progress {
    /// Returns the progress as the status shows it.
    pub(crate) fn json(&self) -> Value {
        let seconds = (self.seconds * 1e3).round() / 1e3;
        json!({ "stage": self.stage, "seconds": seconds, "percent": self.percent })
    }

    /// Returns true if its load has started.
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
