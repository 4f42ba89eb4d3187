//! Images that a request names by URLs or paths. They must be fetched before a node reads it.

use graphmill_engine::Result;
use serde_json::{Map, Value};

use crate::payload::JsonBody;

/// An image that is not in the request itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteImage {
    /// Path in the request, for errors: `messages[0].content[1]`.
    pub field: String,
    /// URL with `http`, `https` or `file`, or a path that begins with `/`.
    pub url: String,
    /// Field of the body, and the JSON pointer of the URL within it.
    place: (&'static str, String),
}

/// Fields of bodies that contain conversations, in any dialect.
const CONVERSATIONS: [&str; 2] = ["messages", "input"];

impl RemoteImage {
    /// Finds all remote images of a request of any dialect, in order.
    ///
    /// # Errors
    /// A field is nested too deep or has too many values.
    pub fn all(json: &JsonBody) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for name in CONVERSATIONS {
            if let Some(value) = json.get(name)? {
                find(value, name, "", &mut found);
            }
        }
        Ok(found)
    }

    /// Returns the request with a new URL for each of these images.
    ///
    /// # Errors
    /// Fails as [`all`](Self::all) does.
    pub fn replace(json: &JsonBody, images: &[Self], urls: Vec<String>) -> Result<JsonBody> {
        let mut replaced = json.as_sent();
        let mut urls = images.iter().zip(urls).peekable();
        for name in CONVERSATIONS {
            let Some(value) = json.get(name)?.filter(|_| urls.peek().is_some()) else {
                continue;
            };
            let mut value = value.clone();
            while let Some((image, url)) = urls.next_if(|(image, _)| image.place.0 == name) {
                if let Some(place) = value.pointer_mut(&image.place.1) {
                    *place = url.into();
                }
            }
            replaced.insert(name, value);
        }
        Ok(replaced)
    }
}

/// Searches messages, items and their parts. `pointer` is their place in the field `name`.
fn find(value: &Value, name: &'static str, pointer: &str, found: &mut Vec<RemoteImage>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find(item, name, &format!("{pointer}/{index}"), found);
            }
        }
        Value::Object(part) => {
            if let Some((below, url)) = url_of(part).filter(|(_, url)| is_remote(url)) {
                let path = pointer.split('/').skip(1);
                let path = path.map(|step| match step.parse::<usize>() {
                    Ok(index) => format!("[{index}]"),
                    Err(_) => format!(".{step}"),
                });
                found.push(RemoteImage {
                    field: format!("{name}{}", path.collect::<String>()),
                    url: url.to_owned(),
                    place: (name, format!("{pointer}{below}")),
                });
            }
            for key in ["content", "output"] {
                if let Some(inner) = part.get(key) {
                    find(inner, name, &format!("{pointer}/{key}"), found);
                }
            }
        }
        _ => {}
    }
}

/// Returns the URL of a part that is an image, and its place in the part.
fn url_of(part: &Map<String, Value>) -> Option<(&'static str, &str)> {
    let (below, url) = match part.get("type")?.as_str()? {
        "image_url" => ("/image_url/url", part.get("image_url")?.get("url")?),
        "input_image" => ("/image_url", part.get("image_url")?),
        "image" => ("/source/url", part.get("source")?.get("url")?),
        _ => return None,
    };
    Some((below, url.as_str()?))
}

fn is_remote(url: &str) -> bool {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let schemes = ["http", "https", "file"];
    url.starts_with('/') || schemes.iter().any(|it| scheme.eq_ignore_ascii_case(it))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_are_found_in_every_dialect_and_replaced() {
        let bodies = [
            json!({ "messages": [{ "role": "user", "content": [
                { "type": "text", "text": "https://a" },
                { "type": "image_url", "image_url": { "url": "https://a/1" } },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA" } },
                { "type": "image", "source": { "type": "url", "url": "HTTP://a/2" } },
                { "type": "image_url", "image_url": { "url": "/a/b.png" } },
                { "type": "image_url", "image_url": { "url": "file:///a/c.png" } },
                { "type": "tool_result", "content": [
                    { "type": "image", "source": { "type": "url", "url": "http://a/3" } },
                ]},
            ]}]}),
            json!({ "model": "m", "input": [
                { "role": "user", "content": [{ "type": "input_image", "image_url": "https://a/4" }] },
                { "type": "function_call_output", "output": [
                    { "type": "input_image", "image_url": "https://a/5" },
                ]},
            ]}),
        ];
        let expected: [&[&str]; 2] = [
            &[
                "messages[0].content[1]",
                "messages[0].content[3]",
                "messages[0].content[4]",
                "messages[0].content[5]",
                "messages[0].content[6].content[0]",
            ],
            &["input[0].content[0]", "input[1].output[0]"],
        ];
        for (body, fields) in bodies.iter().zip(expected) {
            let json = JsonBody::from_value(body).expect("an object");
            let images = RemoteImage::all(&json).expect("short");
            let found: Vec<&str> = images.iter().map(|image| &*image.field).collect();
            assert_eq!(found, fields);
            let urls = (0..images.len()).map(|index| format!("data:{index}"));
            let replaced = RemoteImage::replace(&json, &images, urls.collect()).expect("short");
            let left = RemoteImage::all(&replaced).expect("short");
            assert!(left.is_empty(), "{left:?}");
            let mut left = json!({});
            for name in replaced.names() {
                left[name] = replaced.get(name).expect("short").cloned().into();
            }
            let mut text = left.to_string();
            for (index, image) in images.iter().enumerate() {
                text = text.replace(&format!("data:{index}"), &image.url);
            }
            assert_eq!(text, body.to_string());
        }
    }
}
