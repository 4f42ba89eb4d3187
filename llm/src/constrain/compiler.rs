//! Compiles constraints for a model's vocabulary, and remembers the last ones.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};

use super::constraint::Constraint;
use super::grammar;
use super::matching::{Matching, readable};
use super::numbers::Numbers;
use super::text::ConstrainedText;
use super::vocabulary::Vocabulary;
use crate::vocab::Vocab;

/// Compiled constraints that are remembered: clients send the same few again and again.
const REMEMBERED: usize = 64;
/// Most bytes of a constraint, as JSON.
const LONGEST: usize = 1 << 20;
/// The stack that it is compiled on: llguidance recurses along lists of properties and rules. Only what is touched takes memory.
const STACK_BYTES: usize = 256 << 20;

/// A constraint that was compiled for a model's vocabulary. Copies share it.
#[derive(Clone)]
pub struct CompiledConstraint(Arc<Compiled>);

struct Compiled {
    /// Before the first token.
    matcher: Mutex<Matcher>,
    /// What it was compiled for.
    vocabulary: Arc<Vocabulary>,
    /// Whether numbers of JSON are in it.
    has_numbers: bool,
}

impl CompiledConstraint {
    /// What follows one sequence.
    pub(crate) fn matching(&self) -> Matching {
        let vocabulary = self.0.has_numbers.then(|| Arc::clone(&self.0.vocabulary));
        Matching::new(self.matcher(), vocabulary.map(Numbers::new))
    }

    /// What follows a text of this constraint that is known without its tokens.
    pub fn text(&self) -> ConstrainedText {
        ConstrainedText::new(self.matcher(), Arc::clone(&self.0.vocabulary))
    }

    fn matcher(&self) -> Matcher {
        let matcher = self.0.matcher.lock();
        // No code that can panic runs under the lock.
        matcher.unwrap_or_else(PoisonError::into_inner).deep_clone()
    }
}

impl fmt::Debug for CompiledConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledConstraint").finish_non_exhaustive()
    }
}

/// Why a constraint cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConstraintError(pub String);

/// Compiles for one vocabulary.
pub(crate) struct Compiler {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
    /// Constraints as JSON, the one that was asked for last at the end.
    remembered: Mutex<VecDeque<(String, CompiledConstraint)>>,
}

impl Compiler {
    /// Takes a second for a large vocabulary.
    pub(crate) fn new(vocab: Arc<dyn Vocab>) -> Result<Self, ConstraintError> {
        let vocabulary = Arc::new(Vocabulary::new(vocab));
        let tokens: TokEnv = vocabulary.clone();
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&tokens, InferenceCapabilities::default(), &slices)
            .map_err(|error| ConstraintError(error.to_string()))?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Self {
            factory,
            vocabulary,
            remembered: Mutex::default(),
        })
    }

    /// Compiles a constraint, unless it was compiled before.
    pub(crate) fn compile(
        &self,
        constraint: &Constraint,
    ) -> Result<CompiledConstraint, ConstraintError> {
        let key = serde_json::to_string(constraint)
            .map_err(|error| ConstraintError(error.to_string()))?;
        if let Some(compiled) = self.recall(&key) {
            return Ok(compiled);
        }
        if key.len() > LONGEST {
            return Err(ConstraintError(format!(
                "it has {} bytes, and can have {LONGEST}",
                key.len()
            )));
        }
        let compiled = thread::scope(|scope| {
            let compile = || self.compile_anew(constraint);
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            let thread = thread.name("constraint".to_owned());
            let failed = |why: &str| ConstraintError(format!("cannot be compiled: {why}"));
            match thread.spawn_scoped(scope, compile) {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(failed("panic"))),
                Err(error) => Err(failed(&error.to_string())),
            }
        })?;
        let mut remembered = self.lock();
        if remembered.len() == REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back((key, compiled.clone()));
        Ok(compiled)
    }

    fn compile_anew(&self, constraint: &Constraint) -> Result<CompiledConstraint, ConstraintError> {
        let grammar = grammar::of(constraint, &self.vocabulary)?;
        let mut matcher = Matcher::new(self.factory.create_parser(grammar));
        // A grammar that matches nothing is only found out here.
        matcher.compute_mask().map_err(|error| {
            let message = readable(error);
            ConstraintError(match message.as_str() {
                "NoExtensionBias" => "no text can match".to_owned(),
                _ => message,
            })
        })?;
        Ok(CompiledConstraint(Arc::new(Compiled {
            matcher: Mutex::new(matcher),
            has_numbers: constraint.has_json(),
            vocabulary: Arc::clone(&self.vocabulary),
        })))
    }

    /// Whether a constraint was compiled here.
    pub(crate) fn made(&self, constraint: &CompiledConstraint) -> bool {
        Arc::ptr_eq(&constraint.0.vocabulary, &self.vocabulary)
    }

    fn recall(&self, key: &str) -> Option<CompiledConstraint> {
        let mut remembered = self.lock();
        let place = remembered.iter().position(|(other, _)| other == key)?;
        let entry = remembered.remove(place)?;
        let compiled = entry.1.clone();
        remembered.push_back(entry);
        Some(compiled)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, CompiledConstraint)>> {
        // No code that can panic runs under the lock.
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
