//! Images as streams: the shipped graph that decodes and encodes them in nodes, and nodes of
//! somebody else between these.

use std::sync::{Arc, LazyLock};

use graphmill_calculators::media::{PromptEmbeddings, PromptImages};
use graphmill_calculators::tensor::Tensor;
use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Result, register,
};
use graphmill_llm::Medium;
use graphmill_testkit::projector::{Kind, MODEL_WIDTH, POSITIONS, make};
use serde_json::{Value, json};

use crate::rest::images::{chat, graph, is_same, model, png, said, url};
use crate::rest::support::{Setup, TestServer};

/// The brightness of all pixels behind [`Gray`].
const LEVEL: u8 = 90;

/// Makes each image gray.
struct Gray;

impl Calculator for Gray {
    const NAME: &'static str = "GrayCalculator";
    const DOC: &'static str = "Makes all pixels of images gray.";
    type Options = NoOptions;
    type Ports = (In<PromptImages>, Out<PromptImages>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input("IMAGES"), c.output("IMAGES"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (from, to): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(mut images) = cx.take(from) {
            for image in images.0.iter_mut().flatten() {
                let gray = vec![LEVEL; image.pixels.data().len()];
                let pixels = Tensor::new(image.pixels.datatype(), image.pixels.shape(), gray);
                image.pixels = pixels.expect("as many as before");
            }
            cx.emit(to, images);
        }
        Ok(Flow::Continue)
    }
}

register!(Gray);

/// Twenty positions that no projector has made.
static OWN: LazyLock<Arc<Medium>> = LazyLock::new(|| own(MODEL_WIDTH as usize));

fn own(width: usize) -> Arc<Medium> {
    let numbers = (0..20 * width).map(|number| (number % 7) as f32 / 7.0 - 0.5);
    Arc::new(Medium::from_embeddings(width, numbers.collect::<Vec<_>>()).expect("whole and finite"))
}

/// Has embeddings of its own for images: by the width of an image those of [`OWN`], too narrow ones,
/// or those of one image fewer.
struct OwnEncoder;

impl Calculator for OwnEncoder {
    const NAME: &'static str = "OwnEncoderCalculator";
    const DOC: &'static str = "Has embeddings of its own for images.";
    type Options = NoOptions;
    type Ports = (In<PromptImages>, Out<PromptEmbeddings>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input("IMAGES"), c.output("EMBEDDINGS"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (from, to): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(images) = cx.get(from) {
            let prompts = images.0.iter().map(|images| {
                let encoded = images
                    .iter()
                    .filter_map(|image| match image.pixels.shape()[1] {
                        1 => None,
                        2 => Some(own(5)),
                        _ => Some(Arc::clone(&OWN)),
                    });
                encoded.collect()
            });
            let encoded = PromptEmbeddings(prompts.collect());
            cx.emit(to, encoded);
        }
        Ok(Flow::Continue)
    }
}

register!(OwnEncoder);

/// The shipped graph, with the repository's small model and a projector.
fn apart(options: &str) -> String {
    include_str!("../../../graphs/images/graph.pbtxt")
        .replace(
            "../../demos/tiny_vision/model.gguf",
            &model().to_string_lossy(),
        )
        .replace("max_num_seqs: 16", options)
}

/// The graph with [`OwnEncoder`] in the place of its encoder.
fn with_own_encoder(graph: &str) -> String {
    graph.replace(
        "  calculator: \"ImageEncoderCalculator\"\n  input_side_packet: \"LLM_NODE_RESOURCES:llm\"\n",
        "  calculator: \"OwnEncoderCalculator\"\n",
    )
}

/// A server whose graph `whole` reads images in the tokenizer, and others in nodes: `apart` as it is
/// shipped, `gray` with [`Gray`] behind the decoder, `own` with [`OwnEncoder`].
async fn server() -> TestServer {
    let setup = Setup::new();
    let projector = make(setup.path(), Kind::Square, MODEL_WIDTH, 4.0);
    let options = format!(
        "max_num_seqs: 4 max_context: 512 mmproj: \"{}\"",
        projector.display()
    );
    let apart = apart(&options);
    let between = r#"
        node { calculator: "GrayCalculator" input_stream: "IMAGES:images" output_stream: "IMAGES:gray" }
    "#;
    let gray = apart.replace(
        "input_stream: \"IMAGES:images\"\n  output_stream: \"EMB",
        "input_stream: \"IMAGES:gray\"\n  output_stream: \"EMB",
    ) + between;
    assert_ne!(gray.len(), apart.len() + between.len(), "it is in between");
    let own = with_own_encoder(&apart);
    setup
        .graph("whole", &graph(&options))
        .graph("apart", &apart)
        .graph("gray", &gray)
        .graph("own", &own)
        .start()
        .await
}

async fn answer(server: &TestServer, model: &str, files: &[Vec<u8>]) -> Value {
    let urls: Vec<String> = files.iter().map(|file| url(file)).collect();
    let answer = server.chat(&chat(model, &urls)).await;
    assert_eq!(answer.status, 200, "{model}: {}", answer.text);
    answer.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_in_nodes_are_those_in_the_tokenizer() {
    let server = server().await;
    let (one, other) = (png(20, 30, 1), png(9, 8, 7));
    let cases = [
        vec![],
        vec![one.clone()],
        vec![one.clone(), other.clone()],
        vec![other, one.clone(), one],
    ];
    for files in &cases {
        let whole = answer(&server, "whole", files).await;
        let apart = answer(&server, "apart", files).await;
        assert!(is_same(&whole, &apart), "{whole} {apart}");
        let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].clone();
        assert_eq!(tokens(&whole), tokens(&apart));
    }
    let status = server.status().await;
    let engines = status["engines"].as_array().expect("a list");
    let engine = engines.iter().find(|engine| engine["graph"] == "apart");
    // The graphs share the model. Its tokenizer knows each of the two by its file, and the encoder by
    // its pixels.
    let images = &engine.expect("the engine")["image_cache"];
    assert_eq!(
        (&images["images"], &images["encoded"], &images["hits"]),
        (&json!(4), &json!(4), &json!(8)),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_between_changes_what_the_model_sees() {
    let server = server().await;
    let mut file = std::io::Cursor::new(Vec::new());
    let all_gray = image::GrayImage::from_pixel(20, 30, image::Luma([LEVEL]));
    all_gray
        .write_to(&mut file, image::ImageFormat::Png)
        .expect("written to memory");
    let expected = answer(&server, "whole", &[file.into_inner()]).await;
    let seen = answer(&server, "gray", &[png(20, 30, 7)]).await;
    assert!(is_same(&expected, &seen), "{expected} {seen}");
    let without = answer(&server, "apart", &[png(20, 30, 7)]).await;
    assert!(!is_same(&expected, &without), "{expected} {without}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embeddings_of_another_node_stand_in_prompts() {
    let server = server().await;
    let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().expect("a number");
    let whole = answer(&server, "whole", &[png(8, 8, 1)]).await;
    let own = answer(&server, "own", &[png(8, 8, 1)]).await;
    assert_eq!(
        tokens(&own),
        tokens(&whole) - POSITIONS + 20,
        "{own} {whole}"
    );
    // What is the same for the node is computed once.
    let again = answer(&server, "own", &[png(8, 8, 5)]).await;
    assert_eq!(said(&again), said(&own));
    let cached = &again["usage"]["prompt_tokens_details"]["cached_tokens"];
    assert_eq!(*cached, tokens(&own) - 1, "{again}");

    let wrong = [
        (2, "has embeddings of 5 numbers, and the model's have 192"),
        (1, "has 0 images for a prompt that has 1"),
    ];
    for (width, expected) in wrong {
        let refused = server.chat(&chat("own", &[url(&png(width, 8, 1))])).await;
        let error = &refused.json()["error"];
        assert_eq!(refused.status, 400, "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(expected), "{error}");
    }
    // Others go on.
    let after = answer(&server, "own", &[png(8, 8, 1)]).await;
    assert_eq!(said(&after), said(&own));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encoder_of_the_graph_needs_no_projector() {
    let options = "max_num_seqs: 4 max_context: 512";
    let shipped = apart(options);
    let setup = Setup::new()
        .graph("whole", &graph(options))
        .graph("apart", &shipped)
        .graph("own", &with_own_encoder(&shipped));
    let server = setup.start().await;
    let image = url(&png(8, 8, 1));
    let own = server
        .chat(&chat("own", std::slice::from_ref(&image)))
        .await;
    assert_eq!(own.status, 200, "{}", own.text);
    for model in ["whole", "apart"] {
        let refused = server
            .chat(&chat(model, std::slice::from_ref(&image)))
            .await;
        let error = &refused.json()["error"];
        assert_eq!(
            (refused.status, &error["param"], &error["code"]),
            (
                400,
                &json!("messages[0].content[0]"),
                &json!("unsupported_parameter")
            ),
            "{model}: {error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_that_cannot_be_decoded_are_named() {
    let server = server().await;
    let (good, mut damaged) = (png(8, 8, 1), png(8, 8, 2));
    damaged.truncate(damaged.len() - 20);
    let refused = server
        .chat(&chat("apart", &[url(&good), url(&damaged)]))
        .await;
    let error = &refused.json()["error"];
    assert_eq!(
        (refused.status, &error["param"], &error["code"]),
        (
            400,
            &json!("messages[0].content[1]"),
            &json!("invalid_image")
        ),
        "{error}"
    );
}
