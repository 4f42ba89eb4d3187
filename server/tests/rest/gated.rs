//! A graph whose model is loaded for as long as the test wants. Files in the graph's folder say how.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use graphmill_calculators::payload::{HttpRequestPayload, HttpResponse};
use graphmill_engine::{
    Calculator, Contract, Cx, Error, FileSource, Flow, In, NoOptions, OpenCx, Out, Res, Resource,
    Result, register,
};

/// A graph of this node.
pub(crate) const GATED: &str = r#"
    input_stream: "HTTP_REQUEST_PAYLOAD:input"
    output_stream: "HTTP_RESPONSE_PAYLOAD:output"
    node {
      calculator: "GatedCalculator"
      input_side_packet: "MODEL:model"
      input_stream: "HTTP_REQUEST_PAYLOAD:input"
      output_stream: "HTTP_RESPONSE_PAYLOAD:output"
    }
"#;

/// Is not loaded as long as the file `gate` is there, fails where `fail` is, and is what `answer`
/// says. A line in `loads` tells of each load that has begun.
struct GatedModel(String);

impl Resource for GatedModel {
    type Spec = PathBuf;

    fn resolve(folder: PathBuf, files: &dyn FileSource) -> Result<PathBuf> {
        Ok(files.resolve(&folder))
    }

    fn check(folder: &PathBuf, files: &dyn FileSource) -> Result<()> {
        // It is the file that the model is as large as.
        files.find(&folder.join("answer")).ok();
        Ok(())
    }

    fn load(folder: &PathBuf, files: &dyn FileSource) -> Result<Self> {
        let mut loads = OpenOptions::new();
        let loads = loads.create(true).append(true).open(folder.join("loads"));
        writeln!(loads.expect("writable"), "load").expect("writable");
        while folder.join("gate").exists() {
            thread::sleep(Duration::from_millis(1));
        }
        if folder.join("fail").exists() {
            return Err(Error::internal("the gated model fails"));
        }
        let answer = folder.join("answer");
        if fs::metadata(&answer).is_ok_and(|it| it.len() > 1 << 20) {
            return Ok(Self("large".to_owned()));
        }
        let answer = files.read(&answer).unwrap_or_default();
        Ok(Self(String::from_utf8_lossy(&answer).into_owned()))
    }
}

/// Makes the model in a folder larger than any memory, on a disk that stores no zeros.
pub(crate) fn make_huge(folder: &Path) {
    let file = fs::File::create(folder.join("answer")).expect("writable");
    file.set_len(1 << 42).expect("a file system with holes");
}

/// How many loads have begun in the folder of a graph.
pub(crate) fn loads(folder: &Path) -> usize {
    let told = fs::read_to_string(folder.join("loads"));
    told.map_or(0, |told| told.lines().count())
}

/// Answers what its model says.
struct Gated(String);

impl Calculator for Gated {
    const NAME: &'static str = "GatedCalculator";
    const DOC: &'static str = "Answers when a model is loaded that takes its time.";
    type Options = NoOptions;
    type Ports = (In<HttpRequestPayload>, Out<HttpResponse>, Res<GatedModel>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        let (request, response) = (
            c.input("HTTP_REQUEST_PAYLOAD"),
            c.output("HTTP_RESPONSE_PAYLOAD"),
        );
        let folder = Some(PathBuf::from("."));
        (request, response, c.resource("MODEL", folder))
    }

    fn open(_: &NoOptions, (.., model): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(cx.resource(model).0.clone()))
    }

    fn process(&mut self, (request, response, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if cx.get(request).is_some() {
            cx.emit(
                response,
                HttpResponse::Body {
                    content_type: "text/plain",
                    bytes: self.0.clone().into(),
                },
            );
        }
        Ok(Flow::Continue)
    }
}

register!(Gated);
