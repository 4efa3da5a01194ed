//! Which container engine: the choice that `docker` itself makes, then podman's sockets.
//!
//! In order: `DOCKER_HOST`; the Docker context named by `DOCKER_CONTEXT`, else by `currentContext` in Docker's `config.json`; the
//! sockets that Docker and its desktop variants listen on; podman's. With `KIND_EXPERIMENTAL_PROVIDER=podman` podman's sockets come
//! before Docker's, because kind will use podman then.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cluster::engine::EngineError;

/// What of the environment the choice depends on. Nothing here reads the process's environment itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineEnvironment {
    /// `DOCKER_HOST`.
    pub docker_host: Option<String>,
    /// `DOCKER_CONTEXT`.
    pub docker_context: Option<String>,
    /// `DOCKER_CONFIG`: the folder of `config.json` and of the contexts.
    pub docker_config: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `KIND_EXPERIMENTAL_PROVIDER`.
    pub kind_provider: Option<String>,
    /// Where absolute socket paths begin; `/` for everybody but tests.
    pub root: Option<PathBuf>,
}

/// How the engine is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// Plain HTTP: `host:port`.
    Tcp(String),
}

/// What said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `DOCKER_HOST`.
    DockerHost,
    /// A Docker context.
    Context {
        /// Its name.
        name: String,
        /// `DOCKER_CONTEXT`, or the `config.json` that names it.
        said_by: String,
    },
    /// A socket that Docker or one of its variants listens on was there.
    DockerSocket,
    /// One of podman's sockets was there.
    PodmanSocket,
}

/// Where an engine is, and what said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// How it is reached.
    pub endpoint: Endpoint,
    /// What said so.
    pub origin: Origin,
}

impl Address {
    /// As `DOCKER_HOST` has it: what the child processes (kind, docker) get, so that they use the same engine.
    #[must_use]
    pub fn docker_host(&self) -> String {
        match &self.endpoint {
            Endpoint::Unix(path) => format!("unix://{}", path.display()),
            Endpoint::Tcp(host) => format!("tcp://{host}"),
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::DockerHost => f.write_str("DOCKER_HOST"),
            Origin::Context { name, said_by } => write!(f, "Docker context \"{name}\" ({said_by})"),
            Origin::DockerSocket => f.write_str("the usual sockets of Docker"),
            Origin::PodmanSocket => f.write_str("the usual sockets of podman"),
        }
    }
}

/// Chooses the engine. Looks at files, and connects to nothing.
///
/// # Errors
/// When nothing is there, when the address is of a kind that is not supported (SSH, TLS), or when the named context cannot be read.
pub fn choose(environment: &EngineEnvironment) -> Result<Address, EngineError> {
    if let Some(host) = set(environment.docker_host.as_deref()) {
        return Ok(Address { endpoint: endpoint(host, "DOCKER_HOST")?, origin: Origin::DockerHost });
    }
    if let Some(provider) = set(environment.kind_provider.as_deref())
        && !matches!(provider, "docker" | "podman")
    {
        return Err(EngineError::Unsupported {
            address: provider.to_owned(),
            said_by: "KIND_EXPERIMENTAL_PROVIDER".to_owned(),
            why: "dralab speaks to Docker and to podman only",
        });
    }
    let podman_first = environment.kind_provider.as_deref() == Some("podman");
    if !podman_first && let Some(address) = context(environment)? {
        return Ok(address);
    }
    let docker = docker_sockets(environment).into_iter().map(|path| (path, Origin::DockerSocket));
    let podman = podman_sockets(environment).into_iter().map(|path| (path, Origin::PodmanSocket));
    let candidates: Vec<(PathBuf, Origin)> = if podman_first { podman.chain(docker).collect() } else { docker.chain(podman).collect() };
    // A link whose target is gone counts as there: that it leads nowhere is what must be told.
    match candidates.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        Some((path, origin)) => Ok(Address { endpoint: Endpoint::Unix(path.clone()), origin: origin.clone() }),
        None => Err(EngineError::NoEngine { looked: candidates.into_iter().map(|(path, _)| path).collect() }),
    }
}

