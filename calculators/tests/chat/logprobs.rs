//! Log probabilities in answers: each token's text, bytes, place and alternatives, whole and
//! streamed, on a scripted model whose tokens are bytes.

use super::{Chat, body, contents, events, script};
use serde_json::{Value, json};

const REPLY: &str = "é 🙂 one, two";

fn question(more: &Value) -> Value {
    let mut request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "logprobs": true, "top_logprobs": 2});
    for (name, value) in more.as_object().expect("fields") {
        request[name] = value.clone();
    }
    request
}

/// The bytes of the tokens.
fn bytes(tokens: &Value) -> Vec<u8> {
    let tokens = tokens.as_array().expect("a list of tokens").iter();
    tokens
        .flat_map(|token| token["bytes"].as_array().expect("bytes"))
        .map(|byte| byte.as_u64().expect("a byte") as u8)
        .collect()
}

#[test]
fn every_token_of_a_message_has_its_bytes_and_its_alternatives() {
    let chat = Chat::new(&script(&[("", REPLY)]));
    let answer = body(&chat.ask("/v3/chat/completions", &question(&json!({}))));
    let logprobs = &answer["choices"][0]["logprobs"];
    assert_eq!(logprobs["refusal"], json!(null));
    let tokens = &logprobs["content"];
    assert_eq!(bytes(tokens), REPLY.as_bytes());
    assert_eq!(tokens[0]["token"], "\\xc3", "no whole character");
    assert_eq!(tokens[2]["token"], " ");
    for token in tokens.as_array().expect("tokens") {
        let logprob = token["logprob"].as_f64().expect("a number");
        assert!((-1e-5..=0.0).contains(&logprob), "{token}");
        let top = token["top_logprobs"].as_array().expect("a list");
        assert_eq!(top.len(), 2);
        assert_eq!(
            (&top[0]["logprob"], &top[0]["token"]),
            (&token["logprob"], &token["token"])
        );
        assert!(top[1]["logprob"].as_f64().expect("a number") < -15.0);
    }
    let plain = json!({"logprobs": false, "top_logprobs": null});
    let answer = body(&chat.ask("/v3/chat/completions", &question(&plain)));
    assert_eq!(answer["choices"][0]["logprobs"], json!(null));
}

#[test]
fn a_stream_tells_the_same_beside_the_text() {
    let chat = Chat::new(&script(&[("", REPLY)]));
    for more in [
        json!({}),
        json!({"stop": [", two"]}),
        json!({"stop": ["e, t", "x"], "include_stop_str_in_output": true}),
    ] {
        let mut request = question(&more);
        let whole = body(&chat.ask("/v3/chat/completions", &request));
        request["stream"] = true.into();
        let events = events(&chat.ask("/v3/chat/completions", &request));
        let choice = &whole["choices"][0];
        assert_eq!(contents(&events), choice["message"]["content"]);
        let lists = events
            .iter()
            .map(|event| &event["choices"][0]["logprobs"]["content"]);
        let tokens: Vec<Value> = lists
            .filter_map(Value::as_array)
            .flatten()
            .cloned()
            .collect();
        assert_eq!(Value::from(tokens), choice["logprobs"]["content"], "{more}");
        let text = choice["message"]["content"].as_str().expect("text");
        assert_eq!(
            bytes(&choice["logprobs"]["content"]),
            text.as_bytes(),
            "{more}"
        );
    }
}

#[test]
fn each_choice_has_its_own() {
    let chat = Chat::new(&script(&[("", REPLY)]));
    let answer = body(&chat.ask("/v3/chat/completions", &question(&json!({"n": 3}))));
    for choice in answer["choices"].as_array().expect("choices") {
        assert_eq!(bytes(&choice["logprobs"]["content"]), REPLY.as_bytes());
    }
}

