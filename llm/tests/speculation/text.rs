//! Drafts from the text.

use std::sync::Arc;

use graphmill_llm::backend::scripted::Script;
use graphmill_llm::{
    DraftCounts, DraftSource, FinishReason, GenerationRequest, SpeculationParams, StepOutput,
    SubmitError, Usage,
};
use proptest::prelude::*;

use crate::speculating::{chat, markov, same_texts, scripted, start, variants};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn drafts_change_nothing_alone_or_in_a_batch(
        variants in prop::collection::vec(variants(), 1..6),
        cells in prop_oneof![Just(4096_usize), 200..600_usize],
    ) {
        let engine = markov(cells);
        same_texts(
            &engine,
            variants.len(),
            |request, index, drafts| variants[index].apply(request, drafts),
            |index| index % 3 != 2,
        )?;
    }
}

/// A script that says the same words again and again.
fn repeating() -> Script {
    let json = r#"{"replies": [{"text": "one two three four five ", "then": "repeat"}]}"#;
    serde_json::from_str(json).expect("a script")
}

fn drafts_of(usage: Usage) -> DraftCounts {
    usage.drafts.expect("the request speculates")
}

#[test]
fn a_repeating_text_takes_fewer_steps_and_the_counts_say_so() {
    let engine = scripted(repeating());
    let (said, usage, outputs) = start(&engine, |request| {
        request.prompt = chat(&engine, "hi");
        request.max_tokens = Some(300);
        request.speculation = Some(SpeculationParams::default());
    })
    .finish();
    assert_eq!(
        (said.tokens.len(), said.finish),
        (300, FinishReason::Length)
    );
    // How many fewer depends on the time that steps take.
    assert!(outputs < 290, "{outputs} steps for 300 tokens");
    let status = engine.status();
    assert_eq!(status.steps, outputs as u64);
    assert_eq!(status.generated_tokens, 300);
    let drafts = drafts_of(usage);
    assert_eq!(drafts.accepted as usize, 300 - outputs);
    assert_eq!(status.accepted_tokens, u64::from(drafts.accepted));
    assert_eq!(
        status.drafted_tokens,
        u64::from(drafts.accepted + drafts.rejected)
    );
}

#[test]
fn a_request_without_speculation_reports_no_drafts() {
    let engine = scripted(repeating());
    let (_, usage, outputs) =
        start(&engine, |request| request.prompt = chat(&engine, "hi")).finish();
    assert_eq!((usage.drafts, outputs), (None, 120));
    assert_eq!(engine.status().drafted_tokens, 0);
}

#[test]
fn rejected_drafts_leave_no_cells() {
    let engine = markov(4096);
    let run = start(&engine, |request| {
        request.speculation = Some(SpeculationParams::default());
        request.sampling.temperature = 0.8;
        request.sampling.seed = Some(3);
        request.ignore_eos = true;
        request.max_tokens = Some(1000);
        request.credits = 0;
    });
    let mut generated = 0;
    let mut usage = Usage::default();
    for _ in 0..100 {
        run.handle.grant(1);
        let output = run.next();
        generated += output.tokens.len() as u32;
        usage = output.usage;
        while !engine.status().idle {
            std::thread::yield_now();
        }
        // All but the last token have a cell.
        assert_eq!(engine.status().kv_cells_used, 5 + generated - 1);
    }
    let drafts = drafts_of(usage);
    assert!(drafts.accepted > 0 && drafts.rejected > 0, "{drafts:?}");
    assert_eq!(generated, 100 + drafts.accepted);
}

#[test]
fn a_limit_inside_a_draft_ends_the_text_there() {
    let engine = scripted(Script {
        replies: vec![graphmill_llm::backend::scripted::Reply {
            text: "abcdefgh abcdefgh abcdefgh abcdeX".to_owned(),
            ..Default::default()
        }],
        ..Script::default()
    });
    for max_tokens in 1..34 {
        let (said, usage, _) = start(&engine, |request| {
            request.prompt = chat(&engine, "hi");
            request.max_tokens = Some(max_tokens);
            request.speculation = Some(SpeculationParams::default());
        })
        .finish();
        let expected = &b"abcdefgh abcdefgh abcdefgh abcdeX"[..max_tokens as usize];
        let text: Vec<_> = said.tokens.iter().map(|token| *token as u8).collect();
        assert_eq!(text, expected);
        assert_eq!(usage.generated_tokens, max_tokens);
        assert_eq!(said.finish, FinishReason::Length);
    }
}

#[test]
fn a_sequence_in_the_last_cells_goes_on_without_drafts() {
    // The text fills the cache exactly: its last token needs no cell.
    let run = |cells| {
        let engine = scripted(Script {
            cells,
            context: cells,
            ..repeating()
        });
        let (said, ..) = start(&engine, |request| {
            request.prompt = chat(&engine, "hi");
            request.max_tokens = None;
            request.speculation = Some(SpeculationParams {
                num_assistant_tokens: 8,
                source: DraftSource::Text { max_ngram_size: 3 },
            });
        })
        .finish();
        (said.tokens.len(), said.finish)
    };
    let prompt = chat(&scripted(repeating()), "hi").len();
    for cells in 150..170 {
        assert_eq!(
            run(cells),
            (cells as usize - prompt, FinishReason::Length),
            "{cells} cells"
        );
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let engine = scripted(Script::default());
    let refusal = |num_assistant_tokens, max_ngram_size| {
        let mut request = GenerationRequest::new(vec![97], |_: StepOutput| {});
        request.speculation = Some(SpeculationParams {
            num_assistant_tokens,
            source: DraftSource::Text { max_ngram_size },
        });
        match engine.submit(request) {
            Err(SubmitError::InvalidParameter { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        }
    };
    assert_eq!(refusal(0, 3), Some("num_assistant_tokens"));
    assert_eq!(refusal(33, 3), Some("num_assistant_tokens"));
    assert_eq!(refusal(5, 0), Some("max_ngram_size"));
    assert_eq!(refusal(5, 9), Some("max_ngram_size"));
    assert_eq!(refusal(32, 8), None);
}

#[test]
fn sequences_that_speculate_share_steps_with_others() {
    let engine = Arc::new(scripted(repeating()));
    let runs: Vec<_> = (0..8)
        .map(|index| {
            start(&engine, |request| {
                request.prompt = chat(&engine, "hi");
                request.max_tokens = Some(200);
                request.speculation = (index % 2 == 0).then(SpeculationParams::default);
            })
        })
        .collect();
    for run in runs {
        let (said, usage, outputs) = run.finish();
        assert_eq!(said.tokens.len(), 200);
        match usage.drafts {
            Some(_) => assert!(outputs < 200),
            None => assert_eq!(outputs, 200),
        }
    }
}
