//! Test files of graphs: `*.test.toml`.
//!
//! ```toml
//! graph = "graph.pbtxt"
//!
//! [models.llm]
//! replies = [{ when = "capital of France", text = "Paris." }]
//!
//! [[case]]
//! name = "numbers are passed on"
//! input = [{ stream = "in", timestamp = 1, value = 5 }]
//! expect.out = [{ timestamp = 1, value = 5 }]
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    future::pending,
    path::Path,
    sync::Arc,
    time::Duration,
};

use graphmill_calculators::llm::{LanguageModel, RecordedTokens};
use graphmill_engine::{Environment, Error, Plan, Registry, SidePackets, TypeInfo, codec};
use graphmill_grammar::render::{self, Color};
use graphmill_llm::backend::scripted::Script;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    expect::{self, Expectation},
    line::{Line, LineFields, Reader, Shown},
    play::{End, PacketLog, Patience, Play, complete},
};
use crate::{
    config::subgraphs::NamedSubgraphs,
    servable::{compile, compile_text},
};

/// A parsed test file: a graph and its cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestFile {
    /// Path of the graph file, relative to this file.
    graph: Option<String>,
    /// Text of the graph, in place of a file.
    text: Option<String>,
    /// Folder that paths in `text` are relative to, relative to this file.
    base_path: Option<String>,
    /// Scripts that replace language models, by the side packet that names the model.
    #[serde(default)]
    models: BTreeMap<String, Script>,
    #[serde(rename = "case")]
    pub(crate) cases: Vec<Case>,
}

/// A test case: inputs and expected outputs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Values of side packets by name.
    #[serde(default)]
    side: BTreeMap<String, Value>,
    /// Input lines, in order. Inputs that are still open are closed after the last one.
    #[serde(default)]
    input: Vec<LineFields>,
    /// Expected packets by stream; any stream of the graph is possible. Other streams are not
    /// checked.
    expect: Option<BTreeMap<String, Expectation>>,
    /// Recorded tokens of language models, by node. The models produce them again instead of
    /// generating.
    #[serde(default)]
    tokens: BTreeMap<String, Vec<Step>>,
    /// Expected values of output side packets, by name.
    #[serde(default)]
    expect_side: BTreeMap<String, Value>,
    /// Part of the expected error of the graph or its compilation.
    error: Option<String>,
    /// Part of the expected description of a stuck graph. Its inputs stay open then.
    stuck: Option<String>,
    /// Maximum time in seconds without a packet after the end of the input.
    #[serde(default = "default_timeout")]
    timeout: f64,
}

/// Recorded tokens of one step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    timestamp: Value,
    value: Value,
}

fn default_timeout() -> f64 {
    10.0
}

/// The result of a test case.
pub(crate) struct CaseOutcome {
    /// Differences from the expectation, as lines; `None` if the case passed.
    pub(crate) failure: Option<String>,
    /// Actual packets of the streams that the case names, or of the graph's outputs if it names
    /// none.
    pub(crate) outputs: BTreeMap<String, Vec<Shown>>,
}

/// Opener of a session with these side packets. If tokens are given, language models produce them
/// instead of generating.
pub(crate) trait Open:
    FnOnce(&Arc<Plan>, SidePackets, Option<RecordedTokens>) -> Result<Play, Error>
{
}

impl<T> Open for T where
    T: FnOnce(&Arc<Plan>, SidePackets, Option<RecordedTokens>) -> Result<Play, Error>
{
}

/// A compiled graph with its test settings.
pub(crate) struct Bench {
    /// Plan, or the reason why the graph does not compile.
    plan: Result<Arc<Plan>, String>,
}

