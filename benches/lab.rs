//! How long a lab takes, as its user meets it: the command as a process, several runs, minimum, median and maximum.
//!
//! `cargo bench --bench lab`. Four figures: `up` to slices published, the tour end to end, verify's verdict after the status
//! change that it waits for, and the resident memory of the lab's process with two nodes after the tour. The baseline that they
//! are paired with is `dralab version`, a process that does nothing.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program for builders, not a part of dralab")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, WatchEvent, WatchParams};

const RUNS: usize = 11;

fn dralab(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dralab"));
    command.env_clear().env("HOME", home).env("XDG_RUNTIME_DIR", home).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn run(home: &Path, args: &[&str]) -> Duration {
    let started = Instant::now();
    let status = dralab(home, args).status().expect("dralab starts");
    let took = started.elapsed();
    assert!(status.success(), "dralab {} ended with {status}", args.join(" "));
    took
}

fn show(what: &str, mut figures: Vec<f64>, unit: &str, budget: &str) {
    figures.sort_by(f64::total_cmp);
    let (low, high) = (figures[0], figures[figures.len() - 1]);
    println!("{what:<44} min {low:>8.1}  median {:>8.1}  max {high:>8.1} {unit}   {budget}", figures[figures.len() / 2]);
}

fn milliseconds(durations: &[Duration]) -> Vec<f64> {
    durations.iter().map(|d| d.as_secs_f64() * 1000.0).collect()
}

/// The resident memory of the lab's process in MiB, where the system tells it.
fn resident(home: &Path) -> Option<f64> {
    let record = std::fs::read_to_string(home.join(".local/state/dralab/labs/dra-lab/lab.json")).ok()?;
    let record: serde_json::Value = serde_json::from_str(&record).ok()?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", record["pid"])).ok()?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}

/// From the moment a watch shows the pod Running to the end of a `verify` that waited for it.
fn verify_latency(home: &Path) -> Duration {
    run(home, &["lesson", "reset", "some-gpu"]);
    let work = home.join(".local/state/dralab/labs/dra-lab/lessons/01-some-gpu");
    run(home, &["apply", "-f", &work.join("claim.yaml").display().to_string()]);
    run(home, &["verify", "some-gpu"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let config = home.join(".local/state/dralab/labs/dra-lab/kubeconfig");
        let client =
            dralab::client::connect::by_kubeconfig(&config, None, &dralab::client::connect::Proxies::default()).await.expect("a client");
        let pods: Api<Pod> = Api::namespaced(client, "dra-tutorial");
        let mut changes = pods.watch(&WatchParams::default(), "0").await.expect("a watch").boxed();
        let mut verify = dralab(home, &["verify", "some-gpu", "--timeout", "20"]).spawn().expect("dralab starts");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut apply = dralab(home, &["apply", "-f", &work.join("pod.yaml").display().to_string()]).spawn().expect("dralab starts");
        let running = loop {
            match changes.next().await {
                Some(Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod)))
                    if pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running") =>
                {
                    break Instant::now();
                }
                Some(_) => {}
                None => break Instant::now(),
            }
        };
        let verdict = tokio::task::spawn_blocking(move || verify.wait().map(|status| (status, Instant::now())))
            .await
            .expect("waited")
            .expect("it ends");
        assert!(verdict.0.success(), "verify ended with {}", verdict.0);
        apply.wait().expect("it ends");
        verdict.1.saturating_duration_since(running)
    })
}

fn main() {
    let home = tempfile::tempdir().expect("a temp dir");
    let home = home.path();
    let (mut nothing, mut up, mut tour, mut verify, mut memory) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        nothing.push(run(home, &["version"]));
        up.push(run(home, &["up"]));
        run(home, &["down", "--purge"]);
        let started = Instant::now();
        run(home, &["tour"]);
        memory.extend(resident(home));
        run(home, &["down", "--purge"]);
        tour.push(started.elapsed());
    }
    run(home, &["up"]);
    for _ in 0..RUNS {
        verify.push(verify_latency(home));
    }
    run(home, &["down", "--purge"]);
    show("a process that does nothing (baseline)", milliseconds(&nothing), "ms", "");
    show("up to slices published, two nodes", milliseconds(&up), "ms", "budget 300");
    show("tour: up, lesson one, verify, and down", milliseconds(&tour), "ms", "budget 2000");
    show("verdict after the status change", milliseconds(&verify), "ms", "budget 50");
    if !memory.is_empty() {
        show("resident memory of the lab's process", memory, "MiB", "");
    }
}
