//! How fast and how small `dralab driver run` is: the command as a process against an API server, asked over its socket as a
//! kubelet does.
//!
//! `cargo bench --bench driver`. The API server is the embedded lab's, or the one that `DRALAB_BENCH_KUBECONFIG` names (a bare
//! control plane is enough). `DRALAB_BENCH_OTHER` names Kubernetes' `dra-test-driver`, to be measured in the same run.
//! Figures: prepare and unprepare, resident memory before and after thousands of cycles, open files, and the time until a
//! ResourceSlice that somebody deletes or edits is as it was.

#![allow(clippy::expect_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a program for builders, not a part of dralab")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dralab::client::connect::{Proxies, by_kubeconfig};
use dralab::driver::grpc::proto::dra_v1::dra_plugin_client::DraPluginClient;
use dralab::driver::grpc::proto::dra_v1::{Claim, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tonic::transport::{Channel, Endpoint};

const NODE: &str = "driver-bench";
const WARM: usize = 50;
const CYCLES: usize = 5000;

/// A driver under measurement, killed at the end.
struct Driver {
    name: &'static str,
    device: fn(usize) -> String,
    process: Child,
    socket: PathBuf,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(program: &Path, name: &'static str, device: fn(usize) -> String, args: &[&str], kubeconfig: &Path, folder: &Path) -> Driver {
    let log = std::fs::File::create(folder.join(format!("{name}.log"))).expect("a log");
    let process = Command::new(program)
        .args(args)
        .env_clear()
        .env("HOME", folder)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the driver starts");
    let mut driver = Driver { name, device, process, socket: folder.join("plugins").join(name).join("dra.sock") };
    let begun = Instant::now();
    while std::os::unix::net::UnixStream::connect(&driver.socket).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20) && driver.process.try_wait().expect("asked").is_none(), "{name} does not serve");
        std::thread::sleep(Duration::from_millis(20));
    }
    driver
}

/// A field of `/proc/PID/status` in MiB.
fn memory(pid: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

fn open_files(pid: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).map(|link| link.display().to_string()).collect()
}

fn percentile(sorted: &[f64], part: usize) -> f64 {
    sorted[(sorted.len() * part / 100).min(sorted.len() - 1)]
}

fn show(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let [p50, p90, p99] = [50, 90, 99].map(|part| percentile(&times, part));
    println!("{what:<46} p50 {p50:>7.2}  p90 {p90:>7.2}  p99 {p99:>7.2}  max {:>7.2} ms", times[times.len() - 1]);
}

/// A claim that is allocated to a device of the driver.
async fn allocated(client: &kube::Client, driver: &Driver, index: usize) -> Claim {
    let claims: Api<ResourceClaim> = Api::namespaced(client.clone(), "default");
    let name = format!("bench-{index}-{}", driver.name.replace('.', "-"));
    // One of an earlier run.
    let _ = claims.delete(&name, &DeleteParams::default()).await;
    let request = json!({"name": "r", "exactly": {"deviceClassName": "bench"}});
    let claim = json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}});
    let claim = claims.create(&PostParams::default(), &serde_json::from_value(claim).expect("a claim")).await.expect("created");
    let result = json!({"request": "r", "driver": driver.name, "pool": NODE, "device": (driver.device)(index)});
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]});
    let allocation = json!({"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}});
    let status = json!({"status": {"allocation": allocation}});
    claims.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.expect("allocated");
    Claim { namespace: "default".to_owned(), name, uid: claim.metadata.uid.expect("a uid") }
}

async fn cycle(client: &mut DraPluginClient<Channel>, claim: &Claim) -> (f64, f64) {
    let begun = Instant::now();
    let answer = client.node_prepare_resources(NodePrepareResourcesRequest { claims: vec![claim.clone()] }).await.expect("an answer");
    let prepared = begun.elapsed();
    let error = &answer.into_inner().claims[&claim.uid].error;
    assert_eq!(error, "");
    let begun = Instant::now();
    let answer = client.node_unprepare_resources(NodeUnprepareResourcesRequest { claims: vec![claim.clone()] }).await.expect("an answer");
    let unprepared = begun.elapsed();
    let error = &answer.into_inner().claims[&claim.uid].error;
    assert_eq!(error, "");
    (prepared.as_secs_f64() * 1000.0, unprepared.as_secs_f64() * 1000.0)
}

async fn measure(client: &kube::Client, driver: &Driver, cycles: usize) {
    let pid = driver.process.id();
    let mut claims = Vec::new();
    for index in 0..4 {
        claims.push(allocated(client, driver, index).await);
    }
    let channel = Endpoint::try_from(format!("unix:{}", driver.socket.display())).expect("a path").connect().await.expect("it serves");
    let mut plugin = DraPluginClient::new(channel);
    println!("{}", driver.name);
    println!("  {:<44} {:>6.1} MiB (anonymous {:.1})", "resident at the start", memory(pid, "VmRSS:"), memory(pid, "RssAnon:"));
    for index in 0..WARM {
        cycle(&mut plugin, &claims[index % claims.len()]).await;
    }
    let before = open_files(pid).len();
    println!("  {:<44} {:>6.1} MiB (anonymous {:.1})", "resident after some prepares", memory(pid, "VmRSS:"), memory(pid, "RssAnon:"));
    let (mut prepares, mut unprepares) = (Vec::new(), Vec::new());
    for index in 0..cycles {
        let (prepared, unprepared) = cycle(&mut plugin, &claims[index % claims.len()]).await;
        prepares.push(prepared);
        unprepares.push(unprepared);
    }
    show("  prepare", prepares);
    show("  unprepare", unprepares);
    // Conditions of claims are written after the answer.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let files = open_files(pid);
    println!(
        "  {:<44} {:>6.1} MiB (anonymous {:.1}), peak {:.1}",
        format!("resident after {cycles} cycles"),
        memory(pid, "VmRSS:"),
        memory(pid, "RssAnon:"),
        memory(pid, "VmHWM:")
    );
    let inotify = files.iter().filter(|link| link.contains("inotify")).count();
    println!("  {:<44} {before} before, {} after, {inotify} of them inotify", "open files", files.len());
}

/// How long until the slice is as it was, after a change by somebody.
async fn repaired(client: &kube::Client, driver: &str) {
    let slices: Api<ResourceSlice> = Api::all(client.clone());
    let ours = ListParams::default().fields(&format!("spec.driver={driver},spec.nodeName={NODE}"));
    let first = async || slices.list(&ours).await.expect("listed").items.into_iter().next();
    let good = first().await.expect("a slice").spec;
    let (mut deleted, mut edited) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let wait = async |begun: Instant| {
            while first().await.is_none_or(|slice| slice.spec != good) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            begun.elapsed().as_secs_f64() * 1000.0
        };
        let name = first().await.and_then(|slice| slice.metadata.name).expect("a name");
        let begun = Instant::now();
        slices.delete(&name, &DeleteParams::default()).await.expect("deleted");
        deleted.push(wait(begun).await);
        let name = first().await.and_then(|slice| slice.metadata.name).expect("a name");
        let begun = Instant::now();
        slices.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"spec": {"devices": []}}))).await.expect("edited");
        edited.push(wait(begun).await);
        // More in a row is repaired later and later, on purpose.
        tokio::time::sleep(Duration::from_secs(11)).await;
    }
    show("  slice back after it was deleted", deleted);
    show("  slice back after it was edited", edited);
}

