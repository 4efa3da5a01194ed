//! Connecting to an engine: bounded, and with an error for each way in which it is not there.

use std::io::ErrorKind;
use std::time::Duration;

use bollard::models::SystemVersion;
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::net::{TcpStream, UnixStream};

use crate::base::failure::Chain;
use crate::cluster::engine::{Address, BEGIN, CONNECT, Endpoint, Engine, EngineError, Identity};

/// The oldest API that is understood: Docker 19.03's. What is asked of an engine has been there since.
const OLDEST: (u32, u32) = (1, 40);

impl Engine {
    /// Connects, and asks who is there. Takes at most [`CONNECT`].
    ///
    /// bollard's requests name no API version, so that an engine answers each in its own newest one; an older engine than this build
    /// knows (Docker 20.10 serves 1.41) needs no downgrade, and a newer one that has dropped old versions refuses nothing.
    ///
    /// # Errors
    /// When there is no socket, this user may not use it, nothing listens, nothing answers in time, or what answers is no engine.
    pub async fn connect(address: &Address) -> Result<Engine, EngineError> {
        Self::connect_within(address, CONNECT).await
    }

    /// [`Engine::connect`] with another bound.
    pub(crate) async fn connect_within(address: &Address, limit: Duration) -> Result<Engine, EngineError> {
        match tokio::time::timeout(limit, dial(address)).await {
            Ok(engine) => engine,
            Err(_) => Err(EngineError::NotAnswering { address: address.docker_host(), seconds: limit.as_secs() }),
        }
    }
}

async fn dial(address: &Address) -> Result<Engine, EngineError> {
    // bollard tells the ways of not getting through only by text; the system's own error tells them apart.
    let probe = match &address.endpoint {
        Endpoint::Unix(path) => UnixStream::connect(path).await.map(drop),
        Endpoint::Tcp(host) => TcpStream::connect(host).await.map(drop),
    };
    let at = address.docker_host();
    probe.map_err(|error| match error.kind() {
        ErrorKind::NotFound => EngineError::NoSocket { address: at.clone(), origin: address.origin.to_string() },
        ErrorKind::PermissionDenied => EngineError::Permission { address: at.clone() },
        _ => EngineError::Refused { address: at.clone(), reason: error.to_string() },
    })?;
    let docker = match &address.endpoint {
        Endpoint::Unix(path) => Docker::connect_with_unix(&path.to_string_lossy(), BEGIN.as_secs(), API_DEFAULT_VERSION),
        Endpoint::Tcp(host) => Docker::connect_with_http(host, BEGIN.as_secs(), API_DEFAULT_VERSION),
    };
    let not_an_engine = |reason: String| EngineError::NotAnEngine { address: at.clone(), reason };
    let docker = docker.map_err(|error| not_an_engine(Chain(&error).to_string()))?;
    let answer = docker.version().await.map_err(|error| not_an_engine(Chain(&error).to_string()))?;
    let identity = identity(&answer);
    match version(&identity.api) {
        Some(served) if served >= OLDEST => Ok(Engine { docker, address: address.clone(), identity }),
        Some(_) => Err(not_an_engine(format!("it serves API version {}, and {}.{} or newer is needed", identity.api, OLDEST.0, OLDEST.1))),
        None => Err(not_an_engine("it names no API version".to_owned())),
    }
}

/// Who answered. podman's name is that of its first component, and Docker's that of its platform.
fn identity(answer: &SystemVersion) -> Identity {
    let components = answer.components.as_deref().unwrap_or_default();
    let podman = components.iter().any(|component| component.name.starts_with("Podman"));
    let platform = answer.platform.as_ref().map(|platform| platform.name.clone()).filter(|name| !name.is_empty() && !podman);
    let name = platform.unwrap_or_else(|| if podman { "Podman Engine".to_owned() } else { "Docker Engine".to_owned() });
    Identity { name, version: answer.version.clone().unwrap_or_default(), api: answer.api_version.clone().unwrap_or_default(), podman }
}

/// `1.41` as numbers, so that 1.5 comes before 1.41.
pub(super) fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use crate::cluster::engine::fake::{Answer, Fake};
    use crate::cluster::engine::{Address, Endpoint, Engine, EngineError, Origin};

    fn at(endpoint: Endpoint) -> Address {
        Address { endpoint, origin: Origin::DockerHost }
    }

    #[tokio::test]
    async fn the_ways_of_not_being_there_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let none = at(Endpoint::Unix(folder.path().join("none.sock")));
        assert!(matches!(Engine::connect(&none).await, Err(EngineError::NoSocket { origin, .. }) if origin == "DOCKER_HOST"));

        let dead = folder.path().join("dead.sock");
        drop(std::os::unix::net::UnixListener::bind(&dead).expect("bound"));
        assert!(matches!(Engine::connect(&at(Endpoint::Unix(dead))).await, Err(EngineError::Refused { .. })));

        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("its address");
        assert!(matches!(Engine::connect(&at(Endpoint::Tcp(port.to_string()))).await, Err(EngineError::Refused { .. })));

        let mute = folder.path().join("mute.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&mute).expect("bound");
        let begun = Instant::now();
        let error = Engine::connect_within(&at(Endpoint::Unix(mute)), Duration::from_millis(100)).await.expect_err("mute");
        assert!(matches!(error, EngineError::NotAnswering { .. }), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test]
    async fn who_answers_is_told_from_its_version() {
        for (answer, expected) in [
            (
                json!({"Platform": {"Name": "Docker Desktop 4.50.0"}, "Version": "29.1.3", "ApiVersion": "1.52", "MinAPIVersion": "1.44"}),
                Ok(("Docker Desktop 4.50.0", false)),
            ),
            (json!({"Platform": {"Name": ""}, "Version": "20.10.24", "ApiVersion": "1.41"}), Ok(("Docker Engine", false))),
            (
                json!({"Platform": {"Name": "linux/amd64/debian-12"}, "Components": [{"Name": "Podman Engine", "Version": "5.4.2"}],
                       "Version": "5.4.2", "ApiVersion": "1.41"}),
                Ok(("Podman Engine", true)),
            ),
            (json!({"Version": "18.09.1", "ApiVersion": "1.39"}), Err("serves API version 1.39")),
            (json!({"hello": "world"}), Err("names no API version")),
        ] {
            let fake = Fake::start(vec![("GET", "/version", Answer::Json(200, answer.clone()))]).await;
            match (Engine::connect(&fake.address()).await, expected) {
                (Ok(engine), Ok((name, podman))) => {
                    assert_eq!((engine.identity().name.as_str(), engine.is_podman()), (name, podman));
                    assert!(engine.serves(1, 41) && !engine.serves(1, 99));
                }
                (Err(EngineError::NotAnEngine { reason, .. }), Err(part)) => assert!(reason.contains(part), "{reason}"),
                (found, _) => panic!("{answer}: {found:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_web_server_is_not_an_engine() {
        let fake = Fake::start(vec![]).await;
        let error = Engine::connect(&fake.address()).await.expect_err("no engine");
        assert!(matches!(error, EngineError::NotAnEngine { .. }), "{error}");
    }
}
