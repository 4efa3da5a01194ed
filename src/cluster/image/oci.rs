//! Writes an image as an archive in the OCI layout: one layer, its configuration, a manifest and an index.
//!
//! Format: OCI image specification 1.1 (image-layout.md, manifest.md, config.md). The same input gives the same bytes: entries are
//! sorted, and times and owners are 0.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde_json::{Value, json};

use crate::cluster::image::{Archive, ImageError};

/// What is at a path of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A folder with these permissions.
    Folder(u32),
    /// A file of this machine, with these permissions.
    Copy(PathBuf, u32),
    /// A file with this text, readable by all.
    Text(String),
}

/// What the image holds, by absolute path; folders on the way are added (0755).
pub type Tree = BTreeMap<PathBuf, Content>;

/// What the image says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `amd64`, `arm64`.
    pub architecture: String,
    /// What is run.
    pub entrypoint: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// An archive and the digest of what is in it.
#[derive(Clone, Debug)]
pub struct Written {
    /// The archive. Its image is named by the function that was given.
    pub archive: Archive,
    /// The image's name.
    pub name: String,
    /// `sha256:...` of the manifest: the identity of layer and configuration.
    pub digest: String,
}

/// Writes the image into a nameless file in `scratch`. `name` gives its name from the manifest's digest (`sha256:...`).
///
/// # Errors
/// When a file cannot be read, or `scratch` has no room.
pub fn write(tree: &Tree, settings: &Settings, scratch: &Path, name: impl FnOnce(&str) -> String) -> Result<Written, ImageError> {
    let failed = || ImageError::file("write", scratch);
    let mut file = tempfile::tempfile_in(scratch).map_err(failed())?;
    // The layer comes first, and its name in the archive is its digest: the header is written once that is known.
    file.write_all(&[0; HEADER]).map_err(failed())?;
    let mut layer = Hashing { inner: &mut file, context: Context::new(&SHA256), size: 0 };
    write_layer(tree, &mut layer, scratch)?;
    let (layer_digest, layer_size) = layer.finish();
    pad(&mut file, layer_size).map_err(failed())?;
    file.seek(SeekFrom::Start(0)).map_err(failed())?;
    file.write_all(header(&blob(&layer_digest), layer_size).map_err(failed())?.as_bytes()).map_err(failed())?;
    file.seek(SeekFrom::End(0)).map_err(failed())?;

    let config = configuration(settings, &layer_digest).to_string().into_bytes();
    let described = |media: &str, digest: &str, size: u64| json!({"mediaType": media, "digest": digest, "size": size});
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", &digest(&config), config.len() as u64),
        "layers": [described("application/vnd.oci.image.layer.v1.tar", &layer_digest, layer_size)],
    })
    .to_string()
    .into_bytes();
    let manifest_digest = digest(&manifest);
    let name = name(&manifest_digest);
    let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    let mut entry = described("application/vnd.oci.image.manifest.v1+json", &manifest_digest, manifest.len() as u64);
    entry["platform"] = json!({"os": "linux", "architecture": settings.architecture});
    // containerd takes the image's name from the first annotation; the second is OCI's own.
    entry["annotations"] = json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag});
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}).to_string();

    let mut rest = tar::Builder::new(&mut file);
    for (path, bytes) in [
        (blob(&digest(&config)), config.as_slice()),
        (blob(&manifest_digest), manifest.as_slice()),
        ("index.json".to_owned(), index.as_bytes()),
        ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.as_slice()),
    ] {
        let header = header(&path, bytes.len() as u64).map_err(failed())?;
        rest.append(&header, bytes).map_err(failed())?;
    }
    rest.into_inner().map_err(failed())?;
    Ok(Written { archive: Archive::of(file).map_err(failed())?, name, digest: manifest_digest })
}

const HEADER: usize = 512;

/// `blobs/sha256/<hex>`, from `sha256:<hex>`.
fn blob(digest: &str) -> String {
    format!("blobs/{}", digest.replacen(':', "/", 1))
}

fn header(path: &str, size: u64) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_ustar();
    header.set_path(path)?;
    header.set_mode(0o644);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    Ok(header)
}

/// An archive's entries begin at multiples of 512 bytes.
fn pad(file: &mut File, size: u64) -> io::Result<()> {
    let over = usize::try_from(size % HEADER as u64).unwrap_or_default();
    if over == 0 { Ok(()) } else { file.write_all(&[0; HEADER][over..]) }
}

fn configuration(settings: &Settings, layer: &str) -> Value {
    const NEVER: &str = "1970-01-01T00:00:00Z";
    json!({
        "created": NEVER,
        "architecture": settings.architecture,
        "os": "linux",
        "config": {
            "Entrypoint": settings.entrypoint,
            "Env": settings.env,
            "Labels": settings.labels,
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
        "history": [{"created": NEVER, "created_by": "dralab"}],
    })
}

fn write_layer(tree: &Tree, into: impl Write, scratch: &Path) -> Result<(), ImageError> {
    let mut full = tree.clone();
    for path in tree.keys() {
        for folder in path.ancestors().skip(1).filter(|folder| folder.parent().is_some()) {
            full.entry(folder.to_path_buf()).or_insert(Content::Folder(0o755));
        }
    }
    let mut layer = tar::Builder::new(into);
    for (path, content) in &full {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let mut header = tar::Header::new_gnu();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        let written = match content {
            Content::Folder(mode) => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(*mode);
                header.set_size(0);
                layer.append_data(&mut header, format!("{}/", inside.display()), io::empty())
            }
            Content::Text(text) => {
                header.set_mode(0o644);
                header.set_size(text.len() as u64);
                layer.append_data(&mut header, inside, text.as_bytes())
            }
            Content::Copy(from, mode) => {
                let source = File::open(from).map_err(ImageError::file("read", from))?;
                let size = source.metadata().map_err(ImageError::file("read", from))?.len();
                header.set_mode(*mode);
                header.set_size(size);
                // A file that grows meanwhile must not break the archive; one that shrinks fails.
                layer.append_data(&mut header, inside, Exactly { inner: source.take(size), left: size })
            }
        };
        written.map_err(ImageError::file("write", scratch))?;
    }
    layer.into_inner().and_then(|mut inner| inner.flush()).map_err(ImageError::file("write", scratch))
}