#[test]
fn completions_have_lists_with_the_token_that_ended_the_text() {
    let chat = Chat::new(&script(&[("", "é!")]));
    let prompt = "<|im_start|>assistant\n";
    let tokens: Vec<i32> = std::iter::once(256)
        .chain(prompt.bytes().skip("<|im_start|>".len()).map(i32::from))
        .collect();
    let request = json!({"model": "m", "prompt": tokens, "logprobs": 1});
    let answer = body(&chat.ask("/v3/completions", &request));
    let choice = &answer["choices"][0];
    assert_eq!(choice["text"], "é!");
    let logprobs = &choice["logprobs"];
    assert_eq!(
        logprobs["tokens"],
        json!(["bytes:\\xc3", "bytes:\\xa9", "!", "<|im_end|>"])
    );
    assert_eq!(logprobs["text_offset"], json!([0, 0, 1, 2]));
    let numbers = logprobs["token_logprobs"].as_array().expect("numbers");
    let tops = logprobs["top_logprobs"].as_array().expect("objects");
    assert_eq!((numbers.len(), tops.len()), (4, 4));
    assert_eq!(numbers[2], tops[2]["!"]);
    let mut request = request;
    request["stream"] = true.into();
    let events = events(&chat.ask("/v3/completions", &request));
    let lists = events
        .iter()
        .map(|event| &event["choices"][0]["logprobs"]["tokens"]);
    let tokens: Vec<Value> = lists
        .filter_map(Value::as_array)
        .flatten()
        .cloned()
        .collect();
    assert_eq!(Value::from(tokens), logprobs["tokens"]);
}

/// A completion of these prompts that repeats them.
fn echoed(chat: &Chat, prompt: &Value, more: &Value) -> Value {
    let mut request =
        json!({"model": "m", "prompt": prompt, "echo": true, "max_tokens": 1, "temperature": 0});
    for (name, value) in more.as_object().expect("fields") {
        request[name] = value.clone();
    }
    body(&chat.ask("/v3/completions", &request))
}

#[test]
fn a_repeated_prompt_has_log_probabilities_but_for_its_first_token() {
    // Outside of an assistant's turn the scripted model counts: after "a" comes "b".
    let chat = Chat::new(&json!({}));
    let answer = echoed(
        &chat,
        &json!(["abx", [97, 98, 99, 100]]),
        &json!({"logprobs": 1}),
    );
    let expect = [
        ("abxy", [Some(true), Some(false), Some(true)].as_slice()),
        ("abcde", &[Some(true); 4]),
    ];
    for (choice, (text, likely)) in answer["choices"]
        .as_array()
        .expect("choices")
        .iter()
        .zip(expect)
    {
        assert_eq!(choice["text"], text);
        let logprobs = &choice["logprobs"];
        let letters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(logprobs["tokens"], json!(letters));
        assert_eq!(
            logprobs["text_offset"],
            json!((0..text.len()).collect::<Vec<_>>())
        );
        let numbers = logprobs["token_logprobs"].as_array().expect("numbers");
        let tops = logprobs["top_logprobs"].as_array().expect("objects");
        assert_eq!((numbers.len(), tops.len()), (text.len(), text.len()));
        assert_eq!((&numbers[0], &tops[0]), (&json!(null), &json!(null)));
        let found: Vec<Option<bool>> = numbers
            .iter()
            .map(|number| Some(number.as_f64()? > -1.0))
            .collect();
        assert_eq!(found[1..], *likely, "{logprobs}");
        for (number, top) in numbers[1..].iter().zip(&tops[1..]) {
            let top = top.as_object().expect("an object");
            let greatest = top
                .values()
                .filter_map(Value::as_f64)
                .fold(f64::MIN, f64::max);
            assert!(
                top.values().any(|other| other == number),
                "the same numbers: {logprobs}"
            );
            assert!(greatest > -1.0, "the likeliest is always there: {logprobs}");
        }
    }
}

