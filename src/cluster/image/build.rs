//! The driver's image built by the engine from dralab's source tree (`assets/driver/Dockerfile`).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::cluster::engine::Engine;
use crate::cluster::engine::build::Build;
use crate::cluster::image::{Archive, DRIVER_IMAGE, ImageError};
use crate::cluster::steps::{Reporter, Say, StepEvent};

/// The Dockerfile, with two stages: Rust on Alpine, then nothing but the program.
pub const DOCKERFILE: &str = include_str!("../../../assets/driver/Dockerfile");
/// Its name in the context, beside whatever the tree has.
const DOCKERFILE_NAME: &str = ".dralab.Dockerfile";
/// What of a source tree does not go into the build, beside what begins with a dot.
const LEFT_OUT: &[&str] = &["target", "node_modules"];

/// Builds the image from the source tree and says its name in the engine. Takes some minutes, and a network.
///
/// # Errors
/// When the folder is not dralab's source tree, or the build fails.
pub async fn build(engine: &Engine, source: &Path, architecture: &str, scratch: &Path, report: Reporter<'_>) -> Result<String, ImageError> {
    let (from, to) = (source.to_path_buf(), scratch.to_path_buf());
    let packed = tokio::task::spawn_blocking(move || context(&from, &to)).await;
    let archive = packed.map_err(io::Error::other).map_err(ImageError::file("read", source))??;
    let build = wanted(architecture);
    let said = |line: &str| report(StepEvent::Bytes { what: Some(Say::new("image.building").with("line", line)), done: 0, total: 0 });
    engine.build(&build, archive.stream(Arc::new(AtomicU64::new(0))), &said).await?;
    Ok(build.name)
}

fn wanted(architecture: &str) -> Build {
    Build {
        dockerfile: DOCKERFILE_NAME.to_owned(),
        name: format!("{DRIVER_IMAGE}-build:{}-{architecture}", env!("CARGO_PKG_VERSION")),
        platform: format!("linux/{architecture}"),
        labels: [("org.opencontainers.image.title".to_owned(), "dralab".to_owned())].into(),
    }
}

/// The source tree as an archive, without build results and hidden files.
fn context(source: &Path, scratch: &Path) -> Result<Archive, ImageError> {
    let not = |reason: String| ImageError::NotASourceTree { path: source.to_path_buf(), reason };
    let manifest = std::fs::read_to_string(source.join("Cargo.toml")).map_err(|error| not(format!("Cargo.toml: {error}")))?;
    if !manifest.lines().any(|line| line.replace(' ', "") == "name=\"dralab\"") || !source.join("src/main.rs").is_file() {
        return Err(not("its Cargo.toml is not dralab's".to_owned()));
    }
    if !source.join("Cargo.lock").is_file() {
        return Err(not("it has no Cargo.lock".to_owned()));
    }
    let mut files = Vec::new();
    walk(source, &mut files)?;
    files.sort();
    let failed = || ImageError::file("write", scratch);
    let mut archive = tar::Builder::new(tempfile::tempfile_in(scratch).map_err(failed())?);
    let mut header = tar::Header::new_gnu();
    for path in files {
        let file = File::open(&path).map_err(ImageError::file("read", &path))?;
        let size = file.metadata().map_err(ImageError::file("read", &path))?.len();
        plain(&mut header, size);
        let inside = path.strip_prefix(source).unwrap_or(&path);
        archive.append_data(&mut header, inside, io::Read::take(file, size)).map_err(ImageError::file("read", &path))?;
    }
    plain(&mut header, DOCKERFILE.len() as u64);
    archive.append_data(&mut header, DOCKERFILE_NAME, DOCKERFILE.as_bytes()).map_err(failed())?;
    archive.into_inner().and_then(Archive::of).map_err(failed())
}

/// The same for every file, so that the builder's cache knows an unchanged tree again.
fn plain(header: &mut tar::Header, size: u64) {
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
}

