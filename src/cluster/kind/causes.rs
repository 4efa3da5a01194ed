//! What foreign programs write when they fail, and what to do about it. One table: patterns, a stable id, the advice's text.

use crate::cluster::steps::Say;

/// A cause that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Stable id.
    pub id: &'static str,
    /// Texts that tell it; one is enough. Compared without regard to case.
    patterns: &'static [&'static str],
    /// The advice, in the catalogue.
    advice: &'static str,
}

impl Cause {
    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> Say {
        Say::new(self.advice)
    }
}

/// When nothing in the table is the cause.
pub const UNKNOWN: &str = "DL-KIND-10";

/// The causes, the specific before the general: what kubeadm or kind say last often hides what a line before says.
const CAUSES: &[Cause] = &[
    Cause { id: "DL-KIND-11", patterns: &["no space left on device", "disk quota exceeded"], advice: "kind.advice.space" },
    Cause {
        id: "DL-KIND-12",
        patterns: &["too many open files", "inotify_add_watch", "inotify watches", "failed to create fsnotify watcher"],
        advice: "kind.advice.inotify",
    },
    Cause {
        id: "DL-KIND-13",
        patterns: &["port is already allocated", "address already in use", "ports are not available", "bind: permission denied"],
        advice: "kind.advice.port",
    },
    Cause {
        id: "DL-KIND-14",
        patterns: &["kubelet is configured to not run on a host using cgroup v1", "failcgroupv1"],
        advice: "kind.advice.cgroup-v1",
    },
    Cause { id: "DL-KIND-15", patterns: &["delegate=yes", "rootless provider requires"], advice: "kind.advice.delegate" },
    Cause {
        id: "DL-KIND-16",
        patterns: &["unrecognized feature gate", "cannot set feature gate", "unknown api groups", "unknown feature gate"],
        advice: "kind.advice.gate",
    },
    Cause { id: "DL-KIND-17", patterns: &["exec format error", "no matching manifest for"], advice: "kind.advice.architecture" },
    Cause { id: "DL-KIND-18", patterns: &["toomanyrequests", "pull rate limit"], advice: "kind.advice.rate" },
    Cause {
        id: "DL-KIND-19",
        patterns: &["x509:", "proxyconnect", "proxy authentication required", "tls: failed to verify"],
        advice: "kind.advice.proxy",
    },
    Cause {
        id: "DL-KIND-20",
        patterns: &["manifest unknown", "pull access denied", "repository does not exist", "not found: manifest", "no such image"],
        advice: "kind.advice.image",
    },
    Cause {
        id: "DL-KIND-21",
        patterns: &["no such host", "temporary failure in name resolution", "network is unreachable", "i/o timeout"],
        advice: "kind.advice.network",
    },
    Cause {
        id: "DL-KIND-22",
        patterns: &[
            "non-overlapping ipv4 address pool",
            "predefined address pools have been fully subnetted",
            "pool overlaps with other one",
        ],
        advice: "kind.advice.subnet",
    },
    Cause { id: "DL-KIND-23", patterns: &["node(s) already exist for a cluster"], advice: "kind.advice.exists" },
    Cause {
        id: "DL-KIND-24",
        patterns: &["executable file not found in $path", "executable file not found in %path%"],
        advice: "kind.advice.client",
    },
    Cause {
        id: "DL-KIND-25",
        patterns: &[
            "permission denied while trying to connect to the docker",
            "dial unix /var/run/docker.sock: connect: permission denied",
        ],
        advice: "kind.advice.permission",
    },
    Cause {
        id: "DL-KIND-26",
        patterns: &[
            "cannot connect to the docker daemon",
            "is the docker daemon running",
            "connection reset by peer",
            "error during connect",
        ],
        advice: "kind.advice.engine",
    },
    Cause { id: "DL-KIND-27", patterns: &["cannot allocate memory", "signal: killed", "oom-kill"], advice: "kind.advice.memory" },
    Cause {
        id: "DL-KIND-28",
        patterns: &["unknown containerd config version", "failed to detect containerd"],
        advice: "kind.advice.old-kind",
    },
    Cause { id: "DL-KIND-29", patterns: &["config.lock: file exists"], advice: "kind.advice.lock" },
    Cause {
        id: "DL-KIND-30",
        patterns: &["failed to get rootfs info", "could not find device", "/dev/mapper"],
        advice: "kind.advice.rootfs",
    },
    Cause {
        id: "DL-KIND-31",
        patterns: &["could not find a log line that matches", "failed to mount cgroup", "failed to get cgroup", "cgroup mountpoint"],
        advice: "kind.advice.systemd",
    },
    Cause {
        id: "DL-KIND-32",
        patterns: &["failed to init node with kubeadm", "failed to join node with kubeadm", "timed out waiting for the condition"],
        advice: "kind.advice.kubeadm",
    },
];