impl TestFile {
    /// Parses a test file. The error names the place.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml_edit::de::from_str(text).map_err(|error| error.to_string())?;
        match (&file.graph, &file.text) {
            (Some(_), None) if file.base_path.is_some() => {
                Err("`base_path` is for a graph in `text`: paths in a `graph` are relative to its folder".to_owned())
            }
            (Some(_), None) | (None, Some(_)) => Ok(file),
            _ => Err("a test file needs either `graph` or `text`".to_owned()),
        }
    }

    /// Parses a file with a single case and without a graph. The error names the place.
    pub(crate) fn parse_case(text: &str) -> Result<Self, String> {
        let file: Self = toml_edit::de::from_str(text).map_err(|error| error.to_string())?;
        if file.graph.is_some() || file.text.is_some() || file.base_path.is_some() {
            return Err(
                "the graph is given separately: expected neither `graph`, `text` nor `base_path`"
                    .to_owned(),
            );
        }
        if file.cases.len() != 1 {
            let cases = file.cases.len();
            return Err(format!("{cases} cases: expected one"));
        }
        Ok(file)
    }

    /// Replaces language models with the scripts of the file.
    pub(crate) fn provide(&self, environment: Environment) -> Environment {
        let provide = |environment: Environment, (name, script): (&String, &Script)| {
            let script = script.clone();
            environment.with_resource_from(name, move |spec, files| {
                LanguageModel::scripted(script.clone(), spec, files).map(Arc::new)
            })
        };
        self.models.iter().fold(environment, provide)
    }

    /// Returns an error if a script replaces no model.
    pub(crate) fn unused_model(&self, plan: &Plan) -> Option<String> {
        let of = TypeInfo::new::<LanguageModel>().name();
        let sides = plan.explain().nodes.iter().flat_map(|it| &it.side_inputs);
        let models = sides.filter(|side| side.ty == of);
        let used: BTreeSet<&str> = models.map(|side| side.name.as_str()).collect();
        let mut names = self.models.keys();
        let unused = names.find(|name| !used.contains(name.as_str()))?;
        let used = used.into_iter().collect::<Vec<_>>().join(", ");
        let used = if used.is_empty() { "none" } else { &used };
        Some(format!(
            "`models.{unused}`: no node of the graph uses a language model of this name; used: {used}"
        ))
    }

    /// Compiles the graph of the test file at `path`. The error is about something other than the
    /// graph.
    pub(crate) fn bench(&self, path: &Path, named: &NamedSubgraphs) -> Result<Bench, String> {
        let environment = self.provide(Environment::new(Registry::global()));
        let folder = path.parent().unwrap_or(Path::new(""));
        let compiled = match (&self.graph, &self.text) {
            (Some(graph), _) => {
                let graph = folder.join(graph);
                let base = graph.parent().unwrap_or(Path::new("")).to_owned();
                compile(&graph, &base, &environment, named)?
            }
            (None, text) => {
                let text = text.clone().unwrap_or_default();
                let base = folder.join(self.base_path.as_deref().unwrap_or_default());
                compile_text(path, text, &base, &environment, named)
            }
        };
        let plan = compiled.plan.as_ref();
        if let Some(unused) = plan.and_then(|plan| self.unused_model(plan)) {
            return Err(unused);
        }
        let shown = || render::human(&compiled.sources, &compiled.diagnostics, Color::Plain);
        Ok(Bench {
            plan: compiled.plan.ok_or_else(shown),
        })
    }
}

impl Bench {
    /// Creates a bench for a compiled graph.
    pub(crate) fn for_plan(plan: Arc<Plan>) -> Self {
        Self { plan: Ok(plan) }
    }

    /// Runs a case in a new session.
    pub(crate) async fn run(&self, case: &Case) -> CaseOutcome {
        let open = |plan: &_, sides, tokens| Play::new(plan, sides, tokens, "offline");
        self.run_in(case, open).await
    }

    /// Runs a case in a session that `open` opens.
    pub(crate) async fn run_in(&self, case: &Case, open: impl Open) -> CaseOutcome {
        let mut outputs = BTreeMap::new();
        let failure = self.judge(case, open, &mut outputs).await.err();
        CaseOutcome { failure, outputs }
    }

    async fn judge(
        &self,
        case: &Case,
        open: impl Open,
        outputs: &mut BTreeMap<String, Vec<Shown>>,
    ) -> Result<(), String> {
        let plan = match (&self.plan, &case.error) {
            (Ok(plan), _) => plan,
            (Err(diagnostics), Some(part)) if diagnostics.contains(part.as_str()) => return Ok(()),
            (Err(diagnostics), _) => {
                return Err(format!("the graph does not compile\n{diagnostics}"));
            }
        };
        let mut reader = Reader::new(plan);
        let mut sides = SidePackets::new();
        for (name, value) in &case.side {
            let packet = reader.side(name, value, None)?;
            sides = sides.with_packet(name, packet);
        }
        let mut lines = Vec::new();
        for (number, written) in (1..).zip(&case.input) {
            let line = reader.line(written.clone());
            match line.map_err(|why| format!("`input`, element {number}: {why}"))? {
                Line::Side { name, packet } => sides = sides.with_packet(name, packet),
                line => lines.push((number, line)),
            }
        }
        let patience = Patience {
            reads_all: false,
            close: case.stuck.is_none(),
            silence: Duration::try_from_secs_f64(case.timeout).unwrap_or(Duration::MAX),
            tell: None,
        };
        let (end, handle) = match start(case, plan, sides, open) {
            Err(error) => (End::Failed(error), None),
            Ok((session, kept)) => {
                let (end, handle) = session.run(complete(lines), pending(), patience).await;
                for (stream, packet) in kept.take() {
                    let found = outputs.entry(stream).or_default();
                    found.push(Shown::from_packet(&packet));
                }
                (end, Some(handle))
            }
        };
        case.judge_end(&end)?;
        let mut differences = String::new();
        for (stream, expected) in case.expect.iter().flatten() {
            let found = outputs.get(stream).map_or(&[][..], Vec::as_slice);
            if let Some(difference) = expect::difference(expected, found) {
                // Writing to a string cannot fail.
                let _ = write!(differences, "stream `{stream}`\n{difference}");
            }
        }
        for (name, wanted) in &case.expect_side {
            let side = handle.as_ref().map(|handle| handle.side_packet(name));
            let side = side.transpose().map_err(|error| error.to_string())?;
            let side = side.flatten();
            let found = side.map_or(Value::Null, |packet| Shown::from_packet(&packet).value);
            if !expect::same(wanted, &found) {
                let _ = write!(differences, "side packet `{name}`\n- {wanted}\n+ {found}\n");
            }
        }
        if differences.is_empty() {
            Ok(())
        } else {
            Err(differences)
        }
    }
}

