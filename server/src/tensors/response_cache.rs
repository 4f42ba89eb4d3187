//! A cache of a graph's answers, reused for requests with the same inputs, if its options declare
//! it:
//!
//! ```pbtxt
//! graph_options {
//!   [type.googleapis.com/graphmill.TensorOptions] { response_cache { max_bytes: 16777216 } }
//! }
//! ```
//!
//! The cache belongs to the plan of the graph, so no answer outlives the models that computed it.

use std::num::NonZeroU64;

use bytes::Bytes;
use graphmill_calculators::tensor::Tensor;
use parking_lot::Mutex;
use quick_cache::{Weighter, unsync::Cache};
use ring::digest::{Context, SHA256};
use serde::Deserialize;

use crate::run::Tensors;

/// Default of the option `max_bytes`, in bytes.
const MAX_BYTES: NonZeroU64 = NonZeroU64::new(16 << 20).expect("it is above 0");

/// Assumed size of an answer in bytes, for the first allocation.
const USUAL_BYTES: u64 = 4 << 10;

/// Size in bytes of an answer without its tensors, and of a tensor without its data.
const OVERHEAD: usize = 128;

/// The options of a response cache.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// Maximum size of all answers in memory, in bytes; [`MAX_BYTES`] if not set.
    max_bytes: Option<NonZeroU64>,
}

/// Digest of a request's inputs, and of everything else that determines its answer.
pub(crate) type AnswerKey = [u8; 32];

/// Computes an [`AnswerKey`]. `others` determine an answer in addition to the inputs.
pub(crate) fn key(others: &[(String, Vec<u8>)], inputs: &Tensors) -> AnswerKey {
    let mut hash = Context::new(&SHA256);
    // Each part is preceded by its length, so that different requests never have the same bytes.
    let mut add = |part: &[u8]| {
        hash.update(&part.len().to_le_bytes());
        hash.update(part);
    };
    for (name, value) in others {
        add(name.as_bytes());
        add(value);
    }
    add(&others.len().to_le_bytes());
    for (name, tensor) in inputs {
        add(name.as_bytes());
        add(tensor.datatype().name().as_bytes());
        let shape = tensor.shape().iter();
        add(&shape.flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>());
        add(tensor.data());
    }
    let digest = hash.finish();
    *digest.as_ref().first_chunk().expect("it has 32 bytes")
}

/// Answers of a graph. The least used ones are removed above the limit.
#[derive(Deserialize)]
#[serde(from = "Options")]
pub(crate) struct ResponseCache(Mutex<Cache<AnswerKey, CachedAnswer, AnswerWeight>>);

/// A cached answer with its size.
struct CachedAnswer {
    tensors: Tensors,
    bytes: u64,
}

struct AnswerWeight;

impl Weighter<AnswerKey, CachedAnswer> for AnswerWeight {
    fn weight(&self, _: &AnswerKey, answer: &CachedAnswer) -> u64 {
        answer.bytes
    }
}

impl From<Options> for ResponseCache {
    fn from(options: Options) -> Self {
        let bytes = options.max_bytes.unwrap_or(MAX_BYTES).get();
        let answers = usize::try_from(bytes / USUAL_BYTES).unwrap_or(usize::MAX);
        let cache = Cache::with_weighter(answers.clamp(16, 1 << 16), bytes, AnswerWeight);
        Self(Mutex::new(cache))
    }
}

/// The usage of a cache so far.
#[derive(Copy, Clone, Debug)]
pub(crate) struct CacheUse {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) bytes: u64,
}

impl ResponseCache {
    /// Returns the answer to an earlier request with this key.
    pub(crate) fn get(&self, key: &AnswerKey) -> Option<Tensors> {
        self.0.lock().get(key).map(|answer| answer.tensors.clone())
    }

    /// Stores an answer, unless it is too large.
    pub(crate) fn keep(&self, key: AnswerKey, tensors: &Tensors) {
        let sizes = tensors.iter().map(|(name, tensor)| {
            name.len() + size_of_val(tensor.shape()) + tensor.data().len() + OVERHEAD
        });
        let bytes = (sizes.sum::<usize>() + OVERHEAD) as u64;
        if bytes > self.0.lock().capacity() {
            return;
        }
        let copies = tensors.iter().map(|(name, tensor)| {
            // A tensor may be part of a larger buffer, of a batch or a request, which it would keep
            // in memory.
            let data = Bytes::copy_from_slice(tensor.data());
            let copy = Tensor::new(tensor.datatype(), tensor.shape(), data);
            (name.clone(), copy.unwrap_or_else(|_| tensor.clone()))
        });
        let tensors = copies.collect();
        self.0.lock().insert(key, CachedAnswer { tensors, bytes });
    }

    pub(crate) fn usage(&self) -> CacheUse {
        let cache = self.0.lock();
        CacheUse {
            hits: cache.hits(),
            misses: cache.misses(),
            bytes: cache.weight(),
        }
    }
}

#[cfg(test)]
mod tests {
    use graphmill_calculators::tensor::Datatype;

    use super::*;

    fn tensors(name: &str, shape: &[usize], data: &[u8]) -> Tensors {
        let tensor = Tensor::new(Datatype::Uint8, shape, data.to_vec()).expect("a tensor");
        vec![(name.to_owned(), tensor)]
    }

    #[test]
    fn requests_that_differ_anywhere_have_keys_that_differ() {
        let side = |name: &str, value: &[u8]| vec![(name.to_owned(), value.to_vec())];
        let requests = [
            (vec![], tensors("x", &[2], b"ab")),
            (vec![], tensors("y", &[2], b"ab")),
            (vec![], tensors("x", &[2], b"ac")),
            (vec![], tensors("x", &[2, 1], b"ab")),
            (
                vec![],
                [tensors("x", &[1], b"a"), tensors("x", &[1], b"b")].concat(),
            ),
            (side("s", b"1"), tensors("x", &[2], b"ab")),
            (side("s", b"2"), tensors("x", &[2], b"ab")),
            (side("s1", b""), tensors("x", &[2], b"ab")),
        ];
        let keys = requests.iter().map(|(others, inputs)| key(others, inputs));
        let keys: Vec<AnswerKey> = keys.collect();
        for (position, one) in keys.iter().enumerate() {
            assert!(!keys[..position].contains(one), "{position}");
        }
        let (others, inputs) = &requests[5];
        assert_eq!(key(others, inputs), keys[5]);
    }

    #[test]
    fn answers_take_no_more_than_there_is() {
        const MAX: u64 = 64 << 10;
        let max_bytes = NonZeroU64::new(MAX);
        let cache = ResponseCache::from(Options { max_bytes });
        let large = tensors("y", &[4096], &[7; 4096]);
        for number in 0..1_000_u64 {
            let key = key(&[], &tensors("x", &[8], &number.to_le_bytes()));
            assert!(cache.get(&key).is_none());
            cache.keep(key, &large);
            assert!(cache.usage().bytes <= MAX);
        }
        let CacheUse {
            hits,
            misses,
            bytes,
        } = cache.usage();
        assert_eq!((hits, misses), (0, 1_000));
        assert!(bytes > MAX / 2, "{bytes}");
        // One that is larger than all of it is not kept.
        let huge = tensors("y", &[1 << 20], &vec![7; 1 << 20]);
        cache.keep([0; 32], &huge);
        assert!(cache.get(&[0; 32]).is_none() && cache.usage().bytes <= MAX);
        cache.keep([1; 32], &large);
        assert_eq!(cache.get(&[1; 32]), Some(large));
    }
}
