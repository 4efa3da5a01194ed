//! What `up` takes for clusters of several machines: images for their nodes, and a context.

use std::path::PathBuf;

use clap::Args;

/// Images for the nodes of a cluster, kind's or any other.
#[derive(Args, Clone, Debug, Default)]
pub struct ImageArgs {
    /// Image with dralab for the driver; nodes in containers get it loaded, others pull it [default: made of this program]
    #[arg(long, value_name = "IMAGE", conflicts_with = "driver_binary", help_heading = "Clusters of machines")]
    pub driver_image: Option<String>,
    /// Linux program to make the driver's image of [default: this program]
    #[arg(long, value_name = "FILE", help_heading = "Clusters of machines")]
    pub driver_binary: Option<PathBuf>,
    /// Source tree of dralab, for the engine to build the driver's image from
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["driver_image", "driver_binary"], help_heading = "Clusters of machines")]
    pub driver_source: Option<PathBuf>,
    /// Image that the lessons' pods run, loaded under the name that their manifests use [default: ubuntu:24.04]
    #[arg(long, value_name = "IMAGE", help_heading = "Clusters of machines")]
    pub workload_image: Option<String>,
    /// Leave what was made when something fails or on Ctrl-C
    #[arg(long, help_heading = "Clusters of machines")]
    pub retain: bool,
}

impl ImageArgs {
    /// The first of the flags that is set.
    #[must_use]
    pub fn first(&self) -> Option<&'static str> {
        [
            (self.driver_image.is_some(), "--driver-image"),
            (self.driver_binary.is_some(), "--driver-binary"),
            (self.driver_source.is_some(), "--driver-source"),
            (self.workload_image.is_some(), "--workload-image"),
            (self.retain, "--retain"),
        ]
        .into_iter()
        .find_map(|(set, flag)| set.then_some(flag))
    }
}

/// A cluster that was there before.
#[derive(Args, Clone, Debug, Default)]
pub struct ContextArgs {
    /// Context of a cluster that is there, Kubernetes 1.34 or newer
    #[arg(long, value_name = "NAME", conflicts_with_all = ["nodes", "port", "foreground"], help_heading = "A cluster that is there")]
    pub context: Option<String>,
    /// Kubeconfig that has the context [default: as kubectl: $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "context", help_heading = "A cluster that is there")]
    pub kubeconfig: Option<PathBuf>,
    /// Your name, where several learners share the cluster: lessons get namespaces of your own
    #[arg(long, value_name = "NAME", env = "DRALAB_LEARNER", hide_env = true, value_parser = learner_name, help_heading = "A cluster that is there")]
    pub learner: Option<String>,
    /// Run the driver on nodes with these labels only: KEY=VALUE[,KEY=VALUE]
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = label, help_heading = "A cluster that is there")]
    pub nodes_with: Vec<(String, String)>,
    /// Do not ask before installing
    #[arg(short, long, help_heading = "A cluster that is there")]
    pub yes: bool,
}

/// A learner's name becomes part of namespaces: a DNS label of at most 20 characters.
fn learner_name(text: &str) -> Result<String, String> {
    super::dns_label("a learner's name", text, 20)
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !key.contains(char::is_whitespace) => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{label, learner_name};

    #[test]
    fn names_and_labels() {
        for (name, fine) in [("ann", true), ("a-1", true), ("Ann", false), ("-a", false), ("", false), (&"a".repeat(21), false)] {
            assert_eq!(learner_name(name).is_ok(), fine, "{name}");
        }
        assert_eq!(label("gpu=").expect("an empty value is one"), ("gpu".to_owned(), String::new()));
        assert!(label("gpu").is_err() && label("=x").is_err());
    }
}
