//! Compilation of constraints for a model's vocabulary, with a cache of the latest ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use llguidance::api::GrammarInit;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};

use super::compiling::{COMPILES, Compiling, Outcome};
use super::constraint::Constraint;
use super::matching::{Matching, NOTHING, readable};
use super::numbers::Numbers;
use super::productive::Dead;
use super::text::ConstrainedText;
use super::vocabulary::Vocabulary;
use super::{bounds, expressions, grammar, productive};
use crate::debug::show_fields;
use crate::lock::lock;
use crate::memory_budget::{self, Cache, OutOfMemory};
use crate::model::vocab::Vocab;
use crate::protocol::Tenant;

/// Maximum number of cached constraints: clients send the same few again and again.
const REMEMBERED: usize = 64;
/// Maximum size of the cache, as estimated, in bytes.
const REMEMBERED_BYTES: u64 = 64 << 20;
/// Maximum number of states of a lexer, of a kilobyte or two each. Each sequence has its own lexer.
const MAX_LEXER_STATES: usize = 32 << 10;
/// Maximum number of items of a parser, for one byte and for one mask. Ambiguous grammars have more
/// with every byte, and the time that others wait grows with their square. Some 170 alternatives of
/// a schema reach the limit for a byte.
const MAX_ITEMS_OF_A_BYTE: usize = 1_200;
const MAX_ITEMS: usize = 5_000;
/// Maximum work of a lexer for one mask; the next constant is for its start.
const LEXER_FUEL: u64 = 100_000;
const FIRST_LEXER_FUEL: u64 = 500_000;
/// Maximum size of a constraint as JSON, in bytes.
const LONGEST: usize = 1 << 20;
/// Size of the stack for compiling. llguidance recurses along lists of properties and rules. Only
/// touched pages take memory, but all of it takes address space.
const MIN_STACK_BYTES: usize = 8 << 20;
const MAX_STACK_BYTES: usize = 256 << 20;
const STACK_BYTES_OF_EACH: usize = 1024;
/// Estimated memory of a compiled constraint: a fixed part, a part per byte of its JSON, and a part
/// per unit of the lexer's work.
const KEPT_BYTES: u64 = 256 << 10;
const BYTES_OF_EACH: u64 = 64;
const BYTES_OF_COST: u64 = 64;

/// A constraint compiled for a model's vocabulary. Clones share the data.
#[derive(Clone)]
pub struct CompiledConstraint(Arc<ConstraintData>);

struct ConstraintData {
    /// State before the first token.
    matcher: Mutex<Matcher>,
    /// Vocabulary that it was compiled for.
    vocabulary: Arc<Vocabulary>,
    /// True if it contains JSON numbers.
    has_numbers: bool,
    bytes: u64,
}

impl CompiledConstraint {
    /// Creates the state of one sequence under this constraint.
    pub(crate) fn matching(&self) -> Matching {
        let vocabulary = self.0.has_numbers.then(|| Arc::clone(&self.0.vocabulary));
        Matching::new(self.matcher(), vocabulary.map(Numbers::new))
    }

    /// Creates the state of a text under this constraint whose tokens are unknown.
    pub fn text(&self) -> ConstrainedText {
        ConstrainedText::new(self.matcher(), Arc::clone(&self.0.vocabulary))
    }

    /// Estimated memory of the constraint in bytes, and again of each sequence under it.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes
    }

    fn matcher(&self) -> Matcher {
        lock(&self.0.matcher).deep_clone()
    }
}

show_fields!(CompiledConstraint {});

/// Reason why a constraint is invalid or too complex.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConstraintError(pub String);

/// Reason why there is no compiled constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The constraint is invalid or too complex.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// Compiling takes longer than this limit.
    #[error("takes longer than {} s to compile: make it smaller or simpler", .0.as_secs())]
    TooLong(Duration),
    /// There is too little free memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// Too many other constraints are being compiled.
    #[error("{0}: try again later")]
    Busy(String),
    /// The system has too little memory for a thread.
    #[error("{0}: try again later")]
    NoThread(String),
}

/// The compiler of a model, created when its first constraint is compiled.
pub(crate) type LazyCompiler = Arc<OnceLock<Result<Compiler, ConstraintError>>>;

/// Compiles a constraint, unless it is cached, on a thread that tenants share in turns. `tell`
/// receives the outcome. It is called at once, and `None` is returned, if the constraint is cached.
pub(crate) fn start(
    lazy: &LazyCompiler,
    vocab: &Arc<dyn Vocab>,
    constraint: &Constraint,
    tenant: Option<Tenant>,
    tell: impl FnOnce(Outcome) + Send + 'static,
) -> Result<Option<Compiling>, CompileError> {
    let key =
        serde_json::to_string(constraint).map_err(|error| ConstraintError(error.to_string()))?;
    if let Some(Ok(compiler)) = lazy.get()
        && let Some(compiled) = compiler.recall(&key)
    {
        tell(Ok(compiled));
        return Ok(None);
    }
    bounds::check_size(&key, LONGEST, "it")?;
    let stack = MIN_STACK_BYTES.saturating_add(key.len().saturating_mul(STACK_BYTES_OF_EACH));
    let stack = stack.min(MAX_STACK_BYTES);
    let (lazy, vocab, constraint) = (Arc::clone(lazy), Arc::clone(vocab), constraint.clone());
    let work = move || {
        let _claim = memory_budget::claim(stack as u64)?;
        let compiler = lazy.get_or_init(|| Compiler::new(vocab));
        compiler
            .as_ref()
            .map_err(Clone::clone)?
            .compile(&constraint, key)
    };
    let place = COMPILES.submit(tenant, stack, Box::new(work), Box::new(tell))?;
    Ok(Some(Compiling(Arc::new(place))))
}

