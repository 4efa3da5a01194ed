//! The loop against the API in memory. What it decides is tested in the pure layer; here is that it is fed and that
//! its writes arrive, in order and in kube-scheduler's name.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Scheduler;
use crate::base::clock::ManualClock;
use crate::embedded::api::resource::{DEVICECLASSES, EVENTS, NAMESPACES, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES};
use crate::embedded::api::{Api, Caller, DeleteOptions, Resource, Subresource, WriteOptions};
use crate::model::features::Features;

struct Lab {
    api: Api,
    clock: ManualClock,
    shutdown: CancellationToken,
    scheduler: Option<Scheduler>,
}

impl Lab {
    fn start() -> Self {
        let clock = ManualClock::new("2026-12-01T02:00:04Z".parse::<Timestamp>().expect("a time"));
        let api = Api::in_memory(Arc::new(clock.clone()));
        let lab = Lab { api, clock, shutdown: CancellationToken::new(), scheduler: None };
        lab.create(&NAMESPACES, json!({"metadata": {"name": "n"}}));
        let node = |name: &str, labels: Value, taints: Value| {
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
                   "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}}})
        };
        let role = "node-role.kubernetes.io/control-plane";
        let mut tainted = json!({});
        tainted[role] = json!("");
        lab.create(&NODES, node("control", tainted, json!([{"key": role, "effect": "NoSchedule"}])));
        lab.create(&NODES, node("worker", json!({}), json!([])));
        lab.create(
            &RESOURCESLICES,
            json!({"metadata": {"name": "s"}, "spec": {"driver": "gpu.example.com", "nodeName": "worker",
                   "pool": {"name": "worker", "generation": 1, "resourceSliceCount": 1},
                   "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}}),
        );
        lab.create(&DEVICECLASSES, json!({"metadata": {"name": "gpu.example.com"}, "spec": {}}));
        lab
    }

    fn run(&mut self) {
        let clock = Arc::new(self.clock.clone());
        let latest = Features::latest();
        self.scheduler = Some(Scheduler::start(self.api.clone(), clock, latest, std::time::Duration::ZERO, self.shutdown.clone()));
    }

    async fn stop(&mut self) {
        self.shutdown.cancel();
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.join().await;
        }
        self.shutdown = CancellationToken::new();
    }

    fn create(&self, resource: &'static Resource, mut object: Value) {
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        let namespace = if resource.namespaced { "n" } else { "" };
        let status = object.get("status").cloned();
        let made = self.api.create(&Caller::component("tester"), resource, namespace, object, &WriteOptions::default()).expect("created");
        if let Some(status) = status.filter(|_| resource.has_status) {
            let mut made = Value::clone(&made);
            made["status"] = status;
            let name = made["metadata"]["name"].as_str().expect("a name").to_owned();
            let caller = Caller::component("tester");
            self.api
                .update(&caller, resource, Subresource::Status, namespace, &name, made, &WriteOptions::default())
                .expect("status updated");
        }
    }

    fn claim(&self, name: &str, count: i64) {
        let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": count}});
        self.create(&RESOURCECLAIMS, json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}));
    }

    fn pod(&self, name: &str, claim: &str) {
        self.create(
            &PODS,
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}],
                   "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}}),
        );
    }

    fn get(&self, resource: &'static Resource, name: &str) -> Arc<Value> {
        self.api.get(resource, "n", name).expect("it is there")
    }

    /// Waits (bounded) until the object is as wanted.
    async fn wait(&self, resource: &'static Resource, name: &str, wanted: impl Fn(&Value) -> bool) -> Arc<Value> {
        let list = self.api.list(resource, "n").expect("a list");
        let mut watch = self.api.watch(resource, "n", list.revision).expect("a watch");
        if let Some(object) = list.items.into_iter().find(|object| object["metadata"]["name"] == name && wanted(object)) {
            return object;
        }
        tokio::time::timeout(Duration::from_secs(5), async {
            loop {
                let change = watch.next().await.expect("open").expect("no gap");
                if change.object["metadata"]["name"] == name && wanted(&change.object) {
                    return change.object;
                }
            }
        })
        .await
        .expect("it comes to be so")
    }

    fn events(&self, pod: &str) -> Vec<(String, String)> {
        let events = self.api.list(&EVENTS, "n").expect("events").items;
        let about = events.iter().filter(|event| event["involvedObject"]["name"] == pod);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        about.map(|event| (text(&event["reason"]), text(&event["message"]))).collect()
    }
}

fn bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}

