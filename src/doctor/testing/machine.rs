//! A sound machine with a sound lab on kind, and cases of the checks of host, tools and lab.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Case, Expected, with};
use crate::cluster::{Backend, KindRecord, LabRecord, LabSpec};
use crate::doctor::Severity::{Blocker, Note, Warning};
use crate::doctor::facts::{Disk, EngineFacts, Facts, Host, Inotify, Installed, Lab, Memory, Net, Node, Route, Tool, Tools};
use crate::doctor::{Absent, Blind};
use Expected::{Fine, Found};

const GIB: u64 = 1 << 30;

pub(super) fn host() -> Host {
    let disk = |path: &str| Ok(Disk { path: path.to_owned(), free: 100 * GIB, kind: "ext4".to_owned(), device: "/dev/sda1".to_owned() });
    Host {
        os: "linux".to_owned(),
        kernel: Ok("6.12.1".to_owned()),
        memory: Ok(Memory { total: 16 * GIB, available: 8 * GIB }),
        disks: BTreeMap::from([("state", disk("/home/me/.local/state/dralab")), ("engine", disk("/var/lib/docker"))]),
        inotify: Ok(Inotify { instances: 512, watches: 524_288 }),
        cgroup: Ok(2),
        delegated: Ok(["cpu", "memory", "pids"].map(str::to_owned).to_vec()),
        open_files: Ok(1024),
        proxies: BTreeMap::new(),
        daemon_json: Ok(None),
        docker_program: Some("/usr/bin/docker".to_owned()),
        firewalld: Ok(None),
        routes: Ok(vec![route("0.0.0.0/0", "eth0"), route("192.168.1.0/24", "eth0")]),
        kubeconfig_locks: BTreeMap::new(),
    }
}

fn route(net: &str, interface: &str) -> Route {
    Route { net: Net::parse(net).expect(net), interface: interface.to_owned() }
}

pub(super) fn engine() -> EngineFacts {
    let node = |name: &str, address: &str| Node {
        name: name.to_owned(),
        running: true,
        image: "kindest/node:v1.37.2".to_owned(),
        addresses: vec![address.to_owned()],
    };
    let networks = BTreeMap::from([("kind".to_owned(), vec![Net::parse("172.18.0.0/16").expect("a net")])]);
    EngineFacts {
        address: "unix:///var/run/docker.sock".to_owned(),
        local: true,
        name: "Docker Engine - Community".to_owned(),
        version: "29.1.3".to_owned(),
        cgroup: Some(2),
        rootless: false,
        storage: "overlay2".to_owned(),
        containerd_store: false,
        machine: "Debian GNU/Linux 12 (bookworm)".to_owned(),
        memory: 16 * GIB,
        folder: "/var/lib/docker".to_owned(),
        warnings: Vec::new(),
        proxy: None,
        networks: Ok(networks),
        clusters: Ok(BTreeMap::from([("lab".to_owned(), vec![node("lab-control-plane", "172.18.0.2"), node("lab-worker", "172.18.0.3")])])),
        with_driver: vec!["lab".to_owned()],
    }
}

pub(super) fn tools() -> Tools {
    let tool = |name: &str, version: &str| Ok(Tool { program: format!("/usr/bin/{name}"), version: version.to_owned() });
    Tools { kind: tool("kind", "v0.33.0"), kubectl: tool("kubectl", "v1.37.2") }
}

fn record(backend: Backend) -> LabRecord {
    LabRecord {
        format: 1,
        lab: "lab".to_owned(),
        backend,
        version: "0.1.0".to_owned(),
        pid: (backend == Backend::Embedded).then_some(4711),
        server: "https://127.0.0.1:6443".to_owned(),
        kubeconfig: PathBuf::from("/home/me/.local/state/dralab/labs/lab/kubeconfig"),
        spec: LabSpec::default(),
        sockets: (backend == Backend::Embedded).then(|| PathBuf::from("/run/user/1000/dralab/lab-1")),
        nodes: Vec::new(),
        kind: (backend == Backend::Kind).then(|| KindRecord { node_image: "kindest/node:v1.37.2".to_owned(), ..KindRecord::default() }),
        context: None,
    }
}

