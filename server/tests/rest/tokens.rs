//! Tokens (JWT) in the place of keys: which of them count, whose limits they have, and how the
//! issuer's keys are kept up to date.

use std::{
    fs,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use axum::{Router, http::StatusCode, routing::get as route};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use graphmill_server::{JwksSource, JwtOptions, KeySource};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use crate::rest::{
    keys::{chat, code, get, is, metric, post},
    support::{CHAT, Reply, Setup, TestServer, question, read},
};
use crate::serving::{Graphs, Process};

const ISSUER: &str = "https://login.example.com/";
const AUDIENCE: &str = "graphmill";

/// Gives back what it gets, without a model.
const SAME: &str = r#"
    input_stream: "x"
    output_stream: "y"
    node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "y" }
"#;

/// A key of an issuer.
struct Signer {
    id: &'static str,
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let scheme = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(scheme, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(scheme, document.as_ref(), &random);
        Self {
            id,
            pair: pair.expect("a key"),
            random,
        }
    }

    /// Both coordinates.
    fn point(&self) -> &[u8] {
        &self.pair.public_key().as_ref()[1..]
    }

    fn jwk(&self) -> Value {
        let (x, y) = self.point().split_at(32);
        let text = |bytes| URL_SAFE_NO_PAD.encode(bytes);
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id, "x": text(x), "y": text(y) })
    }

    /// A token with this head.
    fn sign_with(&self, head: &Value, claims: &Value) -> String {
        let message = message(head, claims);
        let signed = self.pair.sign(&self.random, message.as_bytes());
        format!(
            "{message}.{}",
            URL_SAFE_NO_PAD.encode(signed.expect("a signature"))
        )
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_with(&json!({ "alg": "ES256", "kid": self.id }), claims)
    }
}

fn message(head: &Value, claims: &Value) -> String {
    let text = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    format!("{}.{}", text(head), text(claims))
}