fn main() {
    let folder = tempfile::tempdir().expect("a temp dir");
    let folder = folder.path();
    let dralab = Path::new(env!("CARGO_BIN_EXE_dralab"));
    let command = |args: &[&str]| {
        let mut command = Command::new(dralab);
        command.env_clear().env("HOME", folder).env("XDG_RUNTIME_DIR", folder).args(args);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "dralab {} ended well", args.join(" "));
    };
    let given = std::env::var_os("DRALAB_BENCH_KUBECONFIG").map(PathBuf::from);
    if given.is_none() {
        command(&["up"]);
    }
    let kubeconfig = given.clone().unwrap_or_else(|| folder.join(".local/state/dralab/labs/dra-lab/kubeconfig"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = by_kubeconfig(&kubeconfig, None, &Proxies::default()).await.expect("a client");
        let nodes: Api<Node> = Api::all(client.clone());
        let node = serde_json::from_value(json!({"metadata": {"name": NODE}})).expect("a node");
        // One of an earlier run will do.
        let _ = nodes.create(&PostParams::default(), &node).await;
        let [plugins, registry, cdi] = ["plugins", "registry", "cdi"].map(|name| folder.join(name).display().to_string());
        for made in [&plugins, &registry, &cdi] {
            std::fs::create_dir_all(made).expect("a folder");
        }
        let config = kubeconfig.display().to_string();
        let args = [
            "driver",
            "run",
            "--node",
            NODE,
            "--driver-name",
            "bench.example.com",
            "--kubeconfig",
            &config,
            "--plugins-dir",
            &plugins,
            "--registry-dir",
            &registry,
            "--cdi-dir",
            &cdi,
        ];
        let ours = start(dralab, "bench.example.com", |index| format!("gpu-{index}"), &args, &kubeconfig, folder);
        tokio::time::sleep(Duration::from_secs(1)).await;
        measure(&client, &ours, CYCLES).await;
        repaired(&client, ours.name).await;
        drop(ours);
        if let Some(other) = std::env::var_os("DRALAB_BENCH_OTHER") {
            let args = [
                "kubelet-plugin",
                "--node-name",
                NODE,
                "--num-devices",
                "8",
                "--datadir",
                &plugins,
                "--plugin-registration-path",
                &registry,
                "--cdi-dir",
                &cdi,
            ];
            let other =
                start(Path::new(&other), "test-driver.cdi.k8s.io", |index| format!("device-{index:02}"), &args, &kubeconfig, folder);
            tokio::time::sleep(Duration::from_secs(1)).await;
            measure(&client, &other, CYCLES / 10).await;
        }
        let _ = nodes.delete(NODE, &DeleteParams::default()).await;
    });
    if given.is_none() {
        command(&["down", "--purge"]);
    }
}