pub(super) fn lab() -> Lab {
    let class = json!({"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {"selectors": []}});
    let mut found = class.clone();
    found["metadata"]["uid"] = json!("u");
    Lab {
        name: "lab".to_owned(),
        folder: "/home/me/.local/state/dralab/labs/lab".to_owned(),
        record: Ok(record(Backend::Kind)),
        version: "0.1.0".to_owned(),
        running: false,
        kubeconfig: Ok(0o600),
        sockets: None,
        installed: Ok(vec![Installed { object: "deviceclass gpu.example.com".to_owned(), wanted: class, found: Some(found) }]),
        known: vec!["lab".to_owned()],
        leftovers: Vec::new(),
    }
}

fn host_with(change: impl FnOnce(&mut Host)) -> Facts {
    with(|f| change(&mut f.host))
}

fn engine_with(change: impl FnOnce(&mut EngineFacts)) -> Facts {
    with(|f| change(f.engine.as_mut().expect("an engine")))
}

fn lab_with(change: impl FnOnce(&mut Lab)) -> Facts {
    with(|f| change(&mut f.lab))
}

/// An embedded lab that runs.
fn embedded(change: impl FnOnce(&mut Lab)) -> Facts {
    lab_with(|lab| {
        lab.record = Ok(record(Backend::Embedded));
        lab.running = true;
        lab.sockets = Some(true);
        change(lab);
    })
}

/// A machine without a lab, on which one on kind would be made.
fn before(change: impl FnOnce(&mut Facts)) -> Facts {
    with(|f| {
        f.lab.record = Err(Blind::NotHere(Absent::NoLab));
        f.engine.as_mut().expect("an engine").clusters = Ok(BTreeMap::new());
        change(f);
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = host_cases();
    cases.extend(engine_cases());
    cases.extend(tool_cases());
    cases.extend(lab_cases());
    cases
}

fn host_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |check, name, facts, expected| cases.push(Case { check, name, facts, expected });
    let memory = |mib: u64| before(move |f| f.host.memory = Ok(Memory { total: 16 * GIB, available: mib << 20 }));
    case("DL-DOC-101", "far too little", memory(400), Found(Blocker, "available 400 MiB, needed 1408 MiB"));
    case("DL-DOC-101", "tight", memory(1200), Found(Warning, "available 1200 MiB"));
    case("DL-DOC-101", "the lab runs already", host_with(|h| h.memory = Ok(Memory { total: GIB, available: GIB / 4 })), Fine);
    case(
        "DL-DOC-101",
        "the engine's own machine",
        before(|f| {
            let engine = f.engine.as_mut().expect("an engine");
            (engine.local, engine.memory) = (false, GIB);
        }),
        Found(Blocker, "engine: available 512 MiB"),
    );
    case(
        "DL-DOC-101",
        "macOS without an engine",
        before(|f| {
            f.engine = Err(Blind::NotHere(Absent::NoEngine));
            f.host.memory = Err(Blind::NotHere(Absent::NotLinux));
        }),
        Expected::Blind,
    );
    let free = |purpose: &'static str, mib: u64| {
        before(move |f| {
            f.host.disks.get_mut(purpose).expect(purpose).as_mut().expect("a disk").free = mib << 20;
        })
    };
    case("DL-DOC-102", "no room for images", free("engine", 1000), Found(Warning, "/var/lib/docker: free 1000 MiB"));
    case("DL-DOC-102", "full", free("state", 1), Found(Blocker, "/home/me/.local/state/dralab: free 1 MiB"));
    case("DL-DOC-102", "room enough", free("engine", 4000), Fine);
    let inotify = |instances, watches, nodes| {
        with(|f| {
            f.host.inotify = Ok(Inotify { instances, watches });
            f.lab.record.as_mut().expect("a record").spec.nodes = nodes;
        })
    };
    case("DL-DOC-103", "128 instances for four nodes", inotify(128, 524_288, 3), Found(Warning, "128, needed 192"));
    case("DL-DOC-103", "128 instances for two nodes", inotify(128, 524_288, 1), Fine);
    case("DL-DOC-103", "less than kind wants", inotify(300, 100_000, 3), Found(Note, "300, needed 192"));
    case("DL-DOC-103", "few watches", inotify(512, 8192, 1), Found(Warning, "8192, needed 12288"));
    case("DL-DOC-103", "engine elsewhere", engine_with(|e| e.local = false), Expected::Blind);
    case("DL-DOC-104", "version 1", engine_with(|e| e.cgroup = Some(1)), Found(Note, "cgroup version 1"));
    case("DL-DOC-104", "no engine", with(|f| f.engine = Err(Blind::NotHere(Absent::NoEngine))), Expected::Blind);
    let rootless = |controllers: &'static [&'static str]| {
        with(|f| {
            f.engine.as_mut().expect("an engine").rootless = true;
            f.host.delegated = Ok(controllers.iter().map(|c| (*c).to_owned()).collect());
        })
    };
    case("DL-DOC-105", "no cpu", rootless(&["memory", "pids"]), Found(Blocker, "memory pids"));
    case("DL-DOC-105", "all there", rootless(&["cpuset", "cpu", "io", "memory", "pids"]), Fine);
    case(
        "DL-DOC-105",
        "version 1",
        engine_with(|e| (e.rootless, e.cgroup) = (true, Some(1))),
        Found(Blocker, "rootless, cgroup version 1"),
    );
    case("DL-DOC-106", "256", host_with(|h| h.open_files = Ok(256)), Found(Warning, "256, needed 1024"));
    let proxy = |url: &'static str, exempt: &'static str| {
        host_with(|h| {
            h.proxies = BTreeMap::from([("HTTPS_PROXY".to_owned(), url.to_owned()), ("NO_PROXY".to_owned(), exempt.to_owned())]);
        })
    };
    case("DL-DOC-107", "what is exempt", proxy("http://proxy:3128", "localhost,127.0.0.1"), Found(Note, "lacks .svc, 10.96.0.0/16"));
    case("DL-DOC-107", "on this machine", proxy("http://127.0.0.1:3128", "*"), Found(Warning, "http://127.0.0.1:3128"));
    case(
        "DL-DOC-107",
        "only NO_PROXY",
        host_with(|h| {
            h.proxies.insert("NO_PROXY".to_owned(), "x".to_owned());
        }),
        Fine,
    );
    case("DL-DOC-108", "WSL2", host_with(|h| h.kernel = Ok("6.6.87.2-microsoft-standard-WSL2".to_owned())), Found(Note, "WSL2"));
    case(
        "DL-DOC-108",
        "WSL2 with cgroup 1",
        host_with(|h| {
            h.kernel = Ok("5.15.1-microsoft-standard-WSL2".to_owned());
            h.cgroup = Ok(1);
        }),
        Found(Warning, "cgroup version: 1"),
    );
    case("DL-DOC-108", "macOS", host_with(|h| h.os = "macos".to_owned()), Expected::Blind);
    case("DL-DOC-109", "nftables", host_with(|h| h.firewalld = Ok(Some("nftables".to_owned()))), Found(Note, "FirewallBackend=nftables"));
    case("DL-DOC-109", "iptables", host_with(|h| h.firewalld = Ok(Some("iptables".to_owned()))), Fine);
    cases
}

fn engine_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |check, name, facts, expected| cases.push(Case { check, name, facts, expected });
    let silent = || Err(Blind::because("nothing answers at unix:///nowhere"));
    case("DL-DOC-121", "the lab needs it", with(|f| f.engine = silent()), Found(Blocker, "unix:///nowhere"));
    case("DL-DOC-121", "no lab needs it", before(|f| f.engine = silent()), Found(Warning, "unix:///nowhere"));
    case("DL-DOC-121", "old", engine_with(|e| e.version = "19.03.9".to_owned()), Found(Warning, "19.03.9"));
    case(
        "DL-DOC-121",
        "podman counts otherwise",
        engine_with(|e| (e.name, e.version) = ("Podman Engine".to_owned(), "5.4.0".to_owned())),
        Fine,
    );
    case("DL-DOC-122", "vfs", engine_with(|e| e.storage = "vfs".to_owned()), Found(Warning, "storage driver vfs"));
    case(
        "DL-DOC-122",
        "btrfs",
        host_with(|h| h.disks.get_mut("engine").expect("a disk").as_mut().expect("a disk").kind = "btrfs".to_owned()),
        Found(Note, "btrfs on /dev/sda1"),
    );
    case("DL-DOC-123", "containerd", engine_with(|e| e.containerd_store = true), Found(Note, "io.containerd.snapshotter.v1"));
    case("DL-DOC-124", "rootless", engine_with(|e| e.rootless = true), Found(Note, "rootless"));
    case(
        "DL-DOC-125",
        "snap",
        engine_with(|e| e.folder = "/var/snap/docker/common/var-lib-docker".to_owned()),
        Found(Note, "/var/snap/docker"),
    );
    let init = |on: bool| host_with(move |h| h.daemon_json = Ok(Some(json!({"init": on}))));
    case("DL-DOC-126", "init", init(true), Found(Blocker, "\"init\": true"));
    case("DL-DOC-126", "no init", init(false), Fine);
    case(
        "DL-DOC-126",
        "no lab in containers",
        with(|f| {
            f.purpose = Backend::Embedded;
            f.host.daemon_json = Ok(Some(json!({"init": true})));
        }),
        Found(Note, "init"),
    );
    let routed = |net: &'static str| host_with(move |h| h.routes.as_mut().expect("routes").push(route(net, "tun0")));
    case(
        "DL-DOC-127",
        "VPN on the engine's addresses",
        routed("172.16.0.0/12"),
        Found(Warning, "172.18.0.0/16 overlaps the route to 172.16.0.0/12 through tun0"),
    );
    case("DL-DOC-127", "VPN on the pods' addresses", routed("10.244.3.0/24"), Found(Note, "10.244.0.0/16: overlap"));
    case("DL-DOC-127", "VPN elsewhere", routed("10.8.0.0/16"), Fine);
    case(
        "DL-DOC-127",
        "no network left",
        engine_with(|e| {
            e.networks = Ok((0..30).map(|n| (format!("n{n}"), Vec::new())).collect());
        }),
        Found(Warning, "30 networks of about 31"),
    );
    cases
}