fn set(signers: &[&Signer]) -> String {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

/// Claims of a good token, with others in their place.
fn claims(others: Value) -> Value {
    let mut claims =
        json!({ "iss": ISSUER, "aud": AUDIENCE, "exp": now() + 600, "sub": "auth0|alice" });
    let fields = claims.as_object_mut().expect("an object");
    let Value::Object(others) = others else {
        panic!("an object")
    };
    for (name, value) in others {
        match value {
            Value::Null => drop(fields.remove(&name)),
            value => drop(fields.insert(name, value)),
        }
    }
    claims
}

fn options(jwks: JwksSource) -> JwtOptions {
    JwtOptions {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        jwks,
        tenant_claim: "sub".to_owned(),
        plan_claim: "scope".to_owned(),
    }
}

fn setup() -> Setup {
    let script = json!({ "name": "m", "step_micros": 1000, "replies": [
        { "when": "endless", "text": "on and on ", "then": "repeat" },
        { "text": "a word" },
    ] });
    Setup::new()
        .graph("chat", CHAT)
        .graph("other", CHAT)
        .script(&script)
}

/// A server that knows these signers from a file, and this key file if there is one.
async fn server(signers: &[&Signer], keys: Option<Value>) -> TestServer {
    let setup = setup();
    let jwks = setup.path().join("jwks.json");
    fs::write(&jwks, set(signers)).expect("writable");
    let file = setup.path().join("keys.json");
    if let Some(keys) = &keys {
        fs::write(&file, keys.to_string()).expect("writable");
    }
    let source = JwksSource::File(jwks);
    let setup = setup.with(move |all| {
        all.jwt = Some(options(source));
        all.keys = keys.map(|_| KeySource::File(file));
    });
    setup.start().await
}

async fn ask(server: &TestServer, token: &str) -> Reply {
    chat(server, token, &question("chat", "go")).await
}

#[tokio::test]
async fn only_a_token_that_the_issuer_has_signed_for_this_server_and_for_now_counts() {
    let (signer, second, stranger) = (Signer::new("one"), Signer::new("two"), Signer::new("one"));
    let server = server(&[&signer, &second], None).await;
    for good in [
        claims(json!({})),
        claims(json!({ "aud": ["others", AUDIENCE] })),
        claims(json!({ "exp": now() - 10, "nbf": now() + 10 })),
        claims(json!({ "exp": (now() + 600) as f64 + 0.5 })),
        claims(json!({ "scope": "openid profile", "more": { "of": ["it"] } })),
    ] {
        let reply = ask(&server, &signer.sign(&good)).await;
        assert_eq!(reply.status, 200, "{good}: {}", reply.text);
    }
    let good = claims(json!({}));
    let head = |more: Value| {
        let mut head = json!({ "alg": "ES256", "kid": "one" });
        let fields = more.as_object().expect("an object").clone();
        head.as_object_mut().expect("an object").extend(fields);
        head
    };
    let mut bad: Vec<(&str, String)> = [
        ("expired", json!({ "exp": now() - 60 })),
        ("not yet", json!({ "nbf": now() + 60 })),
        (
            "other issuer",
            json!({ "iss": "https://login.example.com" }),
        ),
        ("other audience", json!({ "aud": "graphmill2" })),
        ("no audience", json!({ "aud": null })),
        ("a list of issuers", json!({ "iss": [ISSUER] })),
        ("no issuer", json!({ "iss": null })),
        ("no end", json!({ "exp": null })),
        ("an end that is a text", json!({ "exp": "never" })),
        ("a beginning that is a text", json!({ "nbf": "now" })),
        ("no tenant", json!({ "sub": null })),
        ("a tenant without a name", json!({ "sub": "" })),
        ("a tenant that is a number", json!({ "sub": 5 })),
        ("a tenant of two lines", json!({ "sub": "a\nb" })),
        ("a long tenant", json!({ "sub": "x".repeat(257) })),
    ]
    .into_iter()
    .map(|(what, others)| (what, signer.sign(&claims(others))))
    .collect();
    let whole = signer.sign(&good);
    let (text, signature) = whole.rsplit_once('.').expect("three parts");
    let other = message(&head(json!({})), &claims(json!({ "sub": "root" })));
    let secret = |key: &[u8]| {
        let message = message(&head(json!({ "alg": "HS256" })), &good);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))
    };
    let none = message(&head(json!({ "alg": "none" })), &good);
    bad.extend([
        ("signed by a stranger", stranger.sign(&good)),
        (
            "another text behind the signature",
            format!("{other}.{signature}"),
        ),
        ("half a signature", format!("{text}.{}", &signature[..40])),
        ("no signature", format!("{text}.")),
        ("no algorithm", format!("{none}.")),
        ("no algorithm, signed", format!("{none}.{signature}")),
        ("a public key as a secret", secret(signer.point())),
        (
            "a public key in its own form as a secret",
            secret(signer.jwk().to_string().as_bytes()),
        ),
        (
            "an algorithm of other keys",
            signer.sign_with(&head(json!({ "alg": "RS256" })), &good),
        ),
        (
            "an unknown key",
            signer.sign_with(&head(json!({ "kid": "three" })), &good),
        ),
        (
            "no key of two",
            signer.sign_with(&json!({ "alg": "ES256" }), &good),
        ),
        (
            "a key of another name",
            signer.sign_with(&head(json!({ "kid": "two" })), &good),
        ),
        (
            "a key that it brings",
            stranger.sign_with(&head(json!({ "jwk": stranger.jwk() })), &good),
        ),
        (
            "a critical extension",
            signer.sign_with(&head(json!({ "crit": ["b64"], "b64": false })), &good),
        ),
        ("no JSON", "eyJ.eyJ.eyJ".to_owned()),
        ("no head", format!("ey..{signature}")),
    ]);
    for (what, token) in &bad {
        let reply = ask(&server, token).await;
        assert_eq!(
            code(&reply),
            is(401, "invalid_token"),
            "{what}: {}",
            reply.text
        );
        let header = reply.header("www-authenticate").expect("a challenge");
        assert!(
            header.starts_with("Bearer error=\"invalid_token\", error_description=\"the "),
            "{header}"
        );
        assert!(!reply.text.contains("root"), "{}", reply.text);
    }
    for none in ["", "ey", "a.b.c", "wrong"] {
        let reply = ask(&server, none).await;
        assert_eq!(code(&reply), is(401, "invalid_api_key"), "{none}");
    }
    assert_eq!(server.get("/v2/health/live").await.status, 200);
    // The token is not for the graph, nor its claims for the log of somebody else.
    assert_eq!(get(&server, &whole, "/v3/models").await.status, 200);
    assert_eq!(
        code(&get(&server, &whole, "/metrics").await),
        is(403, "permission_denied")
    );
}

