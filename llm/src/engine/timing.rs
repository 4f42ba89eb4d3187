//! Durations of steps: training of the cost model, and values for the status.

use std::time::Duration;

use super::status::EngineState;
use crate::schedule::StepPlan;
use crate::schedule::cost::{CostModel, StepSize};
use crate::schedule::pace::Pace;
use crate::settings::LlmEngineSpec;

/// Number of steps whose median time is shown.
const RECENT: usize = 64;

/// Measured and expected times of steps.
pub(super) struct Timing {
    cost: CostModel,
    target: Option<u64>,
    /// Durations of the last steps in microseconds, as a ring.
    recent: [u64; RECENT],
    recorded: usize,
}

impl Timing {
    pub(super) fn new(spec: &LlmEngineSpec) -> Self {
        let target = u64::from(spec.target_step_ms) * 1_000;
        Self {
            cost: CostModel::default(),
            target: (target > 0).then_some(target),
            recent: [0; RECENT],
            recorded: 0,
        }
    }

    pub(super) fn pace(&self) -> Pace<'_> {
        Pace {
            cost: &self.cost,
            target: self.target,
        }
    }

    /// Publishes the expected time of the step that is about to be computed.
    pub(super) fn announce(&self, plan: &StepPlan, shared: &EngineState) {
        let micros = |micros: f64| Duration::from_micros(micros as u64);
        let expected = micros(self.cost.micros(&plan.size));
        let step = &mut shared.published().step;
        step.target = micros(plan.target_micros);
        step.expected = expected;
        step.prompt_tokens = plan.prompt_limit;
    }

    /// Records a computed step, from the start of its decode to its last sampled token. Some
    /// backends return early, and still compute until the logits are read.
    pub(super) fn record(&mut self, size: &StepSize, time: Duration, shared: &EngineState) {
        tracing::trace!(
            decode_tokens = size.decode_tokens,
            attended_cells = size.attended_cells,
            prompt_tokens = size.prompt_tokens,
            expected_micros = self.cost.micros(size) as u64,
            micros = time.as_micros() as u64,
            "step"
        );
        self.cost.observe(size, time.as_secs_f64() * 1e6);
        self.recent[self.recorded % RECENT] = time.as_micros() as u64;
        self.recorded += 1;
        shared.published().step.median = Duration::from_micros(self.median());
    }

    /// Median of the last steps, at least one, in microseconds.
    fn median(&self) -> u64 {
        let mut recent = self.recent;
        let recorded = &mut recent[..self.recorded.min(RECENT)];
        let middle = recorded.len() / 2;
        *recorded.select_nth_unstable(middle).1
    }
}
