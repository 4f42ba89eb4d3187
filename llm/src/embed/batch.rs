//! Choice of the texts for the next batch: a pure function of the requests in order.

use std::collections::VecDeque;

use crate::backend::interface::EmbeddingCapacity;

/// Fills `batch` with the number of texts to compute next, for each request by its place in the
/// queue. The first request gives the first text, whatever its length. Then each request gives one
/// text in turn, while they fit.
///
/// `length` returns the number of tokens of a request's text, by the number of texts before it that
/// are not computed yet; `None` if there are no more texts.
pub(super) fn fill<T>(
    capacity: &EmbeddingCapacity,
    queue: &VecDeque<T>,
    length: impl Fn(&T, usize) -> Option<usize>,
    batch: &mut Vec<usize>,
) {
    batch.clear();
    batch.resize(queue.len(), 0);
    let budget = capacity.batch_tokens as usize;
    let (mut texts, mut tokens, mut grows) = (0, 0, true);
    while grows {
        grows = false;
        for (request, taken) in queue.iter().zip(batch.iter_mut()) {
            if texts == capacity.max_sequences as usize || (texts > 0 && tokens >= budget) {
                return;
            }
            let Some(length) = length(request, *taken) else {
                continue;
            };
            if texts == 0 || tokens + length <= budget {
                *taken += 1;
                texts += 1;
                tokens += length;
                grows = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::Pooling;

    fn filled(batch_tokens: u32, max_sequences: u32, queue: &[&[usize]]) -> Vec<usize> {
        let capacity = EmbeddingCapacity {
            context_length: 1000,
            batch_tokens,
            max_sequences,
            width: 1,
            pooling: Pooling::Mean,
        };
        let queue = queue.iter().map(|texts| texts.to_vec()).collect();
        let mut batch = Vec::new();
        let length = |texts: &Vec<usize>, nth: usize| texts.get(nth).copied();
        fill(&capacity, &queue, length, &mut batch);
        batch
    }

    #[test]
    fn each_request_gives_one_text_in_turn() {
        assert_eq!(filled(10, 9, &[&[2, 2, 2, 2, 2], &[3], &[1, 1]]), [2, 1, 2]);
    }

    #[test]
    fn the_first_text_goes_alone_if_it_is_longer_than_a_batch() {
        assert_eq!(filled(10, 9, &[&[50, 1], &[1]]), [1, 0]);
    }

    #[test]
    fn a_text_that_does_not_fit_lets_shorter_ones_by() {
        assert_eq!(filled(10, 9, &[&[6], &[6], &[4]]), [1, 0, 1]);
    }

    #[test]
    fn a_batch_holds_only_so_many_texts() {
        assert_eq!(filled(100, 3, &[&[1, 1, 1, 1], &[1, 1]]), [2, 1]);
        assert_eq!(filled(100, 3, &[]), [0; 0]);
    }
}
