//! Resources: shared between nodes, sessions and plans, and freed when nobody uses them.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Error, FileSource, Flow, In, NoOptions, OpenCx, Out,
    Plan, Registry, Res, Resource, Result, RunCx, Session, SidePackets,
    testing::{Harness, check},
};
use graphmill_grammar::{SourceMap, parse_graph};
use schemars::JsonSchema;
use serde::Deserialize;

static LOADED: AtomicUsize = AtomicUsize::new(0);

/// A text file, loaded once.
#[derive(Debug)]
struct Table(String);

impl Resource for Table {
    type Spec = PathBuf;

    fn resolve(spec: PathBuf, files: &dyn FileSource) -> Result<PathBuf> {
        Ok(files.resolve(&spec))
    }

    fn load(spec: &PathBuf, files: &dyn FileSource) -> Result<Self> {
        let bytes = files.read(spec).map_err(|error| {
            Error::not_found(format!("cannot read {}: {error}", spec.display()))
        })?;
        LOADED.fetch_add(1, Ordering::Relaxed);
        Ok(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TableOptions {
    path: String,
    /// What has to be in the file.
    word: String,
}

/// Defines the resource.
struct Define(Arc<Table>);

impl Calculator for Define {
    const NAME: &'static str = "DefineCalculator";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.TableOptions"];
    type Options = TableOptions;
    type Ports = (In<i64>, Out<String>, Res<Table>);

    fn contract(c: &mut Contract, options: &TableOptions) -> Self::Ports {
        let table = c.resource("TABLE", Some(PathBuf::from(&options.path)));
        let word = options.word.clone();
        c.check_resource(table, move |table: &Table| {
            let has_it = table.0.contains(&word);
            let missing = || Error::precondition(format!("`{word}` is missing")).with_field("word");
            has_it.then_some(()).ok_or_else(missing)
        });
        (c.input("IN"), c.output("OUT"), table)
    }

    fn open(_: &TableOptions, (_, _, table): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(cx.resource(table)))
    }

    fn process(&mut self, (_, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        cx.emit(output, self.0.0.clone());
        Ok(Flow::Continue)
    }
}

/// Refers to it.
struct Refer(Arc<Table>);

impl Calculator for Refer {
    const NAME: &'static str = "ReferCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<String>, Res<Table>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input("IN"), c.output("OUT"), c.resource("TABLE", None))
    }

    fn open(_: &NoOptions, (_, _, table): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(cx.resource(table)))
    }

    fn process(&mut self, (_, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        cx.emit(output, self.0.0.clone());
        Ok(Flow::Continue)
    }
}

/// Defines it by an output side packet.
struct Name;

impl Calculator for Name {
    const NAME: &'static str = "NameCalculator";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.TableOptions"];
    type Options = TableOptions;
    type Ports = ();

    fn contract(c: &mut Contract, options: &TableOptions) {
        c.output_resource::<Table>("TABLE", PathBuf::from(&options.path));
    }

    fn open(_: &TableOptions, (): (), _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (): (), _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}

/// One file in memory, however it is called.
struct OneFile;

impl FileSource for OneFile {
    fn resolve(&self, path: &Path) -> PathBuf {
        Path::new("/graph").join(path.strip_prefix("./").unwrap_or(path))
    }

    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        if path == Path::new("/graph/table.txt") {
            Ok(b"content".to_vec())
        } else {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }
}

fn environment() -> Environment {
    let registry = Registry::new().with::<Define>().with::<Refer>();
    Environment::new(registry.with::<Name>()).with_files(OneFile)
}

fn define(name: &str, path: &str, out: &str) -> String {
    format!(
        r#"node {{ calculator: "DefineCalculator" input_stream: "IN:in" output_stream: "OUT:{out}" input_side_packet: "TABLE:{name}"
             node_options {{ [type.googleapis.com/mediapipe.TableOptions] {{ path: "{path}" }} }} }}
"#
    )
}

fn refer(name: &str, out: &str) -> String {
    format!(
        r#"node {{ calculator: "ReferCalculator" input_stream: "IN:in" output_stream: "OUT:{out}" input_side_packet: "TABLE:{name}" }}
"#
    )
}

#[test]
fn one_resource_serves_nodes_sessions_and_plans() {
    let environment = environment();
    let before = LOADED.load(Ordering::Relaxed);
    let text = define("t", "./table.txt", "a") + &refer("t", "b");
    let mut h = Harness::new(&text, environment.clone());
    h.push("in", 0, 1_i64)
        .expect("a", [(0, "content".to_owned())])
        .expect("b", [(0, "content".to_owned())]);
    h.finish();
    let other = Harness::new(
        &define("another_name", "table.txt", "c"),
        environment.clone(),
    );
    let (ours, theirs) = (
        h.plan().resources::<Table>(),
        other.plan().resources::<Table>(),
    );
    assert_eq!(ours.len(), 1);
    assert!(Arc::ptr_eq(&ours[0], &theirs[0]));
    assert_eq!(LOADED.load(Ordering::Relaxed) - before, 1);
    assert_eq!(environment.resources().len(), 1);
    drop((h, other, ours, theirs));
    assert!(
        environment.resources().is_empty(),
        "freed with the last plan"
    );
}

fn name(name: &str, path: &str) -> String {
    format!(
        r#"node {{ calculator: "NameCalculator" output_side_packet: "TABLE:{name}"
             node_options {{ [type.googleapis.com/mediapipe.TableOptions] {{ path: "{path}" }} }} }}
"#
    )
}