#[tokio::test]
async fn a_claim_goes_from_pending_to_allocated_and_reserved() {
    let mut lab = Lab::start();
    lab.run();
    lab.claim("some-gpu", 1);
    let from = lab.api.revision();
    let mut pods = lab.api.watch(&PODS, "n", from).expect("a watch");
    let mut claims = lab.api.watch(&RESOURCECLAIMS, "n", from).expect("a watch");
    lab.pod("pod0", "some-gpu");
    let mut events = lab.api.watch(&EVENTS, "n", from).expect("a watch");
    tokio::time::timeout(Duration::from_secs(5), events.next()).await.expect("an event");
    let mut seen = Vec::new();
    while let Some(change) = pods.try_next() {
        let pod = &change.object;
        seen.push((change.revision, format!("pod {} {}", pod["status"]["nominatedNodeName"], pod["spec"]["nodeName"])));
    }
    while let Some(change) = claims.try_next() {
        let claim = &change.object;
        let status = &claim["status"];
        let devices = &status["allocation"]["devices"]["results"][0]["device"];
        seen.push((change.revision, format!("claim {} {devices} {}", claim["metadata"]["finalizers"], status["reservedFor"][0]["name"])));
    }
    seen.sort();
    let lines: Vec<&str> = seen.iter().map(|(_, line)| line.as_str()).collect();
    let finalizer = r#"["resource.kubernetes.io/delete-protection"]"#;
    assert_eq!(
        lines,
        [
            "pod null null",
            "pod \"worker\" null",
            &format!("claim {finalizer} null null"),
            &format!("claim {finalizer} \"gpu-0\" \"pod0\""),
            "pod null \"worker\"",
        ]
    );
    let claim = lab.get(&RESOURCECLAIMS, "some-gpu");
    assert_eq!(claim["status"]["allocation"]["allocationTimestamp"], "2026-12-01T02:00:04Z");
    let managers: Vec<(&str, &str)> = claim["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry["manager"] == "kube-scheduler")
        .map(|entry| (entry["operation"].as_str().unwrap_or_default(), entry["subresource"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(managers, [("Update", ""), ("Update", "status")]);
    let event = lab.api.list(&EVENTS, "n").expect("events").items.remove(0);
    assert_eq!(event["message"], "Successfully assigned n/pod0 to worker");
    assert_eq!((&event["action"], &event["reportingInstance"]), (&json!("Binding"), &json!("default-scheduler-control")));
    lab.stop().await;
}

#[tokio::test]
async fn a_pod_that_does_not_fit_is_told_so_and_woken_by_the_change_that_helps() {
    let mut lab = Lab::start();
    lab.run();
    lab.claim("both", 2);
    lab.pod("first", "both");
    lab.wait(&PODS, "first", bound).await;
    lab.claim("one", 1);
    lab.pod("second", "one");
    let waiting = lab.wait(&PODS, "second", |pod| pod["status"]["conditions"].is_array()).await;
    let condition = &waiting["status"]["conditions"][0];
    let message = "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) had untolerated taint(s). \
                   preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(
        (&condition["status"], &condition["reason"], &condition["message"]),
        (&json!("False"), &json!("Unschedulable"), &json!(message))
    );
    assert_eq!(lab.events("second"), [("FailedScheduling".to_owned(), message.to_owned())]);
    // The claim is freed, as the controller does it when the pod has ended.
    let mut freed = Value::clone(&*lab.get(&RESOURCECLAIMS, "both"));
    freed["status"] = json!({});
    let caller = Caller::component("kube-controller-manager");
    lab.api.update(&caller, &RESOURCECLAIMS, Subresource::Status, "n", "both", freed, &WriteOptions::default()).expect("freed");
    lab.wait(&PODS, "second", bound).await;
    assert_eq!(lab.get(&RESOURCECLAIMS, "one")["status"]["allocation"]["devices"]["results"][0]["device"], "gpu-0");
    lab.stop().await;
}

#[tokio::test]
async fn a_restarted_scheduler_knows_what_is_taken_and_who_waits() {
    let mut lab = Lab::start();
    lab.run();
    lab.claim("a", 1);
    lab.pod("a", "a");
    lab.wait(&PODS, "a", bound).await;
    lab.stop().await;
    lab.claim("b", 1);
    lab.pod("b", "b");
    lab.claim("gone", 1);
    lab.pod("gone", "gone");
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    lab.api.delete(&Caller::component("tester"), &PODS, "n", "gone", &now).expect("deleted");
    lab.run();
    lab.wait(&PODS, "b", bound).await;
    assert_eq!(lab.get(&RESOURCECLAIMS, "b")["status"]["allocation"]["devices"]["results"][0]["device"], "gpu-1");
    assert!(lab.get(&RESOURCECLAIMS, "gone")["status"]["allocation"].is_null());
    lab.stop().await;
}
