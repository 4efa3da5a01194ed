//! From the user's kubeconfig files to one context, flattened into a file of the lab's own. The user's files are only read.
//!
//! Merged as kubectl does it: files in order, the first one that has a name wins, files that are not there do not count, and paths are
//! relative to the file that has them. What this build does not know survives.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::base::failure::Kind;
use crate::base::nearest::levenshtein;
use crate::cluster::ClusterError;
use crate::cluster::steps::Say;

/// A context that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// A kubeconfig of this context alone, with certificates and keys in it. It holds secrets.
    pub kubeconfig: Value,
    /// The file that the context is in.
    pub file: PathBuf,
    /// The API server's address.
    pub server: String,
}

/// The files that count: one that was named, else those of `KUBECONFIG`, else `~/.kube/config`.
#[must_use]
pub fn files(named: Option<&Path>, variable: Option<&OsStr>, home: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.to_path_buf()];
    }
    if let Some(variable) = variable.filter(|v| !v.is_empty()) {
        return std::env::split_paths(variable).filter(|path| !path.as_os_str().is_empty()).collect();
    }
    home.map(|home| home.join(".kube/config")).into_iter().collect()
}

/// Finds a context in the files.
///
/// # Errors
/// When a file is not a kubeconfig, none has the context, or what it refers to cannot be read.
pub fn find(files: &[PathBuf], context: &str) -> Result<Found, ClusterError> {
    let mut documents = Vec::new();
    for path in files {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let value: Value = serde_saphyr::from_str(&text).map_err(|error| unusable(path, error.to_string().trim_end()))?;
                documents.push((path.clone(), value));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(ClusterError::file("read", path)(error)),
        }
    }
    if documents.is_empty() {
        let looked = files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        return Err(unknown(format!("there is no kubeconfig; looked for {looked}"), Vec::new()));
    }
    flatten(&documents, context, &|path| std::fs::read(path))
}

fn unusable(path: &Path, reason: &str) -> ClusterError {
    let message = format!("{} is not a kubeconfig: {reason}", path.display());
    ClusterError::Advised { message, id: "DL-CTX-01", kind: Kind::Usage, causes: Vec::new(), advice: Vec::new() }
}

fn unknown(message: String, advice: Vec<Say>) -> ClusterError {
    ClusterError::Advised { message, id: "DL-CTX-02", kind: Kind::Usage, causes: Vec::new(), advice }
}

fn items<'v>(document: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> {
    document[list].as_array().into_iter().flatten()
}

/// The entry of a list with this name, and the file that it is in.
fn named<'d>(documents: &'d [(PathBuf, Value)], list: &str, name: &str) -> Option<(&'d Path, &'d Value)> {
    documents.iter().find_map(|(path, document)| Some((path.as_path(), items(document, list).find(|item| item["name"] == name)?)))
}

/// One context of the documents as a kubeconfig of its own. `read` reads certificates and keys.
///
/// # Errors
/// As [`find`].
pub fn flatten(documents: &[(PathBuf, Value)], context: &str, read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> Result<Found, ClusterError> {
    let Some((file, entry)) = named(documents, "contexts", context) else { return Err(no_context(documents, context)) };
    let of_context = &entry["context"];
    let cluster_name = of_context["cluster"].as_str().unwrap_or_default();
    let (cluster_file, cluster) = named(documents, "clusters", cluster_name)
        .ok_or_else(|| unusable(file, &format!("its context \"{context}\" is of cluster \"{cluster_name}\", which is nowhere")))?;
    let mut cluster = cluster.clone();
    let server = cluster["cluster"]["server"].as_str().unwrap_or_default().to_owned();
    if server.is_empty() {
        return Err(unusable(cluster_file, &format!("cluster \"{cluster_name}\" has no server")));
    }
    inline(&mut cluster["cluster"], "certificate-authority", cluster_file, read)?;
    let mut users = Vec::new();
    let user_name = of_context["user"].as_str().unwrap_or_default();
    if !user_name.is_empty() {
        let (user_file, user) = named(documents, "users", user_name)
            .ok_or_else(|| unusable(file, &format!("its context \"{context}\" is of user \"{user_name}\", who is nowhere")))?;
        let mut user = user.clone();
        inline(&mut user["user"], "client-certificate", user_file, read)?;
        inline(&mut user["user"], "client-key", user_file, read)?;
        if let Some(token) = user["user"]["tokenFile"].as_str() {
            user["user"]["tokenFile"] = json!(beside(user_file, token));
        }
        // A program without a slash is looked for on the PATH.
        if let Some(command) = user["user"]["exec"]["command"].as_str().filter(|command| command.contains('/')) {
            user["user"]["exec"]["command"] = json!(beside(user_file, command));
        }
        users.push(user);
    }
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "clusters": [cluster], "users": users,
        "contexts": [entry], "current-context": context,
    });
    Ok(Found { kubeconfig, file: file.to_path_buf(), server })
}