#[test]
fn a_prompt_can_be_repeated_alone_and_without_its_log_probabilities() {
    let chat = Chat::new(&json!({}));
    let answer = echoed(
        &chat,
        &json!("abc"),
        &json!({"max_tokens": 0, "logprobs": 0}),
    );
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["text"], &choice["finish_reason"]),
        (&json!("abc"), &json!("length"))
    );
    assert_eq!(choice["logprobs"]["tokens"], json!(["a", "b", "c"]));
    assert_eq!(answer["usage"]["completion_tokens"], 0);
    assert_eq!(answer["usage"]["prompt_tokens"], 3);
    let answer = echoed(&chat, &json!("abc"), &json!({"max_tokens": 2, "n": 2}));
    for choice in answer["choices"].as_array().expect("choices") {
        assert_eq!(
            (&choice["text"], &choice["logprobs"]),
            (&json!("abcde"), &json!(null))
        );
    }
    let answer = echoed(&chat, &json!("a"), &json!({"max_tokens": 0, "logprobs": 1}));
    assert_eq!(
        answer["choices"][0]["logprobs"]["token_logprobs"],
        json!([null])
    );
}

/// Asserts that the stream of an answer that repeats its prompts tells what the whole answer tells,
/// which it gives.
fn streamed_as_whole(chat: &Chat, prompts: &Value, more: &Value) -> Value {
    let whole = echoed(chat, prompts, more);
    let mut more = more.clone();
    more["stream"] = true.into();
    let mut request = json!({"model": "m", "prompt": prompts, "echo": true, "temperature": 0});
    for (name, value) in more.as_object().expect("fields") {
        request[name] = value.clone();
    }
    let events = events(&chat.ask("/v3/completions", &request));
    for choice in whole["choices"].as_array().expect("choices") {
        let mine = || {
            let choices = events.iter().map(|event| &event["choices"][0]);
            choices.filter(|streamed| streamed["index"] == choice["index"])
        };
        let texts = mine().filter_map(|streamed| streamed["text"].as_str());
        assert_eq!(choice["text"], texts.collect::<String>());
        for list in ["tokens", "token_logprobs", "text_offset"] {
            let lists = mine().filter_map(|streamed| streamed["logprobs"][list].as_array());
            let joined: Vec<Value> = lists.flatten().cloned().collect();
            assert_eq!(Value::from(joined), choice["logprobs"][list], "{list}");
        }
    }
    whole
}

#[test]
fn a_repeated_prompt_comes_first_in_a_stream_and_is_not_searched_for_stop_strings() {
    let chat = Chat::new(&json!({}));
    let more = json!({"max_tokens": 4, "logprobs": 1, "stop": ["bc", "h"]});
    let whole = streamed_as_whole(&chat, &json!(["abcd", "xy"]), &more);
    assert_eq!(whole["choices"][0]["text"], "abcdefg");
}

#[test]
fn a_stream_keeps_the_log_probability_of_a_first_token_that_is_no_whole_character() {
    let chat = Chat::new(&json!({}));
    // 0xC2 comes next, which begins a character.
    let more = json!({"max_tokens": 3, "logprobs": 1});
    let whole = streamed_as_whole(&chat, &json!([[97, 193]]), &more);
    let tokens = &whole["choices"][0]["logprobs"]["tokens"];
    assert_eq!(tokens[2], "bytes:\\xc2", "{tokens}");
}

#[test]
fn cached_prompts_are_computed_again_where_their_log_probabilities_are_asked_for() {
    let chat = Chat::new(&json!({}));
    let prompt = json!("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
    let fresh = echoed(&chat, &prompt, &json!({"logprobs": 2}));
    let again = echoed(&chat, &prompt, &json!({"logprobs": 2}));
    assert_eq!(fresh["choices"], again["choices"]);
    assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let plain = echoed(&chat, &prompt, &json!({}));
    assert!(
        plain["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() > Some(40),
        "{}",
        plain["usage"]
    );
}