/// Reads so many bytes, and fails when there are fewer.
struct Exactly<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        if read == 0 && self.left > 0 && !into.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter while it was read"));
        }
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

/// Hashes and counts what goes through.
struct Hashing<W> {
    inner: W,
    context: Context,
    size: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.context.update(bytes.get(..written).unwrap_or_default());
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W> Hashing<W> {
    fn finish(self) -> (String, u64) {
        (hex(self.context.finish().as_ref()), self.size)
    }
}

/// `sha256:<hex>` of these bytes.
fn digest(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use futures::TryStreamExt as _;
    use serde_json::Value;

    use super::{Content, Settings, Tree, Written, digest, write};

    fn settings() -> Settings {
        Settings {
            architecture: "amd64".to_owned(),
            entrypoint: vec!["/usr/local/bin/dralab".to_owned()],
            env: vec!["PATH=/usr/local/bin".to_owned()],
            labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        }
    }

    fn made(binary: &[u8], scratch: &Path) -> Written {
        let path = scratch.join("binary");
        std::fs::write(&path, binary).expect("written");
        let tree = Tree::from([
            ("/usr/local/bin/dralab".into(), Content::Copy(path, 0o755)),
            ("/tmp".into(), Content::Folder(0o1777)),
            ("/etc/nsswitch.conf".into(), Content::Text("hosts: files dns\n".to_owned())),
        ]);
        write(&tree, &settings(), scratch, |digest| format!("dralab.local/driver:1-{}", &digest[7..19])).expect("made")
    }

    async fn bytes(written: &Written) -> Vec<u8> {
        let pieces: Vec<bytes::Bytes> = written.archive.stream(Arc::new(AtomicU64::new(0))).try_collect().await.expect("read");
        pieces.concat()
    }

    #[tokio::test]
    async fn the_same_content_gives_the_same_bytes_and_another_another_name() {
        let (one, two) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let first = made(b"ELF", one.path());
        std::thread::sleep(std::time::Duration::from_millis(5));
        let second = made(b"ELF", two.path());
        assert_eq!((&first.name, &first.digest), (&second.name, &second.digest));
        assert!(bytes(&first).await == bytes(&second).await, "the archives are the same");
        let other = made(b"ELG", two.path());
        assert_ne!(first.name, other.name);
    }

    #[tokio::test]
    async fn the_archive_is_an_oci_layout_whose_digests_are_right() {
        for size in [0_usize, 3, 512, 513, 100_000] {
            let scratch = tempfile::tempdir().expect("a folder");
            let written = made(&vec![7; size], scratch.path());
            let archive = bytes(&written).await;
            let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
            for entry in tar::Archive::new(archive.as_slice()).entries().expect("an archive") {
                let mut entry = entry.expect("an entry");
                let mut content = Vec::new();
                entry.read_to_end(&mut content).expect("its content");
                files.insert(entry.path().expect("a path").display().to_string(), content);
            }
            for (path, content) in files.iter().filter(|(path, _)| path.starts_with("blobs/")) {
                assert_eq!(*path, super::blob(&digest(content)), "{size}");
            }
            let json = |path: &str| serde_json::from_slice::<Value>(&files[path]).expect("JSON");
            let of = |described: &Value| super::blob(described["digest"].as_str().expect("a digest"));
            let entry = &json("index.json")["manifests"][0];
            assert_eq!(entry["annotations"]["io.containerd.image.name"], written.name);
            assert_eq!(entry["digest"], written.digest);
            let manifest = json(&of(entry));
            let config = json(&of(&manifest["config"]));
            assert_eq!(config["config"]["Entrypoint"][0], "/usr/local/bin/dralab");
            assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
            let layer = &files[&of(&manifest["layers"][0])];
            assert_eq!(manifest["layers"][0]["size"], layer.len());
            let mut seen = Vec::new();
            for entry in tar::Archive::new(layer.as_slice()).entries().expect("a layer") {
                let entry = entry.expect("an entry");
                let header = entry.header();
                seen.push((
                    entry.path().expect("a path").display().to_string(),
                    header.mode().expect("a mode"),
                    header.size().expect("a size"),
                ));
                assert_eq!((header.mtime().expect("a time"), header.uid().expect("an owner")), (0, 0));
            }
            let expected = [
                ("etc/", 0o755, 0),
                ("etc/nsswitch.conf", 0o644, 17),
                ("tmp/", 0o1777, 0),
                ("usr/", 0o755, 0),
                ("usr/local/", 0o755, 0),
                ("usr/local/bin/", 0o755, 0),
                ("usr/local/bin/dralab", 0o755, size as u64),
            ];
            assert_eq!(seen, expected.map(|(path, mode, size)| (path.to_owned(), mode, size)));
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let scratch = tempfile::tempdir().expect("a folder");
        let tree = Tree::from([("/a".into(), Content::Copy(scratch.path().join("none"), 0o755))]);
        let error = write(&tree, &settings(), scratch.path(), |_| String::new()).expect_err("not there").to_string();
        assert!(error.starts_with("cannot read") && error.contains("none"), "{error}");
    }
}