#[test]
fn a_node_without_streams_names_a_resource() {
    // The order of the nodes in the file does not matter.
    let text = refer("t", "a") + &name("t", "table.txt");
    let mut h = Harness::new(&text, environment());
    h.push("in", 0, 1_i64)
        .expect("a", [(0, "content".to_owned())]);
    h.close_all();
    h.finish();
    for (text, why) in [
        (refer("t", "a") + &name("t", "missing.txt"), "cannot read"),
        (
            refer("t", "a") + &name("u", "table.txt"),
            "no node defines the resource `t`",
        ),
        (
            define("t", "other.txt", "a") + &name("t", "table.txt"),
            "is defined in two ways",
        ),
        (
            name("t", "table.txt") + &name("t", "table.txt"),
            "produced twice",
        ),
    ] {
        let found = check(&text, &environment());
        assert!(found.contains(why), "{found}");
    }
}

#[test]
fn a_resource_without_what_a_node_asks_for_is_told_at_the_option() {
    let asking = |word: &str| {
        let options = format!("path: \"table.txt\" word: \"{word}\"");
        define("t", "table.txt", "a").replace("path: \"table.txt\"", &options)
    };
    assert_eq!(check(&asking("content"), &environment()), "");
    insta::assert_snapshot!(
        "without_the_word",
        check(&(asking("other") + &refer("t", "b")), &environment())
    );
    let unloaded = environment().without_loading();
    assert_eq!(check(&asking("other"), &unloaded), "");
}

#[test]
fn sharing_takes_what_others_have_and_loads_nothing() {
    let loading = environment();
    let sharing = loading.clone().sharing_only();
    let text = define("t", "table.txt", "a");
    let refused = check(&text, &sharing);
    assert!(refused.contains("it is not loaded here"), "{refused}");
    assert!(loading.resources().is_empty());
    let loaded = Harness::new(&text, loading.clone());
    assert_eq!(check(&text, &sharing), "");
    drop(loaded);
    assert_ne!(check(&text, &sharing), "");
}

#[test]
fn checking_loads_nothing() {
    let mut sources = SourceMap::new();
    let graph = parse_graph(
        &mut sources,
        "x",
        format!(
            "input_stream: \"in\" output_stream: \"a\" {}",
            define("t", "missing", "a")
        ),
    );
    let graph = graph.into_result().expect("parses").0;
    let (plan, diagnostics) = Plan::compile(&graph, &mut sources, &environment().without_loading());
    assert!(diagnostics.is_empty());
    let refused = Session::new(
        &plan.expect("compiles"),
        RunCx::new("x"),
        SidePackets::new(),
    )
    .err()
    .expect("refused");
    assert_eq!(
        refused.message,
        "the resource `t` was not loaded with the plan"
    );
}

#[test]
fn a_test_can_provide_the_resource() {
    let environment = environment().with_resource("t", Arc::new(Table("mine".to_owned())));
    let mut h = Harness::new(&refer("t", "a"), environment);
    h.push("in", 0, 1_i64).expect("a", [(0, "mine".to_owned())]);
}

#[test]
fn a_provided_resource_can_follow_what_a_node_defines() {
    let provided = environment().with_resource_from("t", |spec: Option<&PathBuf>, _| {
        let spec = spec.ok_or_else(|| Error::not_found("nothing defines it"))?;
        Ok(Arc::new(Table(spec.display().to_string())))
    });
    let mut h = Harness::new(&define("t", "none.txt", "a"), provided.clone());
    h.push("in", 0, 1_i64)
        .expect("a", [(0, "none.txt".to_owned())]);
    let undefined = check(&refer("t", "a"), &provided);
    assert!(
        undefined.contains("cannot load resource `t`: nothing defines it"),
        "{undefined}"
    );
    let other = environment().with_resource("t", Arc::new(Other));
    let refused = check(&define("t", "table.txt", "a"), &other);
    assert!(refused.contains("has type `Other`"), "{refused}");
}

#[test]
fn what_nodes_define_can_be_changed() {
    let environment = environment()
        .with_amended::<Table>(|path| {
            path.set_extension("txt");
        })
        .with_amended::<Other>(|()| unreachable!("no node defines one"));
    let mut h = Harness::new(&define("t", "table.old", "a"), environment);
    h.push("in", 0, 1_i64)
        .expect("a", [(0, "content".to_owned())]);
}

/// A resource of another type.
struct Other;

impl Resource for Other {
    type Spec = ();

    fn load((): &(), _: &dyn FileSource) -> Result<Self> {
        Ok(Self)
    }
}

#[test]
fn mistakes_about_resources_are_found() {
    insta::assert_snapshot!("nobody_defines", check(&refer("t", "a"), &environment()));
    insta::assert_snapshot!(
        "two_define",
        check(
            &(define("t", "table.txt", "a") + &define("t", "other.txt", "b")),
            &environment()
        )
    );
    insta::assert_snapshot!(
        "cannot_load",
        check(&define("t", "missing.txt", "a"), &environment())
    );
}
