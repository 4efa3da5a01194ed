//! The loader and libraries that a program needs, found on this machine as its loader would find them.
//!
//! For glibc the order is that of ld.so(8): the folders of `DT_RPATH` (where there is no `DT_RUNPATH`), of `DT_RUNPATH`, those of
//! `/etc/ld.so.conf` (what `ldconfig` makes its cache of), then the loader's own. `LD_LIBRARY_PATH` is left out: what it names is
//! nothing that an image should depend on. musl has a file of its own with a list of folders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::cluster::image::ImageError;
use crate::cluster::image::elf::{self, Program};

/// Parts of glibc that NVIDIA's management library names although this program may not: without them its `dlopen` fails.
const FOR_NVML: &[&str] = &["libpthread.so.0", "libdl.so.2", "libm.so.6", "librt.so.1"];

/// What a program needs in order to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure {
    /// Its architecture.
    pub architecture: String,
    /// Its loader; `None` for a static program.
    pub interpreter: Option<PathBuf>,
    /// Loader and libraries: the path in the image, and the file on this machine.
    pub files: BTreeMap<PathBuf, PathBuf>,
    /// Folders of libraries where the loader in the image would not look by itself: they must be in its `LD_LIBRARY_PATH`.
    pub unusual: BTreeSet<PathBuf>,
}

/// An object that has been found: where it is here, and where it will be.
#[derive(Clone, Debug)]
struct Object {
    here: PathBuf,
    there: PathBuf,
    program: Program,
}

/// Finds what `program`, which will be at `there` in the image, needs. `root` is where absolute paths begin: `/`.
///
/// # Errors
/// When it is no Linux program, or a library that it needs is not on this machine.
pub fn closure(program: &Path, there: &Path, root: &Path) -> Result<Closure, ImageError> {
    let main = Object { here: program.to_path_buf(), there: there.to_path_buf(), program: elf::read(program)? };
    let mut closure = Closure { architecture: main.program.architecture.clone(), ..Closure::default() };
    let Some(interpreter) = main.program.interpreter.clone().map(PathBuf::from) else {
        return Ok(closure);
    };
    let loader = Loader::new(&interpreter, &closure.architecture, root);
    let file = rooted(root, &interpreter);
    if !file.exists() {
        return Err(ImageError::Library { path: main.here, library: interpreter.display().to_string() });
    }
    closure.files.insert(interpreter.clone(), file);
    closure.interpreter = Some(interpreter);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let rpath = main.program.rpath.clone();
    let mut queue = vec![main];
    while let Some(object) = queue.pop() {
        for name in &object.program.needed {
            if loader.is_itself(name) || !seen.insert(name.clone()) {
                continue;
            }
            let found = loader
                .find(name, &object, &rpath)
                .ok_or_else(|| ImageError::Library { path: object.here.clone(), library: name.clone() })?;
            queue.push(loader.take(found, &mut closure));
        }
    }
    for name in FOR_NVML.iter().filter(|_| loader.glibc) {
        // A glibc that has them all in one (2.34 or newer) still brings these as empty ones; where one is missing, nothing names it.
        if seen.insert((*name).to_owned())
            && let Some(found) =
                loader.find(name, &Object { here: PathBuf::new(), there: PathBuf::new(), program: Program::default() }, &[])
        {
            loader.take(found, &mut closure);
        }
    }
    Ok(closure)
}

/// How a loader looks for libraries.
struct Loader {
    root: PathBuf,
    name: String,
    architecture: String,
    glibc: bool,
    /// Where it looks on this machine, the configured folders first.
    folders: Vec<PathBuf>,
    /// Where it looks in an image that has no configuration.
    usual: Vec<PathBuf>,
}

/// A library that was found, and in which way.
struct Found {
    object: Object,
    /// By a folder that the object itself names: the loader will find it in the same way.
    named: bool,
}

