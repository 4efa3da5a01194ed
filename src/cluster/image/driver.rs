//! The driver's image: which dralab goes into it, and how it comes onto the nodes.
//!
//! Usually it is made here, of the running dralab, and streamed straight into the nodes: no registry, no Dockerfile, and nothing in the
//! engine's own store. Its tag is the version and the digest of what is in it, so that another binary is another image, and a DaemonSet
//! that names it rolls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cluster::engine::{Engine, EngineError};
use crate::cluster::image::oci::{self, Content, Settings, Tree};
use crate::cluster::image::{
    Archive, DRIVER_IMAGE, DRIVER_PATH, ImageError, NodeImages, build, elf, import, lacking, lesson::saved_as, libraries,
};
use crate::cluster::steps::{Reporter, Say, StepEvent};

/// Which dralab is wanted on the nodes. The first that is given counts, in this order; without any, the running one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverWanted {
    /// `--driver-binary`: a Linux program.
    pub binary: Option<PathBuf>,
    /// `--driver-image`: an image of the engine, or one to pull, whose entry point is dralab.
    pub image: Option<String>,
    /// `--driver-source`: the source tree, to be built by the engine.
    pub source: Option<PathBuf>,
    /// The running dralab.
    pub executable: PathBuf,
}

/// The driver's image, ready to be loaded.
#[derive(Clone, Debug)]
pub struct DriverImage {
    /// Its name in full, for the DaemonSet: `dralab.local/driver:0.1.0-0123456789ab`.
    pub name: String,
    /// What it was made from, for people: `image.driver-*`.
    pub made_from: Say,
    archive: Archive,
    /// Its name in the archive.
    inside: Option<String>,
}

impl DriverImage {
    /// The size of its archive in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.archive.size()
    }
}

/// Makes the driver's image for nodes of this architecture. Its archive is kept in a nameless file in `scratch`.
///
/// # Errors
/// When what is wanted is for another architecture, cannot be read, pulled or built, or when the running dralab cannot run on the nodes
/// and nothing else was given.
pub async fn prepare(
    engine: &Engine,
    wanted: &DriverWanted,
    architecture: &str,
    scratch: &Path,
    report: Reporter<'_>,
) -> Result<DriverImage, ImageError> {
    match (&wanted.binary, &wanted.image, &wanted.source) {
        (Some(binary), ..) => {
            of_binary(binary, Say::new("image.driver-binary").with("path", &binary.display()), architecture, scratch).await
        }
        (_, Some(image), _) => of_image(engine, image, architecture, scratch, report).await,
        (.., Some(source)) => of_source(engine, source, architecture, scratch, report).await,
        _ => {
            let running = &wanted.executable;
            let is = match elf::read(running) {
                Ok(program) if program.architecture == architecture => {
                    let said = Say::new("image.driver-running").with("path", &running.display());
                    return of_binary(running, said, architecture, scratch).await;
                }
                Ok(program) => format!("linux/{}", program.architecture),
                Err(ImageError::NotElf { .. }) => format!("a program for {}", std::env::consts::OS),
                Err(error) => return Err(error),
            };
            Err(ImageError::NoDriver { path: running.clone(), is, nodes: architecture.to_owned() })
        }
    }
}

async fn of_binary(binary: &Path, made_from: Say, architecture: &str, scratch: &Path) -> Result<DriverImage, ImageError> {
    let theirs = elf::read(binary)?.architecture;
    if theirs != architecture {
        let what = binary.display().to_string();
        return Err(ImageError::Architecture { what, theirs: format!("linux/{theirs}"), nodes: format!("linux/{architecture}") });
    }
    let (from, to) = (binary.to_path_buf(), scratch.to_path_buf());
    let written = tokio::task::spawn_blocking(move || assemble(&from, Path::new("/"), &to)).await;
    let written = written.map_err(std::io::Error::other).map_err(ImageError::file("read", binary))??;
    Ok(DriverImage { name: written.name.clone(), made_from, archive: written.archive, inside: Some(written.name) })
}