/// An empty variable is an unset one.
fn set(value: Option<&str>) -> Option<&str> {
    value.filter(|v| !v.is_empty())
}

/// Reads an address as `DOCKER_HOST` and contexts have it.
fn endpoint(address: &str, said_by: &str) -> Result<Endpoint, EngineError> {
    let refused = |why| EngineError::Unsupported { address: address.to_owned(), said_by: said_by.to_owned(), why };
    match address.split_once("://") {
        Some(("unix", path)) if path.starts_with('/') => Ok(Endpoint::Unix(PathBuf::from(path))),
        Some(("unix", _)) => Err(refused("the path of its socket is not absolute")),
        Some(("tcp" | "http", rest)) => {
            let host = rest.trim_end_matches('/');
            if host.is_empty() || host.contains('/') {
                return Err(refused("it names no host"));
            }
            Ok(Endpoint::Tcp(if has_port(host) { host.to_owned() } else { format!("{host}:2375") }))
        }
        Some(("ssh", _)) => Err(refused("an engine over SSH is not reached directly")),
        Some(("https", _)) => Err(refused("an engine over TLS is not reached directly")),
        Some(("npipe", _)) => Err(refused("named pipes are for Windows; run dralab inside WSL")),
        // `docker` takes a bare host:port for tcp, and so is it here; anything else is a mistake.
        None if has_port(address) && !address.contains('/') => Ok(Endpoint::Tcp(address.to_owned())),
        _ => Err(refused("it is neither unix:///path nor tcp://host:port")),
    }
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(before, port)| !before.is_empty() && port.parse::<u16>().is_ok())
}

/// The engine that a Docker context names; `None` when none, or the one called `default`, is chosen.
fn context(environment: &EngineEnvironment) -> Result<Option<Address>, EngineError> {
    let Some(folder) = environment.docker_config.clone().or_else(|| environment.home.as_ref().map(|home| home.join(".docker"))) else {
        return Ok(None);
    };
    let (name, said_by) = match set(environment.docker_context.as_deref()) {
        Some(name) => (name.to_owned(), "DOCKER_CONTEXT".to_owned()),
        None => {
            let path = folder.join("config.json");
            let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
            // `docker` warns of a broken file and goes on without it; so it is here.
            let config: Value = serde_json::from_str(&text).unwrap_or_default();
            match config["currentContext"].as_str().and_then(|name| set(Some(name))) {
                Some(name) => (name.to_owned(), path.display().to_string()),
                None => return Ok(None),
            }
        }
    };
    if name == "default" {
        return Ok(None);
    }
    let path = folder.join("contexts").join("meta").join(folder_of(&name)).join("meta.json");
    let broken = |reason: String| EngineError::Context { name: name.clone(), said_by: said_by.clone(), path: path.clone(), reason };
    let text = std::fs::read_to_string(&path).map_err(|error| broken(error.to_string()))?;
    let meta: Value = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    let docker = &meta["Endpoints"]["docker"];
    let host = docker["Host"].as_str().and_then(|host| set(Some(host))).ok_or_else(|| broken("it has no docker endpoint".to_owned()))?;
    let said = format!("context \"{name}\"");
    let endpoint = endpoint(host, &said)?;
    let tls = folder.join("contexts").join("tls").join(folder_of(&name)).join("docker");
    if matches!(endpoint, Endpoint::Tcp(_)) && tls.is_dir() {
        return Err(EngineError::Unsupported {
            address: host.to_owned(),
            said_by: said,
            why: "the context has TLS material, and an engine over TLS is not reached directly",
        });
    }
    Ok(Some(Address { endpoint, origin: Origin::Context { name, said_by } }))
}