impl Loader {
    fn new(interpreter: &Path, architecture: &str, root: &Path) -> Loader {
        let name = interpreter.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let glibc = !name.starts_with("ld-musl-");
        let (folders, usual) = if glibc {
            let usual: Vec<PathBuf> = usual_of_glibc(architecture).into_iter().map(PathBuf::from).collect();
            let mut folders = Vec::new();
            configured(root, Path::new("/etc/ld.so.conf"), 0, &mut folders);
            folders.extend(usual.iter().cloned());
            (folders, usual)
        } else {
            // musl, ldso/dynlink.c: the list in /etc/ld-musl-ARCH.path, else this one.
            let usual: Vec<PathBuf> = ["/lib", "/usr/local/lib", "/usr/lib"].map(PathBuf::from).to_vec();
            let list = rooted(root, &Path::new("/etc").join(name.replace(".so.1", ".path")));
            let folders = std::fs::read_to_string(list)
                .map(|text| text.split([':', '\n']).filter(|f| f.starts_with('/')).map(PathBuf::from).collect())
                .unwrap_or_else(|_| usual.clone());
            (folders, usual)
        };
        Loader { root: root.to_path_buf(), name, architecture: architecture.to_owned(), glibc, folders, usual }
    }

    /// The loader is itself among what programs need: under its own name, and with musl as the C library.
    fn is_itself(&self, needed: &str) -> bool {
        needed == self.name || (!self.glibc && (needed == "libc.so" || needed.starts_with("libc.musl-")))
    }

    fn find(&self, name: &str, object: &Object, rpath: &[String]) -> Option<Found> {
        if name.contains('/') {
            let object = self.object(&rooted(&self.root, Path::new(name)), Path::new(name))?;
            return Some(Found { object, named: true });
        }
        let program = &object.program;
        let named: Vec<&String> =
            if program.runpath.is_empty() { program.rpath.iter().chain(rpath).collect() } else { program.runpath.iter().collect() };
        for folder in named {
            let (here, there) = (expanded(folder, &object.here), expanded(folder, &object.there));
            // A folder beside the program is already on this machine's own paths.
            let here = if folder.starts_with('/') { rooted(&self.root, &here) } else { here };
            if let Some(object) = self.object(&here.join(name), &there.join(name)) {
                return Some(Found { object, named: true });
            }
        }
        self.folders.iter().find_map(|folder| {
            let there = folder.join(name);
            let object = self.object(&rooted(&self.root, &there), &there)?;
            Some(Found { object, named: false })
        })
    }

    /// The object in this file, if it is one for the same architecture: a loader passes over others.
    fn object(&self, here: &Path, there: &Path) -> Option<Object> {
        if !here.is_file() {
            return None;
        }
        let program = elf::read(here).ok().filter(|program| program.architecture == self.architecture)?;
        Some(Object { here: here.to_path_buf(), there: there.to_path_buf(), program })
    }

    fn take(&self, found: Found, closure: &mut Closure) -> Object {
        let object = found.object;
        closure.files.insert(object.there.clone(), object.here.clone());
        if let Some(folder) = object.there.parent()
            && !found.named
            && !self.usual.iter().any(|usual| usual == folder)
        {
            closure.unusual.insert(folder.to_path_buf());
        }
        object
    }
}

/// Where glibc looks by itself: Debian's folders by architecture, then those of everybody.
fn usual_of_glibc(architecture: &str) -> Vec<String> {
    let triplet = match architecture {
        "amd64" => "x86_64-linux-gnu",
        "arm64" => "aarch64-linux-gnu",
        "riscv64" => "riscv64-linux-gnu",
        "s390x" => "s390x-linux-gnu",
        "ppc64le" => "powerpc64le-linux-gnu",
        _ => "",
    };
    let mut folders = Vec::new();
    if !triplet.is_empty() {
        folders.extend([format!("/lib/{triplet}"), format!("/usr/lib/{triplet}")]);
    }
    folders.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(str::to_owned));
    folders
}

/// Reads a file as ldconfig(8) has it: a folder a line, `include PATTERN`, comments.
fn configured(root: &Path, path: &Path, depth: u8, into: &mut Vec<PathBuf>) {
    let Ok(text) = std::fs::read_to_string(rooted(root, path)) else { return };
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(pattern) = line.strip_prefix("include").filter(|rest| rest.starts_with(char::is_whitespace)) {
            if depth < 4 {
                let pattern = path.parent().unwrap_or(Path::new("/")).join(pattern.trim());
                for file in matching(root, &pattern) {
                    configured(root, &file, depth + 1, into);
                }
            }
        } else if line.starts_with('/') {
            into.push(PathBuf::from(line.trim_end_matches('/')));
        }
    }
}