#[tokio::test]
async fn a_tenant_has_the_limits_of_its_plan_beside_others_and_beside_keys() {
    let signer = Signer::new("one");
    let keys = json!({
        "keys": [{ "name": "alice", "key": "k", "scopes": ["infer", "metrics"] }],
        "plans": [
            { "name": "default", "models": ["chat"], "requests_per_minute": 2 },
            { "name": "gold" },
            { "name": "operator", "scopes": ["admin"] },
        ],
    });
    let server = server(&[&signer], Some(keys)).await;
    let token =
        |tenant: &str, scope: Value| signer.sign(&claims(json!({ "sub": tenant, "scope": scope })));
    let alice = token("alice", Value::Null);
    for left in ["1", "0"] {
        let reply = ask(&server, &alice).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.header("x-ratelimit-remaining-requests"), Some(left));
    }
    assert_eq!(
        code(&ask(&server, &alice).await),
        is(429, "rate_limit_exceeded")
    );
    // With another token of hers, too; not so others, nor the key that is called as she is.
    let again = token("alice", json!("openid profile"));
    assert_eq!(ask(&server, &again).await.status, 429);
    assert_eq!(ask(&server, &token("bob", Value::Null)).await.status, 200);
    assert_eq!(ask(&server, "k").await.status, 200);
    let other = question("other", "go");
    let reply = chat(&server, &token("carol", Value::Null), &other).await;
    assert_eq!(code(&reply), is(404, "model_not_found"), "{}", reply.text);
    for scope in [json!("openid gold"), json!(["openid", "gold"])] {
        let reply = chat(&server, &token("carol", scope), &other).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    let operator = token("dave", json!("operator"));
    assert_eq!(get(&server, &operator, "/v3/status").await.status, 200);
    assert_eq!(
        code(&ask(&server, &operator).await),
        is(403, "permission_denied")
    );
    // Metrics are by plan, of which there are few.
    let requests = |label: &str| format!("graphmill_key_requests_total{{key=\"{label}\"}}");
    assert_eq!(
        metric(&server, "k", &requests("plan:gold")).await,
        Some(2.0)
    );
    assert_eq!(
        metric(&server, "k", &requests("plan:default")).await,
        Some(6.0)
    );
    assert_eq!(metric(&server, "k", &requests("jwt:alice")).await, None);
    // Nobody cancels requests of a key by having its name, or shares what was computed for it.
    let mut endless = question("chat", "endless");
    endless["stream"] = true.into();
    let request = server.post("/v3/chat/completions", endless.to_string());
    let answer = request.header("x-api-key", "k").send().await;
    let answer = answer.expect("an answer");
    let id = answer.headers()["x-request-id"].to_str().expect("text");
    let url = format!("{}/v3/requests/{id}", server.url);
    let gold = token("alice", json!("gold"));
    let cancel = server.client.delete(url).header("x-api-key", gold.as_str());
    assert_eq!(cancel.send().await.expect("an answer").status(), 404);
    let mut explained = question("chat", &"many words ".repeat(40));
    let path = "/v3/chat/completions?explain=1";
    assert_eq!(chat(&server, "k", &explained).await.status, 200);
    explained["model"] = "chat".into();
    let cached = |reply: &Reply| reply.json()["prompts"][0]["cached_tokens"].as_u64();
    assert!(cached(&post(&server, "k", path, &explained).await) > Some(0));
    assert_eq!(
        cached(&post(&server, &gold, path, &explained).await),
        Some(0)
    );
}

#[tokio::test]
async fn a_token_without_a_plan_is_refused_where_none_is_the_default() {
    let signer = Signer::new("one");
    let keys = json!({ "plans": [{ "name": "gold" }] });
    let server = server(&[&signer], Some(keys)).await;
    let reply = ask(&server, &signer.sign(&claims(json!({ "scope": "silver" })))).await;
    assert_eq!(code(&reply), is(403, "permission_denied"), "{}", reply.text);
    let gold = signer.sign(&claims(json!({ "scope": "gold" })));
    assert_eq!(ask(&server, &gold).await.status, 200);
}