/// The name of a context's folder: the SHA-256 of its name in hex.
#[must_use]
pub fn folder_of(context: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, context.as_bytes());
    digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Docker Engine; Docker Desktop; colima; OrbStack; Rancher Desktop; rootless Docker.
fn docker_sockets(environment: &EngineEnvironment) -> Vec<PathBuf> {
    let mut paths = vec![rooted(environment, "var/run/docker.sock")];
    if let Some(runtime) = &environment.runtime_dir {
        paths.push(runtime.join("docker.sock"));
    }
    if let Some(home) = &environment.home {
        let below = [".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock", ".orbstack/run/docker.sock"];
        paths.extend(below.iter().map(|path| home.join(path)));
        paths.push(home.join(".rd/docker.sock"));
    }
    paths
}

fn podman_sockets(environment: &EngineEnvironment) -> Vec<PathBuf> {
    let rootless = environment.runtime_dir.iter().map(|runtime| runtime.join("podman/podman.sock"));
    rootless.chain([rooted(environment, "run/podman/podman.sock")]).collect()
}

fn rooted(environment: &EngineEnvironment, path: &str) -> PathBuf {
    environment.root.as_deref().unwrap_or(Path::new("/")).join(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{Address, Endpoint, EngineEnvironment, Origin, choose, folder_of};
    use crate::cluster::engine::EngineError;

    /// A machine on which these files are: a path ending in `.sock` is an empty file, another has the text.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, EngineEnvironment) {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            fs::write(path, text).expect("written");
        }
        let environment = EngineEnvironment {
            home: Some(root.path().join("home")),
            runtime_dir: Some(root.path().join("run/user/1")),
            root: Some(root.path().to_path_buf()),
            ..EngineEnvironment::default()
        };
        (root, environment)
    }

    fn meta(name: &str) -> String {
        format!("home/.docker/contexts/meta/{}/meta.json", folder_of(name))
    }

    fn unix(root: &Path, path: &str, origin: Origin) -> Address {
        Address { endpoint: Endpoint::Unix(root.join(path)), origin }
    }

    #[test]
    fn a_contexts_folder_is_the_sha_256_of_its_name() {
        // What `docker context create desktop-linux` makes; the value is `printf desktop-linux | sha256sum`.
        assert_eq!(folder_of("desktop-linux"), "fe9c6bd7a66301f49ca9b6a70b217107cd1284598bfc254700c989b916da791e");
    }

    #[test]
    fn docker_host_wins_and_is_read_as_docker_reads_it() {
        let (_root, machine) = machine(&[("var/run/docker.sock", "")]);
        for (host, expected) in [
            ("unix:///a/b.sock", Some(Endpoint::Unix("/a/b.sock".into()))),
            ("tcp://127.0.0.1:2375", Some(Endpoint::Tcp("127.0.0.1:2375".to_owned()))),
            ("tcp://build.example", Some(Endpoint::Tcp("build.example:2375".to_owned()))),
            ("127.0.0.1:2375", Some(Endpoint::Tcp("127.0.0.1:2375".to_owned()))),
            ("unix://relative.sock", None),
            ("ssh://me@host", None),
            ("https://host:2376", None),
            ("npipe:////./pipe/docker_engine", None),
            ("nonsense", None),
            ("tcp://", None),
        ] {
            let environment =
                EngineEnvironment { docker_host: Some(host.to_owned()), docker_context: Some("other".to_owned()), ..machine.clone() };
            match (choose(&environment), expected) {
                (Ok(found), Some(endpoint)) => assert_eq!(found, Address { endpoint, origin: Origin::DockerHost }, "{host}"),
                (Err(EngineError::Unsupported { address, said_by, .. }), None) => {
                    assert_eq!((address.as_str(), said_by.as_str()), (host, "DOCKER_HOST"));
                }
                (found, expected) => panic!("{host}: {found:?} and not {expected:?}"),
            }
        }
    }

    #[test]
    fn the_context_comes_next_then_the_sockets() {
        let host = |host: &str| format!(r#"{{"Name":"x","Endpoints":{{"docker":{{"Host":"{host}"}}}}}}"#);
        let named = |name: &str, said_by: &str| Origin::Context { name: name.to_owned(), said_by: said_by.to_owned() };
        let config = r#"{"currentContext":"colima"}"#;
        let (colima, other) = (meta("colima"), meta("other"));
        let (one, two) = (host("unix:///colima.sock"), host("unix:///other.sock"));
        let (root, environment) = machine(&[
            ("home/.docker/config.json", config),
            (&colima, &one),
            (&other, &two),
            ("var/run/docker.sock", ""),
            ("run/podman/podman.sock", ""),
        ]);
        let path = root.path().join("home/.docker/config.json").display().to_string();
        let found = choose(&environment).expect("found");
        assert_eq!(found, Address { endpoint: Endpoint::Unix("/colima.sock".into()), origin: named("colima", &path) });
        assert_eq!(found.docker_host(), "unix:///colima.sock");
        let with = |name: &str| EngineEnvironment { docker_context: Some(name.to_owned()), ..environment.clone() };
        let found = choose(&with("other")).expect("found");
        assert_eq!(found, Address { endpoint: Endpoint::Unix("/other.sock".into()), origin: named("other", "DOCKER_CONTEXT") });
        assert_eq!(choose(&with("default")).expect("found"), unix(root.path(), "var/run/docker.sock", Origin::DockerSocket));
        assert!(matches!(choose(&with("gone")), Err(EngineError::Context { name, .. }) if name == "gone"));
        let podman = EngineEnvironment { kind_provider: Some("podman".to_owned()), ..environment.clone() };
        assert_eq!(choose(&podman).expect("found"), unix(root.path(), "run/podman/podman.sock", Origin::PodmanSocket));
        let nerdctl = EngineEnvironment { kind_provider: Some("nerdctl".to_owned()), ..environment };
        assert!(matches!(choose(&nerdctl), Err(EngineError::Unsupported { .. })));
    }

    #[test]
    fn a_context_over_ssh_or_tls_is_refused_and_a_broken_config_is_as_none() {
        let ssh = (meta("far"), r#"{"Endpoints":{"docker":{"Host":"ssh://me@far"}}}"#);
        let tls = (meta("tls"), r#"{"Endpoints":{"docker":{"Host":"tcp://far:2376"}}}"#);
        let material = format!("home/.docker/contexts/tls/{}/docker/ca.pem", folder_of("tls"));
        let (root, environment) =
            machine(&[("home/.docker/config.json", "{"), (&ssh.0, ssh.1), (&tls.0, tls.1), (&material, ""), ("var/run/docker.sock", "")]);
        assert_eq!(choose(&environment).expect("found"), unix(root.path(), "var/run/docker.sock", Origin::DockerSocket));
        for name in ["far", "tls"] {
            let environment = EngineEnvironment { docker_context: Some(name.to_owned()), ..environment.clone() };
            assert!(matches!(choose(&environment), Err(EngineError::Unsupported { .. })), "{name}");
        }
    }

    #[test]
    fn the_first_socket_that_is_there_is_taken() {
        for (path, origin) in [
            ("run/user/1/docker.sock", Origin::DockerSocket),
            ("home/.docker/run/docker.sock", Origin::DockerSocket),
            ("home/.colima/default/docker.sock", Origin::DockerSocket),
            ("home/.orbstack/run/docker.sock", Origin::DockerSocket),
            ("home/.rd/docker.sock", Origin::DockerSocket),
            ("run/user/1/podman/podman.sock", Origin::PodmanSocket),
        ] {
            let (root, environment) = machine(&[(path, ""), ("run/podman/podman.sock", "")]);
            assert_eq!(choose(&environment).expect("found"), unix(root.path(), path, origin));
        }
        let (_root, environment) = machine(&[]);
        assert!(matches!(choose(&environment), Err(EngineError::NoEngine { looked }) if looked.len() == 9));
    }
}
