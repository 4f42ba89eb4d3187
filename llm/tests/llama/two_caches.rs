//! Prefix sharing of models that keep a second cache beside the first: what is kept of a finished
//! prompt, and what is copied from a running one, has the cells of both.

use graphmill_llm::RequestId;

use crate::llama::checkpoints::{Pair, TOLERANCE, finish, play_any, prompt};
use crate::llama::families::Family;
use crate::llama::support::same;

const BEGINNING: u32 = 90;

fn pairs() -> impl Iterator<Item = (Pair, String)> {
    [true, false].into_iter().map(|unified| {
        let pair = Pair::load(Family::Indexed, unified, true, false);
        (pair, format!("unified: {unified}"))
    })
}

#[test]
fn finished_prompts_are_gone_on_from() {
    for (pair, what) in pairs() {
        let ask = |end| pair.ask(&prompt(BEGINNING, end), &what).1.cached_tokens;
        assert_eq!([0, 1, 2].map(ask), [0, BEGINNING, BEGINNING], "{what}");
        // The same again: all but the last token is there.
        let known = prompt(BEGINNING, 1).len() as u32 - 1;
        assert_eq!(ask(1), known, "{what}");
        assert_eq!(pair.sharing.status().kv_cells_used, 0, "{what}");
    }
}

#[test]
fn running_prompts_are_gone_on_from() {
    for (pair, what) in pairs() {
        let prompts: Vec<_> = (0..6).map(|end| prompt(BEGINNING, end)).collect();
        let running: Vec<_> = prompts
            .iter()
            .map(|prompt| pair.share(prompt, 24, RequestId::new()))
            .collect();
        let mut cached = 0;
        for (generation, prompt) in running.into_iter().zip(&prompts) {
            let (answer, usage) = finish(generation);
            same(&pair.expected(prompt, 24), &answer, TOLERANCE, true, &what);
            cached += usage.cached_tokens;
        }
        assert_eq!(cached, 5 * BEGINNING, "{what}");
    }
}

/// In the unified KV cache, the cells of others change the order in which attention adds. Where two
/// cells have nearly equal scores, an indexer that chooses a few of many then chooses another one.
#[test]
fn any_workload_in_streams_gives_the_answers_of_an_engine_without_sharing() {
    for drafts in [false, true] {
        let pair = Pair::load(Family::Indexed, false, true, drafts);
        play_any(&pair, &format!("drafts: {drafts}"));
    }
}
