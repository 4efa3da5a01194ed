//! Images of the engine: looking, pulling, exporting, removing.

use std::collections::HashMap;

use bollard::BollardRequest;
use bollard::errors::Error;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::{CreateImageOptionsBuilder, RemoveImageOptions};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use crate::cluster::engine::reference::Reference;
use crate::cluster::engine::{Engine, EngineError, PullFault, status_of};

/// Told so many bytes of so many (0: unknown).
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// The API version with which an export can be had for one platform (Docker 28).
const EXPORT_PLATFORM: (u32, u32) = (1, 48);

/// An image in the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineImage {
    /// `sha256:...`: the digest of its configuration, or with containerd's store that of its index.
    pub id: String,
    /// As platforms have it: `amd64`, `arm64`.
    pub architecture: String,
    /// `linux`.
    pub os: String,
    /// In bytes.
    pub size: u64,
    /// `name:tag`.
    pub tags: Vec<String>,
    /// `name@sha256:...`: what it was pulled as.
    pub digests: Vec<String>,
}

impl Engine {
    /// The image of this name or id, or `None`.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn image(&self, name: &str) -> Result<Option<EngineImage>, EngineError> {
        let answer = match tokio::time::timeout(super::QUICK, self.docker.inspect_image(name)).await {
            Ok(Err(error)) if status_of(&error) == Some(404) => return Ok(None),
            Ok(answer) => answer.map_err(EngineError::request(format!("look at the image {name}")))?,
            Err(_) => return Err(EngineError::NotAnswering { address: self.address.docker_host(), seconds: super::QUICK.as_secs() }),
        };
        Ok(Some(EngineImage {
            id: answer.id.unwrap_or_default(),
            architecture: answer.architecture.unwrap_or_default(),
            os: answer.os.unwrap_or_default(),
            size: answer.size.and_then(|n| n.try_into().ok()).unwrap_or_default(),
            tags: answer.repo_tags.unwrap_or_default(),
            digests: answer.repo_digests.unwrap_or_default(),
        }))
    }

    /// Pulls an image, for `platform` (`linux/arm64`) or the engine's own. `progress` hears the bytes of all layers together.
    ///
    /// Registries are asked without the user's credentials: an image that needs them must be pulled with `docker pull` beforehand.
    ///
    /// # Errors
    /// What the engine or the registry said, and what kind of failure that is.
    pub async fn pull(&self, image: &str, platform: Option<&str>, progress: Progress<'_>) -> Result<(), EngineError> {
        let failed = |message: String| EngineError::Pull { image: image.to_owned(), fault: fault(&message), message };
        let reference = Reference::parse(image).ok_or_else(|| failed("that is not the name of an image".to_owned()))?;
        let version = reference.digest.or(reference.tag).unwrap_or_default();
        let mut options = CreateImageOptionsBuilder::default().from_image(&reference.repository).tag(&version);
        if let Some(platform) = platform {
            options = options.platform(platform);
        }
        let mut answer = Box::pin(self.docker.create_image(Some(options.build()), None, None));
        let mut layers = Layers::default();
        while let Some(event) = answer.next().await {
            match event {
                Ok(event) => {
                    if layers.hear(&event) {
                        let (done, total) = layers.sum();
                        progress(done, total);
                    }
                }
                Err(Error::DockerResponseServerError { message, .. }) => return Err(failed(message)),
                Err(Error::DockerStreamError { error }) => return Err(failed(error)),
                Err(error) => return Err(EngineError::request(format!("pull the image {image}"))(error)),
            }
        }
        Ok(())
    }

    /// An image as an archive (`docker save`). Where the engine can (Docker 28), for one platform (`linux/arm64`) only.
    #[must_use]
    pub fn export(&self, image: &str, platform: Option<&str>) -> BoxStream<'static, Result<Bytes, EngineError>> {
        let platform = platform.filter(|_| self.serves(EXPORT_PLATFORM.0, EXPORT_PLATFORM.1));
        // bollard has no parameter for it.
        let docker = match platform.and_then(platform_query) {
            Some(query) => self.docker.clone().with_request_modifier(move |request| with_query(request, &query)),
            None => self.docker.clone(),
        };
        let name = image.to_owned();
        let stream = docker.export_image(&name);
        let named = move |error| match status_of(&error) {
            Some(404) => EngineError::NoImage { image: name.clone() },
            _ => EngineError::request(format!("export the image {name}"))(error),
        };
        stream.map(move |chunk| chunk.map_err(&named)).boxed()
    }

    /// Removes a name of an image (and the image when that was its last); says whether it was there.
    ///
    /// # Errors
    /// When the engine refuses, as it does when a container uses the image.
    pub async fn remove_image(&self, name: &str) -> Result<bool, EngineError> {
        match self.docker.remove_image(name, None::<RemoveImageOptions>, None).await {
            Ok(_) => Ok(true),
            Err(error) if status_of(&error) == Some(404) => Ok(false),
            Err(error) => Err(EngineError::request(format!("remove the image {name}"))(error)),
        }
    }
}

