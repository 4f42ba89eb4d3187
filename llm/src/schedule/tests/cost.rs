//! What the cost model makes of measurements.

use proptest::prelude::*;

use super::super::cost::{CostModel, StepSize};

fn step(decode_tokens: u32, context: u32, prompt_tokens: u32) -> StepSize {
    StepSize {
        decode_tokens,
        attended_cells: u64::from(decode_tokens * context),
        prompt_tokens,
    }
}

fn cpu(size: &StepSize) -> f64 {
    20_000.0
        + 5_500.0 * f64::from(size.decode_tokens)
        + 0.9 * size.attended_cells as f64
        + 1_700.0 * f64::from(size.prompt_tokens)
}

fn gpu(size: &StepSize) -> f64 {
    8_000.0 + 15.0 * f64::from(size.decode_tokens + size.prompt_tokens)
}

/// Deterministic noise: up to a tenth more or less.
fn noise(number: u32) -> f64 {
    0.9 + f64::from(number.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24) / 5.0
}

/// A model that has seen steps of many sizes, each off by up to a tenth, and every fortieth by a
/// factor of thirty.
fn learned(machine: fn(&StepSize) -> f64) -> CostModel {
    let mut model = CostModel::default();
    for number in 0..600_u32 {
        let size = match number % 4 {
            0 => step(number % 32, 300 + number, 16 << (number % 5)),
            1 => step(8, 300 + number, 0),
            _ => step(1 + number % 32, 300 + number, 0),
        };
        let outlier = if number % 40 == 39 { 30.0 } else { 1.0 };
        model.observe(&size, machine(&size) * noise(number) * outlier);
    }
    model
}

fn assert_close(predicted: f64, real: f64) {
    assert!(
        predicted > 0.8 * real && predicted < 1.25 * real,
        "predicted {predicted}, really {real}"
    );
}

#[test]
fn decodes_and_prompts_are_predicted_in_spite_of_noise_and_outliers() {
    for machine in [cpu, gpu] {
        let model = learned(machine);
        for size in [step(1, 900, 0), step(8, 900, 0), step(32, 900, 0)] {
            assert_close(model.micros(&size), machine(&size));
        }
    }
    let model = learned(cpu);
    for size in [step(4, 900, 64), step(16, 900, 200)] {
        assert_close(model.micros(&size), cpu(&size));
    }
}

#[test]
fn one_disturbed_step_moves_little() {
    let mut model = learned(cpu);
    let (decodes, prompts) = (step(8, 900, 0), step(0, 0, 200));
    let before = (model.micros(&decodes), model.micros(&prompts));
    model.observe(&decodes, 60e6);
    model.observe(&prompts, 60e6);
    assert!(model.micros(&decodes) < 1.2 * before.0);
    assert!(model.micros(&prompts) < 1.3 * before.1);
}

#[test]
fn a_machine_that_became_three_times_slower_is_followed() {
    let mut model = learned(cpu);
    let (decodes, prompts) = (step(8, 900, 0), step(8, 900, 200));
    for _ in 0..60 {
        model.observe(&decodes, 3.0 * cpu(&decodes));
        model.observe(&prompts, 3.0 * cpu(&prompts));
    }
    assert_close(model.micros(&decodes), 3.0 * cpu(&decodes));
    assert_close(model.micros(&prompts), 3.0 * cpu(&prompts));
}

#[test]
fn nothing_is_dear_before_it_was_measured() {
    let model = CostModel::default();
    assert!(model.micros(&step(8, 900, 200)).abs() < f64::EPSILON);
}

#[test]
fn a_price_that_was_disturbed_is_corrected_by_later_steps() {
    let mut model = CostModel::default();
    let size = step(1, 10, 200);
    model.observe(&size, 200.0 * 90_000.0);
    for _ in 0..60 {
        model.observe(&size, 200.0 * 100.0);
    }
    assert_close(model.micros(&size), 200.0 * 100.0);
}

#[test]
fn prompts_alone_say_nothing_of_prompts_beside_decodes() {
    let mut model = CostModel::default();
    let (alone, beside) = (step(0, 0, 64), step(8, 100, 64));
    model.observe(&step(8, 100, 0), 54_000.0);
    model.observe(&alone, 64.0 * 1_600.0);
    model.observe(&beside, 54_000.0 + 64.0 * 6_900.0);
    for _ in 0..20 {
        model.observe(&alone, 64.0 * 1_600.0);
    }
    assert_close(model.micros(&alone), 64.0 * 1_600.0);
    assert_close(model.micros(&beside), 54_000.0 + 64.0 * 6_900.0);
    assert_close(model.micros(&step(8, 100, 20)), 54_000.0 + 20.0 * 6_900.0);
}

#[test]
fn a_decode_beside_prompts_is_not_judged_by_steps_of_fewer() {
    let mut model = CostModel::default();
    let machine = |size: &StepSize| {
        let reading = f64::from(size.decode_tokens).max(16.0);
        600.0 + 20.0 * f64::from(size.prompt_tokens) + 50.0 * reading
    };
    for number in 0..50 {
        model.observe(&step(0, 0, 200), machine(&step(0, 0, 200)));
        model.observe(&step(1 + number % 8, 60, 0), machine(&step(8, 60, 0)));
    }
    // Its first steps are slow: memory that was never used.
    for decodes in 1..20 {
        let size = step(4 * decodes, 60, 256 - 4 * decodes);
        let slow = if decodes < 4 { 3.0 } else { 1.0 };
        model.observe(&size, machine(&size) * slow * noise(decodes));
    }
    let learned = model.beside_prompts_micros();
    assert!((40.0..80.0).contains(&learned), "{learned}");
}

#[test]
fn a_token_that_is_computed_alone_does_not_make_those_of_long_prompts_dear() {
    let mut model = CostModel::default();
    model.observe(&step(0, 0, 200), 200.0 * 100.0);
    for _ in 0..50 {
        model.observe(&step(0, 0, 1), 15_000.0);
    }
    assert_close(model.micros(&step(0, 0, 200)), 200.0 * 100.0);
    assert_close(model.token_micros(), 100.0);
}

proptest! {
    #[test]
    fn predictions_are_finite_and_never_negative(
        steps in prop::collection::vec(
            (0..300_u32, 0..40_000_u32, 0..600_u32, prop_oneof![0.0..1e12, Just(f64::NAN), Just(f64::INFINITY), Just(-5.0)]),
            1..60,
        ),
        asked in (0..300_u32, 0..40_000_u32, 0..600_u32),
    ) {
        let mut model = CostModel::default();
        for (decodes, context, prompts, micros) in steps {
            model.observe(&step(decodes, context, prompts), micros);
        }
        let micros = model.micros(&step(asked.0, asked.1, asked.2));
        prop_assert!(micros.is_finite() && micros >= 0.0, "{micros}");
    }
}