/// The known cause that a text tells, if any.
#[must_use]
pub fn find(text: &str) -> Option<&'static Cause> {
    let text = text.to_lowercase();
    CAUSES.iter().find(|cause| cause.patterns.iter().any(|pattern| text.contains(pattern)))
}

/// All causes.
#[must_use]
pub fn all() -> &'static [Cause] {
    CAUSES
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{all, find};

    /// What kind 0.33, Docker, podman and kubeadm really write, or wrote in the issues that pain-points names.
    #[test]
    fn what_programs_write_is_told() {
        for (text, id) in [
            (
                "ERROR: failed to create cluster: failed to init node with kubeadm: command \"docker exec ...\" failed with error: exit status 1",
                "DL-KIND-32",
            ),
            (
                "E1201 server.go: \"command failed\" err=\"unrecognized feature gate: DRADeviceTaint\"\nERROR: failed to init node with kubeadm",
                "DL-KIND-16",
            ),
            (
                "ERROR: failed to create cluster: could not find a log line that matches \"Reached target .*Multi-User System.*|detected cgroup v1\"",
                "DL-KIND-31",
            ),
            ("Failed to create control group inotify object: Too many open files\ncould not find a log line that matches", "DL-KIND-12"),
            (
                "docker: Error response from daemon: driver failed programming external connectivity: Bind for 127.0.0.1:6443 failed: port is already allocated.",
                "DL-KIND-13",
            ),
            ("write /var/lib/docker/tmp: no space left on device", "DL-KIND-11"),
            (
                "ERROR: failed to create cluster: running kind with rootless provider requires setting systemd property \"Delegate=yes\"",
                "DL-KIND-15",
            ),
            ("ERROR: failed to create cluster: node(s) already exist for a cluster with the name \"dra-lab\"", "DL-KIND-23"),
            ("Error response from daemon: manifest unknown: manifest unknown", "DL-KIND-20"),
            ("standard_init_linux.go:228: exec user process caused: exec format error", "DL-KIND-17"),
            ("toomanyrequests: You have reached your pull rate limit.", "DL-KIND-18"),
            ("Get \"https://registry-1.docker.io/v2/\": x509: certificate signed by unknown authority", "DL-KIND-19"),
            (
                "Error response from daemon: could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network",
                "DL-KIND-22",
            ),
            ("failed to list nodes: exec: \"docker\": executable file not found in $PATH", "DL-KIND-24"),
            ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "DL-KIND-26"),
            ("err=\"failed to validate kubelet configuration: kubelet is configured to not run on a host using cgroup v1\"", "DL-KIND-14"),
            ("ERROR: unknown containerd config version: 4 (supported versions: 2 and 3)", "DL-KIND-28"),
            ("ERROR: failed to lock config file: open /home/me/.kube/config.lock: file exists", "DL-KIND-29"),
            ("lookup registry-1.docker.io on 10.0.0.2:53: no such host", "DL-KIND-21"),
        ] {
            assert_eq!(find(text).map(|cause| cause.id), Some(id), "{text}");
        }
        assert_eq!(find("ERROR: something new"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn ids_and_patterns_are_sound() {
        let ids: BTreeSet<_> = all().iter().map(|cause| cause.id).collect();
        assert_eq!(ids.len(), all().len());
        for cause in all() {
            assert!(cause.patterns.iter().all(|p| *p == p.to_lowercase() && !p.is_empty()), "{}", cause.id);
        }
    }
}