/// The image of this binary: itself, its loader and libraries, and the little that a program expects to be there.
///
/// # Errors
/// When a file cannot be read, or a library is missing.
pub fn assemble(binary: &Path, root: &Path, scratch: &Path) -> Result<oci::Written, ImageError> {
    let needs = libraries::closure(binary, Path::new(DRIVER_PATH), root)?;
    let mut tree = Tree::from([
        (PathBuf::from(DRIVER_PATH), Content::Copy(binary.to_path_buf(), 0o755)),
        ("/tmp".into(), Content::Folder(0o1777)),
        ("/etc/nsswitch.conf".into(), Content::Text("hosts: files dns\n".to_owned())),
    ]);
    tree.extend(needs.files.into_iter().map(|(there, here)| (there, Content::Copy(here, 0o755))));
    let mut env = vec!["PATH=/usr/local/bin".to_owned()];
    if !needs.unusual.is_empty() {
        let folders: Vec<String> = needs.unusual.iter().map(|folder| folder.display().to_string()).collect();
        env.push(format!("LD_LIBRARY_PATH={}", folders.join(":")));
    }
    let labels = [("org.opencontainers.image.title", "dralab"), ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION"))];
    let settings = Settings {
        architecture: needs.architecture,
        entrypoint: vec![DRIVER_PATH.to_owned()],
        env,
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>(),
    };
    oci::write(&tree, &settings, scratch, name_of)
}

/// The image's name by the digest of what is in it (`sha256:...`). A plus sign, which a version may have, must not be in a tag.
fn name_of(digest: &str) -> String {
    let digest = digest.rsplit(':').next().unwrap_or_default();
    format!("{DRIVER_IMAGE}:{}-{}", env!("CARGO_PKG_VERSION").replace('+', "_"), digest.get(..12).unwrap_or(digest))
}

async fn of_image(
    engine: &Engine,
    image: &str,
    architecture: &str,
    scratch: &Path,
    report: Reporter<'_>,
) -> Result<DriverImage, ImageError> {
    let platform = format!("linux/{architecture}");
    let found = match engine.image(image).await? {
        Some(found) => found,
        None => {
            let what = Say::new("image.pulling").with("image", image);
            let progress = |done, total| report(StepEvent::Bytes { what: Some(what.clone()), done, total });
            engine.pull(image, Some(&platform), &progress).await?;
            engine.image(image).await?.ok_or_else(|| EngineError::NoImage { image: image.to_owned() })?
        }
    };
    let theirs = format!("{}/{}", found.os, found.architecture);
    if theirs != platform {
        return Err(ImageError::Architecture { what: format!("the image {image}"), theirs, nodes: platform });
    }
    let (export, inside) = saved_as(image, &found);
    let what = Say::new("image.exporting").with("image", image);
    let progress = |done, total| report(StepEvent::Bytes { what: Some(what.clone()), done, total });
    let archive = Archive::export(engine, &export, Some(&platform), scratch, &progress).await?;
    let made_from = Say::new("image.driver-image").with("image", image);
    Ok(DriverImage { name: name_of(&found.id), made_from, archive, inside })
}

async fn of_source(
    engine: &Engine,
    source: &Path,
    architecture: &str,
    scratch: &Path,
    report: Reporter<'_>,
) -> Result<DriverImage, ImageError> {
    let built = build::build(engine, source, architecture, scratch, report).await?;
    let made = of_image(engine, &built, architecture, scratch, report).await;
    // The image has gone into the archive; in the engine it would only be left over. The builder's cache stays there.
    engine.remove_image(&built).await?;
    Ok(DriverImage { made_from: Say::new("image.driver-source").with("path", &source.display()), ..made? })
}

/// Loads the driver's image into those of the nodes that lack it, and says so.
///
/// # Errors
/// When a node refuses it.
pub async fn load(engine: &Engine, nodes: &[String], image: &DriverImage, report: Reporter<'_>) -> Result<Say, ImageError> {
    let lacking = lacking(engine, nodes, &image.name).await?;
    if lacking.is_empty() {
        return Ok(Say::new("image.there").with("image", &image.name));
    }
    let what = Say::new("image.loading").with("image", &image.name);
    let progress = |done, total| report(StepEvent::Bytes { what: Some(what.clone()), done, total });
    import(engine, &lacking, &image.archive, image.inside.as_deref(), &image.name, &progress).await?;
    Ok(Say::new("image.loaded").with("image", &image.name).with("nodes", &lacking.len()))
}

/// Removes the driver's images from the nodes: all but `keep`, or all of them. For when a new one has rolled out, and for `down` on
/// nodes that stay.
///
/// # Errors
/// When a node refuses.
pub async fn remove(engine: &Engine, nodes: &[String], keep: Option<&str>) -> Result<(), ImageError> {
    for node in nodes {
        let images = NodeImages::new(engine, node);
        let all = images.names().await?;
        let ours = all.into_iter().filter(|name| name.starts_with(&format!("{DRIVER_IMAGE}:")) && Some(name.as_str()) != keep);
        let mut names: Vec<String> = ours.collect();
        // The container runtime has named each by its id, too, and the content stays as long as one name does. An image that somebody
        // else has named as well keeps that.
        for name in names.clone() {
            if let Some((id, all)) = images.known(&name).await?
                && all.iter().all(|other| names.contains(other))
            {
                names.push(id);
            }
        }
        images.remove(&names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::{DriverWanted, assemble, name_of, prepare};
    use crate::cluster::engine::Engine;
    use crate::cluster::engine::fake::{Answer, Fake};
    use crate::cluster::image::ImageError;
    use crate::cluster::image::tiny::{AMD64, ARM64, Tiny};

    #[test]
    fn another_binary_is_another_image_and_the_same_is_the_same() {
        let root = tempfile::tempdir().expect("a folder");
        let (one, two) = (root.path().join("one"), root.path().join("two"));
        std::fs::write(&one, Tiny::library(AMD64).bytes()).expect("written");
        std::fs::write(&two, Tiny::library(AMD64).bytes()).expect("written");
        let name = |path| assemble(path, root.path(), root.path()).expect("made").name;
        let first = name(&one);
        assert_eq!(first, name(&two));
        let mut changed = Tiny::library(AMD64).bytes();
        changed.push(0);
        std::fs::write(&two, changed).expect("written");
        assert_ne!(first, name(&two));
        let digits = first.rsplit_once('-').expect("a digest").1;
        assert!(first.starts_with("dralab.local/driver:") && digits.len() == 12, "{first}");
        assert_eq!(name_of("sha256:0123456789abcdef").rsplit_once('-').expect("a digest").1, "0123456789ab");
    }

    #[tokio::test]
    async fn which_dralab_goes_in_and_what_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, content: Vec<u8>| -> PathBuf {
            let path = folder.path().join(name);
            std::fs::write(&path, content).expect("written");
            path
        };
        let (amd, arm) = (file("amd", Tiny::library(AMD64).bytes()), file("arm", Tiny::library(ARM64).bytes()));
        let mac = file("mac", b"\xcf\xfa\xed\xfe".repeat(32));
        let image = json!({"Id": "sha256:00112233445566778899", "Architecture": "arm64", "Os": "linux", "RepoTags": ["mine:1"]});
        let fake = Fake::start(vec![
            Fake::version(),
            ("GET", "/images/mine:1/json", Answer::Json(200, image)),
            ("GET", "/images/mine:1/get", Answer::Chunks(vec!["archive".to_owned()])),
        ])
        .await;
        let engine = Engine::connect(&fake.address()).await.expect("an engine");
        let wanted = |executable: &PathBuf| DriverWanted { executable: executable.clone(), ..DriverWanted::default() };
        let with_binary =
            |binary: &PathBuf| DriverWanted { binary: Some(binary.clone()), image: Some("mine:1".to_owned()), ..wanted(&amd) };
        let with_image = DriverWanted { image: Some("mine:1".to_owned()), ..wanted(&amd) };
        for (wanted, nodes, expected) in [
            (wanted(&amd), "amd64", Ok("image.driver-running")),
            (with_binary(&arm), "arm64", Ok("image.driver-binary")),
            (with_image.clone(), "arm64", Ok("image.driver-image")),
            (wanted(&amd), "arm64", Err("is linux/amd64, and the nodes are linux/arm64")),
            (wanted(&mac), "arm64", Err("is a program for")),
            (with_binary(&arm), "amd64", Err("is for linux/arm64, and the nodes are linux/amd64")),
            (with_image, "amd64", Err("the image mine:1 is for linux/arm64, and the nodes are linux/amd64")),
        ] {
            match (prepare(&engine, &wanted, nodes, folder.path(), &|_| ()).await, expected) {
                (Ok(made), Ok(id)) => {
                    assert_eq!(made.made_from.id, id);
                    assert!(made.name.starts_with("dralab.local/driver:") && made.size() > 0);
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{wanted:?}: {found:?}, and not {expected:?}"),
            }
        }
        let gone = prepare(&engine, &with_binary(&folder.path().join("none")), "amd64", folder.path(), &|_| ()).await;
        assert!(matches!(gone, Err(ImageError::File { .. })));
    }
}