fn walk(folder: &Path, into: &mut Vec<PathBuf>) -> Result<(), ImageError> {
    for entry in std::fs::read_dir(folder).map_err(ImageError::file("read", folder))? {
        let entry = entry.map_err(ImageError::file("read", folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(ImageError::file("read", folder))?;
        if name.starts_with('.') || LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            walk(&entry.path(), into)?;
        } else if kind.is_file() {
            into.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use futures::TryStreamExt as _;
    use serde_json::json;

    use super::{DOCKERFILE, DOCKERFILE_NAME, build, context};
    use crate::cluster::engine::fake::{Answer, Fake};
    use crate::cluster::engine::{Engine, EngineError};
    use crate::cluster::image::ImageError;
    use crate::cluster::steps::StepEvent;

    #[tokio::test]
    async fn the_context_is_this_source_tree_and_nothing_else() {
        let scratch = tempfile::tempdir().expect("a folder");
        let archive = context(Path::new(env!("CARGO_MANIFEST_DIR")), scratch.path()).expect("packed");
        let pieces: Vec<bytes::Bytes> = archive.stream(Arc::new(AtomicU64::new(0))).try_collect().await.expect("read");
        let bytes = pieces.concat();
        let mut names = BTreeSet::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().expect("an archive") {
            names.insert(entry.expect("an entry").path().expect("a path").display().to_string());
        }
        // Whatever Cargo.toml declares must be there, or cargo refuses the tree.
        for name in ["Cargo.toml", "Cargo.lock", "src/main.rs", "tests/it/main.rs", "tests/wire/main.rs", "benches/lab.rs", DOCKERFILE_NAME]
        {
            assert!(names.contains(name), "{name}");
        }
        assert!(!names.iter().any(|name| name.starts_with("target/") || name.starts_with(".git")), "{names:?}");
    }

    #[test]
    fn a_folder_that_is_not_the_source_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(context(folder.path(), folder.path()), Err(ImageError::NotASourceTree { .. })));
        std::fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"other\"\n").expect("written");
        assert!(matches!(context(folder.path(), folder.path()), Err(ImageError::NotASourceTree { .. })));
    }

    #[tokio::test]
    async fn the_request_names_file_platform_and_name_and_the_builders_words_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("src")).expect("created");
        for (path, text) in [("Cargo.toml", "[package]\nname = \"dralab\"\n"), ("Cargo.lock", ""), ("src/main.rs", "fn main() {}")] {
            std::fs::write(folder.path().join(path), text).expect("written");
        }
        let line = |value: serde_json::Value| value.to_string() + "\r\n";
        let said = "The command '/bin/sh -c cargo build' returned a non-zero code: 101";
        let events = [
            line(json!({"stream": "Step 1/9 : ARG RUST\n"})),
            line(json!({"stream": "\n"})),
            line(json!({"errorDetail": {"code": 101, "message": said}, "error": said})),
        ];
        let fake = Fake::start(vec![Fake::version(), ("POST", "/build", Answer::Chunks(events.to_vec()))]).await;
        let engine = Engine::connect(&fake.address()).await.expect("an engine");
        let heard = std::sync::Mutex::new(Vec::new());
        let report = |event: StepEvent| {
            if let StepEvent::Bytes { what: Some(say), .. } = event {
                heard.lock().expect("no panic").push(say.values[0].1.clone());
            }
        };
        let error = build(&engine, folder.path(), "arm64", folder.path(), &report).await.expect_err("it fails");
        assert!(matches!(&error, ImageError::Engine(EngineError::Build { message, .. }) if message == said), "{error}");
        assert_eq!(*heard.lock().expect("no panic"), ["Step 1/9 : ARG RUST"]);
        let asked = fake.requests().pop().expect("a request");
        for part in ["dockerfile=.dralab.Dockerfile", "platform=linux%2Farm64", "t=dralab.local%2Fdriver-build", "rm=true"] {
            assert!(asked.contains(part), "{part}: {asked}");
        }
        assert!(DOCKERFILE.contains("ENTRYPOINT [\"/usr/local/bin/dralab\"]"));
    }
}