/// Compiles constraints for one vocabulary.
pub(crate) struct Compiler {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
    remembered: Arc<ConstraintCache>,
}

/// Constraints by their JSON, least recently used first.
#[derive(Default)]
struct ConstraintCache(Mutex<VecDeque<(String, CompiledConstraint)>>);

impl Cache for ConstraintCache {
    fn shrink(&self) {
        lock(&self.0).clear();
    }
}

impl Compiler {
    /// Creates a compiler. Takes a second for a large vocabulary.
    pub(crate) fn new(vocab: Arc<dyn Vocab>) -> Result<Self, ConstraintError> {
        let vocabulary = Arc::new(Vocabulary::new(vocab));
        let tokens: TokEnv = vocabulary.clone();
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&tokens, InferenceCapabilities::default(), &slices)
            .map_err(|error| ConstraintError(error.to_string()))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.max_lexer_states = MAX_LEXER_STATES;
        limits.max_items_in_row = MAX_ITEMS_OF_A_BYTE;
        limits.step_max_items = MAX_ITEMS;
        limits.step_lexer_fuel = LEXER_FUEL;
        limits.initial_lexer_fuel = FIRST_LEXER_FUEL;
        let remembered = Arc::new(ConstraintCache::default());
        let cache: Arc<dyn Cache> = remembered.clone();
        memory_budget::enroll(Arc::downgrade(&cache));
        Ok(Self {
            factory,
            vocabulary,
            remembered,
        })
    }

    /// Compiles a constraint, unless it is cached. `key` is its JSON.
    fn compile(&self, constraint: &Constraint, key: String) -> Outcome {
        if let Some(compiled) = self.recall(&key) {
            return Ok(compiled);
        }
        let compiled = self.compile_anew(constraint, key.len())?;
        if compiled.bytes() <= REMEMBERED_BYTES / 4 && memory_budget::is_ample(compiled.bytes()) {
            self.remembered.insert(key, compiled.clone());
        }
        Ok(compiled)
    }

    fn compile_anew(
        &self,
        constraint: &Constraint,
        length: usize,
    ) -> Result<CompiledConstraint, ConstraintError> {
        let grammar = grammar::write(constraint, &self.vocabulary)?;
        let refused = |error| ConstraintError(readable(error));
        let (tokens, limits) = (self.factory.tok_env(), self.factory.limits());
        let (rules, lexer) = GrammarInit::Serialized(grammar)
            .to_internal(Some(tokens.clone()), limits.clone())
            .map_err(refused)?;
        expressions::check(lexer.regex_builder.exprset())?;
        let parser = self
            .factory
            .create_parser_from_init_default(GrammarInit::Internal(rules, lexer))
            .map_err(refused)?;
        productive::check(parser.parser.grammar()).map_err(|dead| {
            ConstraintError(match (dead, constraint) {
                (Dead::Whole, _) => NOTHING.to_owned(),
                (Dead::Rule(rule), Constraint::Lark(_)) => {
                    format!("no text can match the rule `{rule}`, because it only leads to itself")
                }
                (Dead::Rule(_), _) => {
                    "a part of it only leads to itself, so no text can match it".to_owned()
                }
            })
        })?;
        let mut matcher = Matcher::new(Ok(parser));
        // Other grammars without any matching text are only found here.
        matcher.compute_mask().map_err(refused)?;
        let cost = matcher
            .last_step_stats()
            .map_or(0, |stats| stats.lexer_cost);
        Ok(CompiledConstraint(Arc::new(ConstraintData {
            matcher: Mutex::new(matcher),
            has_numbers: constraint.has_json(),
            vocabulary: Arc::clone(&self.vocabulary),
            bytes: KEPT_BYTES + BYTES_OF_EACH * length as u64 + BYTES_OF_COST * cost,
        })))
    }

    /// Returns true if a constraint was compiled by this compiler.
    pub(crate) fn made(&self, constraint: &CompiledConstraint) -> bool {
        Arc::ptr_eq(&constraint.0.vocabulary, &self.vocabulary)
    }

    fn recall(&self, key: &str) -> Option<CompiledConstraint> {
        let mut remembered = lock(&self.remembered.0);
        let place = remembered.iter().position(|(other, _)| other == key)?;
        let entry = remembered.remove(place)?;
        let compiled = entry.1.clone();
        remembered.push_back(entry);
        Some(compiled)
    }
}

impl ConstraintCache {
    fn insert(&self, key: String, compiled: CompiledConstraint) {
        let mut remembered = lock(&self.0);
        remembered.push_back((key, compiled));
        let bytes =
            |(key, compiled): &(String, CompiledConstraint)| key.len() as u64 + compiled.bytes();
        while remembered.len() > REMEMBERED
            || remembered.iter().map(bytes).sum::<u64>() > REMEMBERED_BYTES
        {
            remembered.pop_front();
        }
    }
}