/// The files that a pattern with one `*` in its last part names, sorted.
fn matching(root: &Path, pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name().map(|n| n.to_string_lossy().into_owned())) else {
        return Vec::new();
    };
    let Some((before, after)) = name.split_once('*') else { return vec![pattern.to_path_buf()] };
    let names = std::fs::read_dir(rooted(root, folder)).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|n| n.len() >= before.len() + after.len() && n.starts_with(before) && n.ends_with(after))
        .map(|n| folder.join(n))
        .collect();
    found.sort();
    found
}

/// `$ORIGIN` is the folder of the object that names the folder.
fn expanded(folder: &str, object: &Path) -> PathBuf {
    let origin = object.parent().unwrap_or(Path::new("/")).display().to_string();
    let path = PathBuf::from(folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
        plain
    })
}

/// An absolute path below another root.
fn rooted(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::{Closure, closure};
    use crate::cluster::image::ImageError;
    use crate::cluster::image::tiny::{AMD64, ARM64, Tiny};

    const DRALAB: &str = "/usr/local/bin/dralab";

    /// A machine with these files; the closure of its `/home/me/bin/prog`.
    fn on(files: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, Result<Closure, ImageError>) {
        let root = tempfile::tempdir().expect("a folder");
        for (path, content) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            std::fs::write(path, content).expect("written");
        }
        let found = closure(&root.path().join("home/me/bin/prog"), Path::new(DRALAB), root.path());
        (root, found)
    }

    fn paths(root: &tempfile::TempDir, closure: &Closure) -> BTreeMap<String, String> {
        let below = |path: &Path| format!("/{}", path.strip_prefix(root.path()).expect("below").display());
        closure.files.iter().map(|(there, here)| (there.display().to_string(), below(here))).collect()
    }

    fn same(found: &[&str]) -> BTreeMap<String, String> {
        found.iter().map(|path| ((*path).to_owned(), (*path).to_owned())).collect()
    }

    #[test]
    fn glibc_on_debian_with_a_library_of_a_library_in_a_configured_folder() {
        let library = |needed: &[&'static str]| Tiny { needed: needed.to_vec(), ..Tiny::library(AMD64) }.bytes();
        let (root, found) = on(&[
            (
                "/home/me/bin/prog",
                Tiny { needed: vec!["libone.so.1", "libc.so.6"], ..Tiny::program(AMD64, "/lib64/ld-linux-x86-64.so.2") }.bytes(),
            ),
            ("/lib64/ld-linux-x86-64.so.2", library(&[])),
            ("/etc/ld.so.conf", b"# all of them\ninclude /etc/ld.so.conf.d/*.conf\n".to_vec()),
            ("/etc/ld.so.conf.d/one.conf", b"/opt/one/lib/\n".to_vec()),
            ("/etc/ld.so.conf.d/other.txt", b"/opt/other\n".to_vec()),
            ("/opt/one/lib/libone.so.1", library(&["libtwo.so.2", "libc.so.6", "ld-linux-x86-64.so.2"])),
            ("/lib/x86_64-linux-gnu/libtwo.so.2", Tiny { needed: vec!["libone.so.1"], ..Tiny::library(ARM64) }.bytes()),
            ("/usr/lib/x86_64-linux-gnu/libtwo.so.2", library(&["libone.so.1"])),
            ("/lib/x86_64-linux-gnu/libc.so.6", library(&["ld-linux-x86-64.so.2"])),
            ("/lib/x86_64-linux-gnu/libdl.so.2", library(&["libc.so.6"])),
        ]);
        let found = found.expect("found");
        let expected = same(&[
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/x86_64-linux-gnu/libdl.so.2",
            "/lib64/ld-linux-x86-64.so.2",
            "/opt/one/lib/libone.so.1",
            "/usr/lib/x86_64-linux-gnu/libtwo.so.2",
        ]);
        assert_eq!(paths(&root, &found), expected);
        assert_eq!(found.unusual.iter().map(|p| p.display().to_string()).collect::<Vec<_>>(), ["/opt/one/lib"]);
        assert_eq!(found.architecture, "amd64");
    }

    #[test]
    fn a_runpath_with_origin_moves_along_with_the_program() {
        let (root, found) = on(&[
            (
                "/home/me/bin/prog",
                Tiny {
                    needed: vec!["libmine.so"],
                    runpath: Some("$ORIGIN/../lib:/store/abc/lib"),
                    ..Tiny::program(AMD64, "/store/abc/lib/ld-linux-x86-64.so.2")
                }
                .bytes(),
            ),
            ("/store/abc/lib/ld-linux-x86-64.so.2", Tiny::library(AMD64).bytes()),
            (
                "/home/me/lib/libmine.so",
                Tiny { needed: vec!["libc.so.6"], runpath: Some("/store/abc/lib"), ..Tiny::library(AMD64) }.bytes(),
            ),
            ("/store/abc/lib/libc.so.6", Tiny::library(AMD64).bytes()),
        ]);
        let found = found.expect("found");
        let mut expected = same(&["/store/abc/lib/ld-linux-x86-64.so.2", "/store/abc/lib/libc.so.6"]);
        expected.insert("/usr/local/lib/libmine.so".to_owned(), "/home/me/lib/libmine.so".to_owned());
        assert_eq!(paths(&root, &found), expected);
        assert!(found.unusual.is_empty(), "named by the objects themselves: {:?}", found.unusual);
    }

    #[test]
    fn musl_is_its_own_library_and_a_static_program_needs_nothing() {
        let musl = "/lib/ld-musl-aarch64.so.1";
        let (root, found) = on(&[
            ("/home/me/bin/prog", Tiny { needed: vec!["libgcc_s.so.1", "libc.musl-aarch64.so.1"], ..Tiny::program(ARM64, musl) }.bytes()),
            (musl, Tiny::library(ARM64).bytes()),
            ("/usr/lib/libgcc_s.so.1", Tiny { needed: vec!["libc.so"], ..Tiny::library(ARM64) }.bytes()),
        ]);
        let found = found.expect("found");
        assert_eq!(paths(&root, &found), same(&[musl, "/usr/lib/libgcc_s.so.1"]));
        assert_eq!(found.architecture, "arm64");
        let (_, found) = on(&[("/home/me/bin/prog", Tiny::library(AMD64).bytes())]);
        let found = found.expect("found");
        assert!(found.files.is_empty() && found.interpreter.is_none());
    }

    #[test]
    fn what_is_missing_is_named_with_who_needs_it() {
        let loader = "/lib64/ld-linux-x86-64.so.2";
        let prog = ("/home/me/bin/prog", Tiny { needed: vec!["libnone.so.9"], ..Tiny::program(AMD64, loader) }.bytes());
        let (_, found) = on(std::slice::from_ref(&prog));
        assert!(matches!(found, Err(ImageError::Library { library, .. }) if library == loader));
        let (_, found) = on(&[prog, (loader, Tiny::library(AMD64).bytes())]);
        let error = found.expect_err("missing");
        assert!(
            matches!(&error, ImageError::Library { library, path } if library == "libnone.so.9" && path.ends_with("bin/prog")),
            "{error}"
        );
    }

    /// The loader of this machine is the judge: with the closure's copies before it, it finds everything among them.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_loader_finds_all_that_it_needs_in_the_closure() {
        let me = std::env::current_exe().expect("a path");
        for program in [Path::new("/bin/true"), me.as_path()] {
            let found = closure(program, Path::new(DRALAB), Path::new("/")).expect("found");
            let Some(interpreter) = &found.interpreter else { continue };
            if !interpreter.to_string_lossy().contains("ld-linux") {
                continue;
            }
            let copy = tempfile::tempdir().expect("a folder");
            let mut folders = std::collections::BTreeSet::new();
            for (there, here) in &found.files {
                let path = copy.path().join(there.strip_prefix("/").expect("absolute"));
                folders.insert(path.parent().expect("a parent").display().to_string());
                std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
                std::fs::copy(here, path).expect("copied");
            }
            let search = folders.into_iter().collect::<Vec<_>>().join(":");
            let list = std::process::Command::new(&found.files[interpreter])
                .args(["--inhibit-cache", "--library-path", &search, "--list"])
                .arg(program)
                .output()
                .expect("it runs");
            let list = String::from_utf8_lossy(&list.stdout).into_owned();
            let resolved: Vec<&str> = list.lines().filter_map(|line| line.split_once("=> ")).map(|(_, at)| at).collect();
            assert!(!resolved.is_empty(), "{list}");
            for at in resolved {
                // The loader itself is the one that was started.
                let itself = interpreter.file_name().is_some_and(|name| at.contains(&*name.to_string_lossy()));
                assert!(at.starts_with(&copy.path().display().to_string()) || itself, "{}: {at}", program.display());
            }
        }
    }
}