/// `platform={"os":"linux","architecture":"arm64"}`, percent-encoded.
fn platform_query(platform: &str) -> Option<String> {
    let (os, architecture) = platform.split_once('/')?;
    let json = serde_json::json!({ "os": os, "architecture": architecture }).to_string();
    let encoded: String =
        json.bytes().map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") }).collect();
    Some(format!("platform={encoded}"))
}

fn with_query(mut request: BollardRequest, query: &str) -> BollardRequest {
    let path = request.uri().path().to_owned();
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = format!("{path}?{query}").parse().ok().or(parts.path_and_query);
    if let Ok(uri) = http::Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

/// The layers of a pull, as the engine tells of them one by one.
#[derive(Debug, Default)]
struct Layers {
    /// Bytes so far and in all, by the layer's id.
    seen: HashMap<String, (u64, u64)>,
}

impl Layers {
    /// Takes in an event; says whether a sum changed.
    fn hear(&mut self, event: &CreateImageInfo) -> bool {
        let (Some(id), Some(status)) = (&event.id, &event.status) else { return false };
        let number = |n: Option<i64>| n.and_then(|n| u64::try_from(n).ok()).unwrap_or_default();
        match status.as_str() {
            "Downloading" => {
                let Some(detail) = &event.progress_detail else { return false };
                let (done, total) = (number(detail.current), number(detail.total));
                self.seen.insert(id.clone(), (done, total.max(done)));
                true
            }
            "Download complete" | "Pull complete" => match self.seen.get_mut(id) {
                Some(layer) if layer.0 != layer.1 => {
                    layer.0 = layer.1;
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn sum(&self) -> (u64, u64) {
        self.seen.values().fold((0, 0), |(done, total), layer| (done + layer.0, total + layer.1))
    }
}

/// What kind of failure the engine's or the registry's words tell of. The words are those of Docker 20.10 to 29, containerd and podman.
pub(super) fn fault(message: &str) -> PullFault {
    const WORDS: &[(&str, PullFault)] = &[
        ("toomanyrequests", PullFault::RateLimited),
        ("too many requests", PullFault::RateLimited),
        ("rate limit", PullFault::RateLimited),
        ("no space left on device", PullFault::NoSpace),
        ("x509:", PullFault::Certificate),
        ("no matching manifest", PullFault::Platform),
        ("no image found in manifest list", PullFault::Platform),
        ("no such host", PullFault::Unreachable),
        ("dial tcp", PullFault::Unreachable),
        ("connection refused", PullFault::Unreachable),
        ("network is unreachable", PullFault::Unreachable),
        ("i/o timeout", PullFault::Unreachable),
        ("timeout exceeded", PullFault::Unreachable),
        ("request canceled", PullFault::Unreachable),
        ("tls handshake timeout", PullFault::Unreachable),
        ("server misbehaving", PullFault::Unreachable),
        ("proxyconnect", PullFault::Unreachable),
        ("manifest unknown", PullFault::NotFound),
        ("pull access denied", PullFault::NotFound),
        ("repository does not exist", PullFault::NotFound),
        ("name unknown", PullFault::NotFound),
        ("not found", PullFault::NotFound),
        ("unauthorized", PullFault::NotFound),
    ];
    let message = message.to_lowercase();
    WORDS.iter().find(|(word, _)| message.contains(word)).map_or(PullFault::Other, |(_, fault)| *fault)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::TryStreamExt as _;
    use serde_json::json;

    use super::{PullFault, fault};
    use crate::cluster::engine::fake::{Answer, Fake};
    use crate::cluster::engine::{Engine, EngineError};

    #[test]
    fn a_failed_pull_is_told_apart_by_its_words() {
        for (message, expected) in [
            (
                "toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating",
                PullFault::RateLimited,
            ),
            ("manifest for ubuntu:99.04 not found: manifest unknown: manifest unknown", PullFault::NotFound),
            (
                "pull access denied for nobody/nothing, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
                PullFault::NotFound,
            ),
            (
                "Get \"https://registry.example/v2/\": dial tcp: lookup registry.example on 10.0.0.2:53: no such host",
                PullFault::Unreachable,
            ),
            (
                "Get \"https://registry.example/v2/\": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)",
                PullFault::Unreachable,
            ),
            (
                "Get \"https://registry.example/v2/\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
                PullFault::Certificate,
            ),
            ("write /var/lib/docker/tmp/GetImageBlob1: no space left on device", PullFault::NoSpace),
            ("no matching manifest for linux/arm64/v8 in the manifest list entries", PullFault::Platform),
            ("something else", PullFault::Other),
        ] {
            assert_eq!(fault(message), expected, "{message}");
        }
    }

    async fn pull(events: &str) -> (Result<(), EngineError>, Vec<(u64, u64)>, Vec<String>) {
        let fake = Fake::start(vec![Fake::version(), ("POST", "/images/create", Answer::Chunks(vec![events.to_owned()]))]).await;
        let engine = Engine::connect(&fake.address()).await.expect("an engine");
        let seen = Mutex::new(Vec::new());
        let end = engine.pull("ubuntu:24.04", Some("linux/amd64"), &|done, total| seen.lock().expect("no panic").push((done, total))).await;
        (end, seen.into_inner().expect("no panic"), fake.requests())
    }

    #[tokio::test]
    async fn the_bytes_of_all_layers_are_summed() {
        let layer = |id: &str, status: &str, current: u64, total: u64| {
            json!({"id": id, "status": status, "progressDetail": {"current": current, "total": total}}).to_string() + "\r\n"
        };
        let events = [
            json!({"status": "Pulling from library/ubuntu", "id": "24.04"}).to_string() + "\r\n",
            layer("a", "Pulling fs layer", 0, 0),
            layer("a", "Downloading", 10, 100),
            layer("b", "Downloading", 5, 50),
            layer("a", "Download complete", 0, 0),
            layer("a", "Extracting", 1, 100),
            layer("b", "Downloading", 50, 50),
            layer("b", "Download complete", 0, 0),
            json!({"status": "Status: Downloaded newer image for ubuntu:24.04"}).to_string() + "\r\n",
        ]
        .concat();
        let (end, seen, requests) = pull(&events).await;
        end.expect("pulled");
        assert_eq!(seen, [(10, 100), (15, 150), (105, 150), (150, 150)]);
        let asked = requests.last().expect("a request");
        assert!(asked.contains("fromImage=docker.io%2Flibrary%2Fubuntu") && asked.contains("tag=24.04"), "{asked}");
        assert!(asked.contains("platform=linux%2Famd64"), "{asked}");
    }

    #[tokio::test]
    async fn an_error_in_the_middle_of_a_pull_is_kept_word_for_word() {
        let said = "toomanyrequests: You have reached your pull rate limit.";
        let events = json!({"errorDetail": {"message": said}, "error": said}).to_string() + "\r\n";
        let (end, _, _) = pull(&events).await;
        match end {
            Err(EngineError::Pull { image, fault: PullFault::RateLimited, message }) => {
                assert_eq!((image.as_str(), message.as_str()), ("ubuntu:24.04", said));
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_export_names_the_platform_to_engines_that_know_it_and_to_no_others() {
        for (api, expected) in [("1.41", None), ("1.52", Some("platform=%7B%22architecture%22%3A%22arm64%22%2C%22os%22%3A%22linux%22%7D"))]
        {
            let version = ("GET", "/version", Answer::Json(200, json!({"Version": "x", "ApiVersion": api})));
            let path = "/images/dralab-test/workload:1/get";
            let fake = Fake::start(vec![version, ("GET", path, Answer::Chunks(vec!["one".to_owned(), "two".to_owned()]))]).await;
            let engine = Engine::connect(&fake.address()).await.expect("an engine");
            let bytes: Vec<bytes::Bytes> =
                engine.export("dralab-test/workload:1", Some("linux/arm64")).try_collect().await.expect("exported");
            assert_eq!(bytes.concat(), b"onetwo");
            let asked = fake.requests().pop().expect("a request");
            assert_eq!(asked.split_once('?').map(|(_, query)| query), expected, "{asked}");
            let none: Result<Vec<bytes::Bytes>, EngineError> = engine.export("none:1", None).try_collect().await;
            assert!(matches!(none, Err(EngineError::NoImage { image }) if image == "none:1"));
            assert_eq!(engine.image("none:1").await.expect("an answer"), None);
        }
    }
}
