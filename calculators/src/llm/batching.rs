//! Batching options of other servers. An LLM node refuses them: its engine batches all sequences
//! continuously, step by step, and has options of its own for the same purposes.

use graphmill_engine::Contract;
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

const SIZE: &str = "`max_num_seqs` says how many sequences compute at the same time, and `max_num_batched_tokens` how many tokens a step has";
const DELAY: &str =
    "no step waits for more requests, and `target_step_ms` says how long one may take";
const PRIORITY: &str = "`min_priority` and `max_priority` say which `priority` requests may have";

/// Declares the options, each with a hint at the option to use instead.
macro_rules! declare {
    ($($option:ident: $instead:expr,)*) => {
        /// Batching options of other servers, all of which are refused.
        #[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct BatchingOptions {
            $(
                /// Refused, with a hint at the option to use instead.
                #[schemars(skip)]
                pub $option: Vec<IgnoredAny>,
            )*
        }

        impl BatchingOptions {
            /// Reports an error for each option that is given.
            pub(super) fn refuse(&self, c: &mut Contract) {
                $(if !self.$option.is_empty() {
                    refuse(c, stringify!($option), $instead);
                })*
            }
        }
    };
}

declare! {
    dynamic_batching: SIZE,
    max_batch_size: SIZE,
    preferred_batch_size: SIZE,
    max_queue_delay_microseconds: DELAY,
    instances: SIZE,
    instance_group: SIZE,
    priority_levels: PRIORITY,
    default_priority_level: PRIORITY,
    default_timeout_microseconds: "`queue_timeout_ms` says how long a request may wait",
    max_queue_size: "`max_waiting` says how many generations may wait",
}

fn refuse(c: &mut Contract, option: &str, instead: &str) {
    let message = format!(
        "`{option}` is not for language models, whose engine batches all requests continuously: {instead}"
    );
    c.option_error(option, message);
}

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::check;
    use graphmill_engine::{Environment, Registry};

    #[test]
    fn batching_is_refused_with_the_reason_and_the_option_to_take() {
        let graph = |options: &str| {
            format!(
                r#"input_stream: "PROMPTS:prompts" input_stream: "PARAMS:params" output_stream: "TOKENS:tokens"
                node {{
                  calculator: "LLMCalculator"
                  input_side_packet: "LLM_NODE_RESOURCES:llm"
                  input_stream: "TOKENS:prompts"
                  input_stream: "PARAMS:params"
                  output_stream: "TOKENS:tokens"
                  options {{ [mediapipe.LLMCalculatorOptions.ext] {{ models_path: "./" {options} }} }}
                }}"#
            )
        };
        let environment = Environment::new(Registry::global()).without_loading();
        assert_eq!(check(&graph(""), &environment), "");
        for (options, name, instead) in [
            ("dynamic_batching { }", "dynamic_batching", "max_num_seqs"),
            ("max_batch_size: 8", "max_batch_size", "max_num_seqs"),
            (
                "preferred_batch_size: [4, 8]",
                "preferred_batch_size",
                "max_num_batched_tokens",
            ),
            (
                "max_queue_delay_microseconds: 100",
                "max_queue_delay_microseconds",
                "target_step_ms",
            ),
            ("instances: 2", "instances", "max_num_seqs"),
            (
                "instance_group { count: 2 }",
                "instance_group",
                "max_num_seqs",
            ),
            ("priority_levels: 2", "priority_levels", "max_priority"),
            ("max_queue_size: 9", "max_queue_size", "max_waiting"),
            (
                "default_timeout_microseconds: 9",
                "default_timeout_microseconds",
                "queue_timeout_ms",
            ),
        ] {
            let found = check(&graph(options), &environment);
            let reason = format!(
                "`{name}` is not for language models, whose engine batches all requests continuously"
            );
            assert!(found.contains(&reason), "{found}");
            assert!(found.contains(instead), "{found}");
        }
    }
}
