//! The server: TLS, token, Host, watches, and its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dralab::embedded::api::resource::CONFIGMAPS;
use dralab::embedded::http::{Certificate, Server, ServerError, kubeconfig};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api_support::Lab;

const TOKEN: &str = "a-token";

struct Running {
    lab: Lab,
    certificate: Certificate,
    address: SocketAddr,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl Running {
    async fn start() -> Self {
        let lab = Lab::new("2026-12-01T02:00:00Z");
        let certificate = Certificate::generate().unwrap();
        let server = Server::bind(&lab.api, &certificate, TOKEN, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.address();
        let stop = CancellationToken::new();
        let server = tokio::spawn(server.run(stop.clone()));
        Running { lab, certificate, address, stop, server }
    }

    async fn client(&self) -> kube::Client {
        let text = kubeconfig("lab", &format!("https://{}", self.address), self.certificate.authority_pem(), TOKEN, "default");
        let parsed = Kubeconfig::from_yaml(&text).unwrap();
        let mut config = kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.unwrap();
        config.proxy_url = None;
        kube::Client::try_from(config).unwrap()
    }

    /// A TLS connection that speaks for itself.
    async fn connect(&self) -> tokio_rustls::client::TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.authority_pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Sends one request of HTTP/1.1 and reads the answer to its end.
    async fn raw(&self, host: &str, authorization: &str) -> String {
        let mut stream = self.connect().await;
        let authorization = if authorization.is_empty() { String::new() } else { format!("Authorization: {authorization}\r\n") };
        let request = format!("GET /version HTTP/1.1\r\nHost: {host}\r\n{authorization}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.server.await.unwrap();
    }
}

#[tokio::test]
async fn only_who_knows_the_token_and_names_loopback_comes_in() {
    let running = Running::start().await;
    let good = format!("Bearer {TOKEN}");
    for (host, authorization, code, word) in [
        ("localhost", good.as_str(), "200", "gitVersion"),
        ("127.0.0.1:1", "bearer a-token", "200", "gitVersion"),
        ("localhost", "", "401", "Unauthorized"),
        ("localhost", "Bearer a-toke", "401", "Unauthorized"),
        ("localhost", "Bearer a-token-", "401", "Unauthorized"),
        ("localhost", "Basic a-token", "401", "Unauthorized"),
        ("evil.example.com", good.as_str(), "403", "not loopback"),
        ("127.0.0.1.evil.example.com", good.as_str(), "403", "not loopback"),
    ] {
        let answer = running.raw(host, authorization).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{host} {authorization}: {answer}");
        assert!(answer.contains(word), "{answer}");
        assert!(answer.contains("Content-Type: application/json"), "{answer}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_client_with_the_kubeconfig_watches() {
    let running = Running::start().await;
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(running.client().await);
    running.lab.create(&CONFIGMAPS, "default", json!({"metadata": {"name": "a"}}));
    let events = watcher(maps, watcher::Config::default().streaming_lists());
    tokio::pin!(events);
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("b") {
        match events.try_next().await.unwrap().unwrap() {
            watcher::Event::Init => seen.push("init".to_owned()),
            watcher::Event::InitDone => {
                seen.push("done".to_owned());
                running.lab.create(&CONFIGMAPS, "default", json!({"metadata": {"name": "b"}}));
            }
            watcher::Event::InitApply(map) | watcher::Event::Apply(map) | watcher::Event::Delete(map) => {
                seen.push(map.metadata.name.unwrap());
            }
        }
    }
    assert_eq!(seen, ["init", "a", "done", "b"]);
    running.stop().await;
}

#[tokio::test]
async fn nobody_holds_up_the_end() {
    let running = Running::start().await;
    // One that never finishes its handshake, one that never finishes its request, one that watches and never reads.
    let mute = TcpStream::connect(running.address).await.unwrap();
    let mut slow = running.connect().await;
    slow.write_all(b"GET /version HTTP/1.1\r\nHost: localh").await.unwrap();
    let mut deaf = running.connect().await;
    let watch = "GET /api/v1/configmaps?watch=true HTTP/1.1";
    deaf.write_all(format!("{watch}\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n").as_bytes()).await.unwrap();
    for n in 0..60 {
        let object = json!({"metadata": {"name": format!("m{n}")}, "data": {"x": "x".repeat(100_000)}});
        running.lab.create(&CONFIGMAPS, "default", object);
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    running.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    drop((mute, slow, deaf));
}

#[tokio::test]
async fn only_loopback_is_served_and_a_taken_port_is_said() {
    let lab = Lab::new("2026-12-01T02:00:00Z");
    let certificate = Certificate::generate().unwrap();
    let bind = async |address: SocketAddr| Server::bind(&lab.api, &certificate, TOKEN, address).await;
    assert!(matches!(bind("0.0.0.0:0".parse().unwrap()).await, Err(ServerError::NotLoopback(_))));
    let first = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    match bind(first.address()).await {
        Err(ServerError::Listen { address, .. }) => assert_eq!(address, first.address()),
        _ => panic!("the port is taken"),
    }
}
