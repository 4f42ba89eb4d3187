//! TLS: certificates of the server and of its clients.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use graphmill_server::{
    KeySource, TlsFiles,
    inference::{ModelInferRequest, ModelInferResponse, model_infer_request::InferInputTensor},
};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{
    Code, Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::rest::support::{ACTOR, Setup, TestServer};
use crate::serving::{Graphs, Process};

/// Signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    /// Writes a certificate for this machine, and its key.
    fn sign(&self, folder: &Path, name: &str) -> TlsFiles {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let write = |end: &str, text: String| {
            let path = folder.join(format!("{name}.{end}"));
            fs::write(&path, text).expect("writable");
            path
        };
        TlsFiles {
            certificate: write("crt", certificate.pem()),
            key: write("key", key.serialize_pem()),
            client_ca: None,
        }
    }
}

/// A connection of a client that knows the authority, and shows a certificate if it has one.
async fn connect(
    address: SocketAddr,
    authority: &Authority,
    own: Option<&TlsFiles>,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).expect("PEM");
    roots.add(root).expect("a certificate");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_file(&own.certificate).expect("PEM")];
            let key = PrivateKeyDer::from_pem_file(&own.key).expect("PEM");
            builder.with_client_auth_cert(chain, key).expect("a pair")
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// Sends a chat and reads the answer to its end.
async fn ask(mut stream: TlsStream<TcpStream>) -> std::io::Result<String> {
    let body = json!({ "model": "actor", "actions": [{ "body": "done" }] }).to_string();
    let head = format!(
        "POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// A channel of gRPC over TLS.
async fn channel(address: SocketAddr, authority: Arc<Authority>) -> Channel {
    let endpoint = Endpoint::from_static("http://localhost");
    let connector = tower::service_fn(move |_| {
        let authority = Arc::clone(&authority);
        async move {
            let stream = connect(address, &authority, None, "h2").await?;
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    let connected = endpoint.connect_with_connector(connector).await;
    connected.expect("TLS")
}

#[tokio::test]
async fn grpc_has_tls_and_keys_as_rest_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Arc::new(Authority::new());
    let files = authority.sign(folder.path(), "server");
    let keys = json!({ "keys": [{ "name": "user", "key": "user-key" }] });
    let file = folder.path().join("keys.json");
    fs::write(&file, keys.to_string()).expect("writable");
    let mirror = r#"
        input_stream: "x"
        output_stream: "same"
        node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "same" }
    "#;
    let setup = Setup::new().graph("mirror", mirror).with(move |options| {
        options.tls = Some(files);
        options.keys = Some(KeySource::File(file));
        options.grpc = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    });
    let server = setup.start().await;
    let address = server.server.grpc_addresses()[0];
    let infer = async |key: Option<&str>| {
        let mut message = ModelInferRequest {
            model_name: "mirror".to_owned(),
            raw_input_contents: vec![vec![5].into()],
            ..ModelInferRequest::default()
        };
        message.inputs.push(InferInputTensor {
            name: "x".to_owned(),
            datatype: "UINT8".to_owned(),
            shape: vec![1],
            ..InferInputTensor::default()
        });
        let mut request = Request::new(message);
        if let Some(key) = key {
            let value = format!("Bearer {key}").parse().expect("ASCII");
            request.metadata_mut().insert("authorization", value);
        }
        let mut grpc = Grpc::new(channel(address, Arc::clone(&authority)).await);
        grpc.ready().await.expect("a connection");
        let path = PathAndQuery::from_static("/inference.GRPCInferenceService/ModelInfer");
        let codec = ProstCodec::<ModelInferRequest, ModelInferResponse>::default();
        grpc.unary(request, path, codec).await
    };
    let answer = infer(Some("user-key"))
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(answer.raw_output_contents[0][..], [5]);
    for key in [None, Some("other-key")] {
        let refused = infer(key).await.expect_err("no key");
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
}

async fn server(files: TlsFiles) -> TestServer {
    let setup = Setup::new().graph("actor", ACTOR);
    setup
        .with(move |options| options.tls = Some(files))
        .start()
        .await
}

#[tokio::test]
async fn a_client_is_answered_over_tls_and_not_without() {
    let (folder, authority) = (tempfile::tempdir().expect("a folder"), Authority::new());
    let server = server(authority.sign(folder.path(), "server")).await;
    let address = server.server.addresses()[0];
    for _ in 0..2 {
        let stream = connect(address, &authority, None, "http/1.1")
            .await
            .expect("TLS");
        let answer = ask(stream).await.expect("an answer");
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"),
            "{answer}"
        );
        // One that speaks no TLS hears nothing that it understands, and hurts nobody.
        let mut plain = TcpStream::connect(address).await.expect("a connection");
        plain
            .write_all(b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .expect("sent");
        let mut heard = Vec::new();
        // It is cut off, however.
        plain.read_to_end(&mut heard).await.ok();
        assert!(!heard.starts_with(b"HTTP"));
    }
    // Somebody else's certificate is refused by the client.
    assert!(
        connect(address, &Authority::new(), None, "http/1.1")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn http2_is_offered() {
    let (folder, authority) = (tempfile::tempdir().expect("a folder"), Authority::new());
    let server = server(authority.sign(folder.path(), "server")).await;
    let stream = connect(server.server.addresses()[0], &authority, None, "h2").await;
    let mut stream = stream.expect("TLS");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    // The client's preface and an empty frame of settings; the server's settings come back.
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .expect("sent");
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.expect("a frame");
    assert_eq!(frame[3], 4, "{frame:?}");
}

#[tokio::test]
async fn clients_without_a_certificate_of_theirs_are_refused() {
    let (folder, authority) = (tempfile::tempdir().expect("a folder"), Authority::new());
    let (clients, strangers) = (Authority::new(), Authority::new());
    let ca = folder.path().join("clients.pem");
    fs::write(&ca, &clients.certificate).expect("writable");
    let files = TlsFiles {
        client_ca: Some(ca),
        ..authority.sign(folder.path(), "server")
    };
    let server = server(files).await;
    let address = server.server.addresses()[0];
    let one = clients.sign(folder.path(), "one");
    let other = strangers.sign(folder.path(), "other");
    for (own, is_let_in) in [(None, false), (Some(&other), false), (Some(&one), true)] {
        // With TLS 1.3 a client hears of a refusal when it reads.
        let answer = match connect(address, &authority, own, "http/1.1").await {
            Ok(stream) => ask(stream).await,
            Err(error) => Err(error),
        };
        assert_eq!(
            answer.is_ok_and(|answer| answer.ends_with("done")),
            is_let_in
        );
    }
}

#[tokio::test]
async fn a_new_certificate_is_used_and_a_bad_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let (before, after) = (Authority::new(), Authority::new());
    let files = before.sign(folder.path(), "server");
    let graphs = Graphs::new();
    let flags = [
        "--wait_for_models",
        "--tls_cert_file",
        files.certificate.to_str().expect("text"),
        "--tls_key_file",
        files.key.to_str().expect("text"),
    ];
    let mut server = Process::start(&graphs.config(), &flags);
    server.says("listening on https://");
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let is_known =
        async |authority: &Authority| connect(address, authority, None, "http/1.1").await.is_ok();
    assert!(is_known(&before).await);
    fs::write(&files.certificate, "nothing").expect("writable");
    let said = server.says("the certificate was not reloaded");
    assert!(said.contains("--tls_cert_file"), "{said}");
    assert!(is_known(&before).await);
    after.sign(folder.path(), "server");
    server.says("reloaded the certificate");
    assert!(is_known(&after).await && !is_known(&before).await);
}

#[test]
fn files_that_are_no_pair_are_named() {
    let (folder, authority) = (tempfile::tempdir().expect("a folder"), Authority::new());
    let one = authority.sign(folder.path(), "one");
    let other = authority.sign(folder.path(), "other");
    let graphs = Graphs::new();
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    for (certificate, key, words) in [
        (
            text(&one.certificate),
            text(&other.key),
            "--tls_cert_file): with the key",
        ),
        (
            text(&one.key),
            text(&one.key),
            "--tls_cert_file): it contains no PEM certificate",
        ),
        (
            text(&one.certificate),
            text(&one.certificate),
            "--tls_key_file): it contains none in PEM",
        ),
        (
            "missing".to_owned(),
            text(&one.key),
            "`missing` (--tls_cert_file)",
        ),
    ] {
        let flags = [
            "--wait_for_models",
            "--tls_cert_file",
            &certificate,
            "--tls_key_file",
            &key,
        ];
        let mut server = Process::start(&graphs.config(), &flags);
        server.says(words);
        assert_eq!(server.child.wait().expect("it ends").code(), Some(1));
    }
}