/// Asks until the status is as wanted.
async fn until(server: &TestServer, token: &str, status: u16) -> Reply {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let reply = ask(server, token).await;
        if reply.status == status {
            return reply;
        }
        assert!(
            Instant::now() < deadline,
            "{}: {}",
            reply.status,
            reply.text
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_file_of_keys_is_read_again_and_a_damaged_one_changes_nothing() {
    let [old, other, new] = ["old", "other", "new"].map(Signer::new);
    let mut graphs = Graphs::new();
    graphs.add("same", SAME);
    let file = graphs.path().join("jwks.json");
    let write = |text: &str| {
        let new = file.with_extension("new");
        fs::write(&new, text).expect("writable");
        fs::rename(&new, &file).expect("writable");
    };
    write(&set(&[&old, &other]));
    let issuer = ["--jwt_issuer", ISSUER, "--jwt_audience", AUDIENCE];
    let flags = [&issuer[..], &["--jwt_jwks", file.to_str().expect("text")]].concat();
    let mut server = Process::start(&graphs.config(), &flags);
    server.says("ready after");
    let url = format!("http://127.0.0.1:{}/v3/models", server.port());
    let client = crate::http::client();
    let status = async |signer: &Signer| {
        let token = signer.sign(&claims(json!({})));
        read(client.get(&url).bearer_auth(token)).await.status
    };
    assert_eq!((status(&old).await, status(&new).await), (200, 401));
    write(&set(&[&new]));
    server.says("the issuer of tokens has 1 keys");
    assert_eq!((status(&old).await, status(&new).await), (401, 200));
    for damaged in [
        "",
        "{\"keys\": []}",
        "{\"keys\": [{\"kty\": \"oct\", \"k\": \"c2VjcmV0\"}]}",
    ] {
        write(damaged);
        server.says("the issuer's keys were not updated");
        assert_eq!(status(&new).await, 200, "{damaged}");
    }
}

#[tokio::test]
async fn an_address_of_keys_is_asked_again_and_its_failures_change_nothing() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let now = Arc::new(Mutex::new((
        StatusCode::INTERNAL_SERVER_ERROR,
        String::new(),
    )));
    let answers = Arc::clone(&now);
    let routes = Router::new().route(
        "/keys",
        route(move || {
            let answer = answers.lock().expect("no panic").clone();
            async move { answer }
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let url = format!("http://{address}/keys")
        .parse()
        .expect("an address");
    let setup = setup().with(move |all| all.jwt = Some(options(JwksSource::Url(url))));
    let server = setup.start().await;
    let (with_old, with_new) = (old.sign(&claims(json!({}))), new.sign(&claims(json!({}))));
    let reply = ask(&server, &with_old).await;
    assert_eq!(
        code(&reply),
        is(503, "issuer_unavailable"),
        "{}",
        reply.text
    );
    assert!(reply.header("retry-after").is_some());
    let say = |status: StatusCode, text: String| *now.lock().expect("no panic") = (status, text);
    say(StatusCode::OK, set(&[&old]));
    until(&server, &with_old, 200).await;
    say(StatusCode::OK, "<html>maintenance</html>".to_owned());
    assert_eq!(ask(&server, &with_new).await.status, 401);
    assert_eq!(ask(&server, &with_old).await.status, 200);
    // A token with a key that is not known has the address asked.
    say(StatusCode::OK, set(&[&old, &new]));
    until(&server, &with_new, 200).await;
    say(StatusCode::NOT_FOUND, String::new());
    assert_eq!(ask(&server, &with_old).await.status, 200);
}

#[test]
fn a_command_line_that_says_half_of_it_is_refused() {
    let graphs = Graphs::new();
    let all = ["--jwt_issuer", "i", "--jwt_audience", "a", "--jwt_jwks"];
    for (flags, words) in [
        (vec!["--jwt_issuer", "i"], "--jwt_audience"),
        (
            [&all[..], &["ftp://keys"]].concat(),
            "--jwt_jwks: expected a file or an http or https URL",
        ),
        (
            [&all[..], &["missing.json"]].concat(),
            "`missing.json` (--jwt_jwks)",
        ),
    ] {
        let flags = [&["--wait_for_models"], &flags[..]].concat();
        let mut server = Process::start(&graphs.config(), &flags);
        server.says(words);
        assert!(!server.child.wait().expect("it ends").success());
    }
}
