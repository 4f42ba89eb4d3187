//! A chat, the same as a stream, and vectors, with the client in `../client`. Prints what came.

use graphmill_generated::{
    apis::{configuration::Configuration, generation_api, vectors_api},
    models::{ChatCompletionChunk, PostV3ChatCompletionsRequest, PostV3EmbeddingsRequest},
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, model, question] = &arguments[..] else {
        return Err("usage: ask URL MODEL QUESTION".into());
    };
    let configuration = Configuration {
        base_path: url.clone(),
        ..Configuration::default()
    };
    let question: PostV3ChatCompletionsRequest = serde_json::from_value(json!({
        "model": model, "messages": [{ "role": "user", "content": question }], "temperature": 0, "max_tokens": 100,
    }))?;
    let whole = generation_api::post_v3_chat_completions(&configuration, question.clone()).await?;
    println!(
        "{}",
        whole.choices[0].message.content.clone().unwrap_or_default()
    );

    let asked = PostV3ChatCompletionsRequest {
        stream: Some(Some(true)),
        ..question
    };
    let request = configuration
        .client
        .post(format!("{url}/v3/chat/completions"));
    let events = request.json(&asked).send().await?.text().await?;
    let data = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let mut text = String::new();
    for chunk in data.filter(|data| *data != "[DONE]") {
        let chunk: ChatCompletionChunk = serde_json::from_str(chunk)?;
        text += &chunk.choices[0]
            .delta
            .content
            .clone()
            .flatten()
            .unwrap_or_default();
    }
    println!("{text}");

    let texts: PostV3EmbeddingsRequest = serde_json::from_value(
        json!({ "model": "graphmill/tiny-embed", "input": ["one", "two"] }),
    )?;
    let vectors = vectors_api::post_v3_embeddings(&configuration, texts).await?;
    println!("{}", vectors.data.len());
    Ok(())
}