/// Creates the session of a case. It observes the streams that the case names, or the graph's
/// outputs if it names none.
fn start(
    case: &Case,
    plan: &Arc<Plan>,
    sides: SidePackets,
    open: impl Open,
) -> Result<(Play, PacketLog), Error> {
    let mut session = open(plan, sides, case.tokens()?)?;
    let kept = match &case.expect {
        Some(expect) => session.keep(expect.keys().map(String::as_str), usize::MAX),
        None => session.keep(plan.graph_outputs(), usize::MAX),
    };
    Ok((session, kept?))
}

impl Case {
    /// Creates a single input line with a request.
    pub(crate) fn request(stream: &str, path: &str, body: &Value) -> Self {
        let value = json!({ "uri": path, "method": "POST", "body": body });
        Self {
            name: path.to_owned(),
            input: vec![LineFields::packet(stream, value)],
            timeout: default_timeout(),
            ..Self::default()
        }
    }

    /// Returns the recorded tokens of the case; `None` if there are none.
    fn tokens(&self) -> Result<Option<RecordedTokens>, Error> {
        let mut recorded = RecordedTokens::default();
        for (node, steps) in &self.tokens {
            for step in steps {
                let at = |why| Error::invalid(format!("`tokens.{node}`: {why}"));
                let packet = codec::decode(&step.value, Some("token_chunk"), &[]).map_err(at)?;
                let time = codec::timestamp_from_json(&step.timestamp).map_err(at)?;
                recorded.add(node, &packet.at(time))?;
            }
        }
        Ok((!self.tokens.is_empty()).then_some(recorded))
    }

    /// Checks that the session ended as expected.
    fn judge_end(&self, end: &End) -> Result<(), String> {
        let matches = |wanted: &Option<String>, said: &str| {
            wanted.as_ref().is_some_and(|part| said.contains(part))
        };
        match (end, &self.error, &self.stuck) {
            (End::Done, None, None) => Ok(()),
            (End::Failed(error) | End::Refused(_, error), Some(_), _)
                if matches(&self.error, &error.to_string()) =>
            {
                Ok(())
            }
            (End::Stuck(why), _, Some(_)) if matches(&self.stuck, why) => Ok(()),
            (End::Done, Some(error), _) => Err(format!(
                "the graph was expected to fail with\n- {error}\n  but it succeeded\n"
            )),
            (End::Done, None, Some(stuck)) => Err(format!(
                "the graph was expected to get stuck with\n- {stuck}\n  but it ended\n"
            )),
            (End::Failed(error) | End::Refused(_, error), Some(wanted), _) => Err(format!(
                "the graph failed with another error\n- {wanted}\n+ {error}\n"
            )),
            (End::Failed(error), None, _) => Err(format!("the graph failed: {error}\n")),
            (End::Stuck(why), _, Some(wanted)) => Err(format!(
                "the graph is stuck for another reason\n- {wanted}\n+ {why}\n"
            )),
            (End::Stuck(why), _, None) => Err(format!("{why}\n")),
            (End::BadLine(problem), ..) => Err(format!("`input`: {problem}\n")),
            (End::Refused(number, problem), ..) => {
                Err(format!("`input`, element {number}: {problem}\n"))
            }
            (End::Interrupted, ..) => Err("interrupted\n".to_owned()),
        }
    }
}
