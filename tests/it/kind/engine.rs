//! A container engine for tests: a Unix socket that answers what bringing a lab up on kind asks, with containers that are files of a folder,
//! so that a fake `kind` can make them with `touch`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// A running fake engine.
#[derive(Debug)]
pub(crate) struct Engine {
    dir: tempfile::TempDir,
    ended: Arc<AtomicBool>,
    /// What it was asked: `METHOD PATH`.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the listener, so that its thread ends.
        let _ = UnixStream::connect(self.socket());
    }
}

impl Engine {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("containers")).expect("made");
        let listener = UnixListener::bind(dir.path().join("s")).expect("bound");
        let (ended, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (until, log, root) = (ended.clone(), asked.clone(), dir.path().to_path_buf());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if until.load(Ordering::Relaxed) {
                    return;
                }
                let (log, root) = (log.clone(), root.clone());
                std::thread::spawn(move || serve(stream, &root, &log));
            }
        });
        Engine { dir, ended, asked }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// As `DOCKER_HOST` has it.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The folder whose files are the containers: `CLUSTER.ROLE.NAME`, content: the image.
    pub(crate) fn containers(&self) -> PathBuf {
        self.dir.path().join("containers")
    }

    pub(crate) fn container_names(&self) -> Vec<String> {
        let mut names: Vec<String> = list(self.dir.path()).into_iter().map(|(_, _, name, _)| name).collect();
        names.sort();
        names
    }

    /// The requests that change something.
    pub(crate) fn changes(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").iter().filter(|line| !line.starts_with("GET")).cloned().collect()
    }
}

/// (cluster, role, name, image) of each container.
fn list(root: &Path) -> Vec<(String, String, String, String)> {
    let files = std::fs::read_dir(root.join("containers")).into_iter().flatten().flatten();
    files
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let mut parts = name.splitn(3, '.').map(str::to_owned);
            let image = std::fs::read_to_string(file.path()).ok()?.trim().to_owned();
            Some((parts.next()?, parts.next()?, parts.next()?, image))
        })
        .collect()
}

fn serve(stream: UnixStream, root: &Path, log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
    let mut writer = stream;
    let mut first = String::new();
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    log.lock().expect("no panic").push(format!("{method} {path}"));
    let (status, value) = answer(method, path, root);
    let text = if status == 204 { String::new() } else { value.to_string() };
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", text.len());
    // Each request comes on a connection of its own, so that an engine whose socket is removed is gone.
    let _ = writer.write_all(format!("{head}{text}").as_bytes());
}

fn answer(method: &str, path: &str, root: &Path) -> (u16, Value) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let gone = || (404, json!({"message": "no such thing"}));
    match (method, path) {
        ("GET", "/version") => (200, json!({"Version": "29.0.0", "ApiVersion": "1.52", "Platform": {"Name": "Docker Engine - Fake"}})),
        ("GET", "/info") => (
            200,
            json!({"CgroupVersion": "2", "CgroupDriver": "systemd", "Architecture": "x86_64", "OSType": "linux", "Driver": "overlay2", "ServerVersion": "29.0.0"}),
        ),
        ("GET", "/containers/json") => {
            let found = list(root).into_iter().filter(|(cluster, ..)| query.contains(&format!("kind.cluster%3D{cluster}%22")));
            let each = found.map(|(cluster, role, name, image)| {
                json!({"Id": format!("id-{name}"), "Names": [format!("/{name}")], "Image": image, "State": "running",
                    "Labels": {"io.x-k8s.kind.cluster": cluster, "io.x-k8s.kind.role": role}})
            });
            (200, each.collect())
        }
        ("DELETE", _) if path.starts_with("/containers/id-") => {
            let name = &path["/containers/id-".len()..];
            match list(root).into_iter().find(|(.., found, _)| found == name) {
                Some((cluster, role, name, _)) => {
                    std::fs::remove_file(root.join("containers").join(format!("{cluster}.{role}.{name}"))).expect("removed");
                    (204, Value::Null)
                }
                None => gone(),
            }
        }
        ("GET", _) if path.starts_with("/images/") && path.ends_with("/json") && !path.contains("absent") => {
            (200, json!({"Id": "sha256:0", "Architecture": "amd64", "Os": "linux"}))
        }
        _ => gone(),
    }
}