fn tool_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |check, name, facts, expected| cases.push(Case { check, name, facts, expected });
    let kind = |version: &'static str| with(move |f| f.tools.kind.as_mut().expect("kind").version = version.to_owned());
    case("DL-DOC-201", "too old for the image", kind("v0.31.0"), Found(Blocker, "v0.31.0, node image kindest/node:v1.37.2"));
    case("DL-DOC-201", "new enough", kind("v0.32.0"), Fine);
    case(
        "DL-DOC-201",
        "gone",
        with(|f| f.tools.kind = Err(Blind::because("cannot run /usr/bin/kind"))),
        Found(Blocker, "cannot run /usr/bin/kind"),
    );
    let kubectl = |version: &'static str| with(move |f| f.tools.kubectl.as_mut().expect("kubectl").version = version.to_owned());
    case("DL-DOC-202", "two behind", kubectl("v1.35.4"), Found(Warning, "v1.35.4"));
    case("DL-DOC-202", "one ahead", kubectl("v1.38.0"), Fine);
    cases
}

fn lab_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |check, name, facts, expected| cases.push(Case { check, name, facts, expected });
    let newer = || Err(Blind::because("its format is 9, and this build knows 1"));
    case("DL-DOC-301", "newer", lab_with(|l| l.record = newer()), Found(Blocker, "its format is 9"));
    case("DL-DOC-301", "no lab", lab_with(|l| l.record = Err(Blind::NotHere(Absent::NoLab))), Expected::Blind);
    case(
        "DL-DOC-302",
        "gone",
        lab_with(|l| l.kubeconfig = Err(Blind::because("No such file or directory"))),
        Found(Blocker, "No such file"),
    );
    case("DL-DOC-302", "readable by others", lab_with(|l| l.kubeconfig = Ok(0o644)), Found(Warning, "mode 0644"));
    let silent = || Err(Blind::because("no answer within 6 s"));
    case("DL-DOC-303", "silent", with(|f| f.cluster = silent()), Found(Blocker, "no answer within 6 s"));
    case("DL-DOC-303", "stopped", embedded(|l| l.running = false), Expected::Blind);
    case("DL-DOC-304", "stopped", embedded(|l| l.running = false), Found(Note, "process 4711: does not run"));
    case("DL-DOC-304", "another version", embedded(|l| l.version = "0.2.0".to_owned()), Found(Warning, "dralab 0.1.0"));
    case("DL-DOC-304", "no sockets", embedded(|l| l.sockets = Some(false)), Found(Blocker, "/run/user/1000/dralab/lab-1: is gone"));
    case("DL-DOC-304", "sound", embedded(|_| {}), Fine);
    let nodes = |change: fn(&mut Vec<Node>)| engine_with(|e| change(e.clusters.as_mut().expect("clusters").get_mut("lab").expect("nodes")));
    case("DL-DOC-305", "stopped", nodes(|n| n[1].running = false), Found(Blocker, "container lab-worker: does not run"));
    case(
        "DL-DOC-305",
        "gone",
        nodes(|n| {
            n.pop();
        }),
        Found(Blocker, "container lab-worker: is not there"),
    );
    case("DL-DOC-305", "embedded", embedded(|_| {}), Expected::Blind);
    case(
        "DL-DOC-306",
        "swapped",
        nodes(|n| {
            n[0].addresses = vec!["172.18.0.3".to_owned()];
            n[1].addresses = vec!["172.18.0.2".to_owned()];
        }),
        Found(Blocker, "node/lab-worker: InternalIP 172.18.0.3, its container has 172.18.0.2"),
    );
    case("DL-DOC-306", "no API", with(|f| f.cluster = silent()), Expected::Blind);
    let installed = |found: Option<Value>| lab_with(|l| l.installed.as_mut().expect("a list")[0].found = found);
    case("DL-DOC-307", "gone", installed(None), Found(Blocker, "deviceclass gpu.example.com: is not there"));
    case(
        "DL-DOC-307",
        "edited",
        installed(Some(json!({"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {"selectors": [1]}}))),
        Found(Warning, "spec.selectors: [1], wanted []"),
    );
    case("DL-DOC-308", "a folder", lab_with(|l| l.leftovers = vec!["/x/labs/old".to_owned()]), Found(Note, "/x/labs/old"));
    case("DL-DOC-308", "a cluster", engine_with(|e| e.with_driver.push("old".to_owned())), Found(Note, "kind cluster old"));
    let lock = |age: u64| {
        host_with(move |h| {
            h.kubeconfig_locks.insert("/home/me/.kube/config.lock".to_owned(), age);
        })
    };
    case("DL-DOC-309", "old", lock(4000), Found(Warning, "/home/me/.kube/config.lock: 4000 s old"));
    case("DL-DOC-309", "at work", lock(2), Fine);
    cases
}