fn no_context(documents: &[(PathBuf, Value)], context: &str) -> ClusterError {
    let mut names: Vec<&str> = documents.iter().flat_map(|(_, d)| items(d, "contexts")).filter_map(|c| c["name"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut advice = Vec::new();
    if let Some(near) = names.iter().min_by_key(|name| levenshtein(name, context)).filter(|name| levenshtein(name, context) <= 3) {
        advice.push(Say::new("context.near").with("name", *near));
    }
    let there = if names.is_empty() { "there are none".to_owned() } else { format!("there are: {}", names.join(", ")) };
    unknown(format!("no kubeconfig has a context \"{context}\"; {there}"), advice)
}

/// Puts a file's bytes in the place of its path, as `NAME-data`. Data that is there already wins, as it does for kubectl.
fn inline(holder: &mut Value, name: &str, file: &Path, read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> Result<(), ClusterError> {
    let Some(fields) = holder.as_object_mut() else { return Ok(()) };
    let path = fields.remove(name);
    let data = format!("{name}-data");
    let has_data = fields.get(&data).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if let Some(path) = path.as_ref().and_then(Value::as_str).filter(|path| !path.is_empty() && !has_data) {
        let path = beside(file, path);
        let bytes = read(&path).map_err(ClusterError::file("read", &path))?;
        fields.insert(data, json!(BASE64_STANDARD.encode(bytes)));
    }
    Ok(())
}

fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or_else(|| Path::new("/")).join(path)
}

#[cfg(test)]
mod tests {
    use super::{files, flatten};
    use crate::base::failure::{Failure, Kind};
    use serde_json::{Value, json};
    use std::ffi::OsStr;
    use std::path::{Path, PathBuf};

    #[test]
    fn the_files_are_those_that_kubectl_reads() {
        let home = Some(Path::new("/h"));
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(files(None, None, home), paths(&["/h/.kube/config"]));
        assert_eq!(files(None, Some(OsStr::new("")), home), paths(&["/h/.kube/config"]));
        assert_eq!(files(None, Some(OsStr::new("/a::/b")), home), paths(&["/a", "/b"]));
        assert_eq!(files(Some(Path::new("/c")), Some(OsStr::new("/a")), home), paths(&["/c"]));
    }

    fn documents() -> Vec<(PathBuf, Value)> {
        vec![
            (
                "/one/config".into(),
                json!({"current-context": "other", "contexts": [
                    {"name": "mine", "context": {"cluster": "c", "user": "u", "namespace": "n"}},
                    {"name": "other", "context": {"cluster": "gone", "user": "u"}}],
                    "users": [{"name": "u", "user": {"client-certificate": "cert.pem", "client-key": "/abs/key.pem", "client-key-data": "RA==",
                        "exec": {"command": "./bin/login", "args": ["x"]}, "tokenFile": "token", "unknown": 1}}]}),
            ),
            (
                "/two/config".into(),
                json!({"contexts": [{"name": "mine", "context": {"cluster": "wrong"}}],
                    "clusters": [{"name": "c", "cluster": {"server": "https://s:6443", "certificate-authority": "ca.pem", "tls-server-name": "t"}}]}),
            ),
        ]
    }

    #[test]
    fn one_context_with_all_that_it_needs() {
        let read = |path: &Path| Ok(path.display().to_string().into_bytes());
        let found = flatten(&documents(), "mine", &read).expect("found");
        assert_eq!((found.file.as_path(), found.server.as_str()), (Path::new("/one/config"), "https://s:6443"));
        let config = &found.kubeconfig;
        assert_eq!((&config["current-context"], config["contexts"].as_array().map(Vec::len)), (&json!("mine"), Some(1)));
        let data = |text: &str| {
            use base64::Engine as _;
            json!(base64::prelude::BASE64_STANDARD.encode(text))
        };
        assert_eq!(
            config["clusters"][0]["cluster"],
            json!({"server": "https://s:6443", "certificate-authority-data": data("/two/ca.pem"), "tls-server-name": "t"})
        );
        assert_eq!(
            config["users"][0]["user"],
            json!({"client-certificate-data": data("/one/cert.pem"), "client-key-data": "RA==", "exec": {"command": "/one/./bin/login", "args": ["x"]}, "tokenFile": "/one/token", "unknown": 1})
        );
        // kube reads it, and so does kubectl: JSON is YAML.
        let read = kube::config::Kubeconfig::from_yaml(&config.to_string()).expect("kube reads it");
        assert_eq!(read.current_context.as_deref(), Some("mine"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let read = |_: &Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        for (context, expected) in [
            ("mime", "no kubeconfig has a context \"mime\"; there are: mine, other"),
            ("other", "/one/config is not a kubeconfig: its context \"other\" is of cluster \"gone\", which is nowhere"),
        ] {
            let failure = Failure::from(flatten(&documents(), context, &read).expect_err("refused"));
            assert_eq!((failure.kind, failure.message.as_str()), (Kind::Usage, expected));
        }
        let failure = Failure::from(flatten(&documents(), "mine", &read).expect_err("refused"));
        assert_eq!(failure.message, "cannot read /two/ca.pem");
    }
}
