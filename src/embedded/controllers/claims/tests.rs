use std::time::Duration;

use serde_json::json;

use super::super::testing::Lab;
use crate::embedded::api::resource::{EVENTS, PODS, RESOURCECLAIMS};
use crate::embedded::api::{ChangeKind, DeleteOptions, Object, Watch};

async fn changes(watch: &mut Watch) -> Vec<(ChangeKind, Object)> {
    let mut seen = Vec::new();
    while let Some(change) = watch.try_next() {
        seen.push((change.kind, change.object));
    }
    seen
}

#[tokio::test]
async fn a_template_gives_each_pod_a_claim_of_its_own() {
    let lab = Lab::start().await;
    lab.template("one-gpu");
    let pod = lab.pod("pod0", ("resourceClaimTemplateName", "one-gpu"));
    lab.settle().await;
    let claims = lab.list(&RESOURCECLAIMS);
    let [claim] = claims.as_slice() else { panic!("one claim, not {}", claims.len()) };
    let name = claim["metadata"]["name"].as_str().expect("a name");
    assert_eq!(name.len(), "pod0-gpu-".len() + 5);
    assert_eq!(claim["metadata"]["generateName"], "pod0-gpu-");
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "pod0", "uid": pod["metadata"]["uid"], "controller": true}]);
    assert_eq!(claim["metadata"]["ownerReferences"], owner);
    assert_eq!(claim["metadata"]["annotations"], json!({"note": "y", "resource.kubernetes.io/pod-claim-name": "gpu"}));
    assert_eq!(claim["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(claim["spec"]["devices"]["requests"][0]["exactly"]["count"], 1);
    let pod = lab.get(&PODS, "pod0").expect("the pod");
    assert_eq!(pod["status"]["resourceClaimStatuses"], json!([{"name": "gpu", "resourceClaimName": name}]));
    assert!(lab.list(&EVENTS).is_empty());
    lab.end().await;
}

#[tokio::test]
async fn a_missing_template_is_told_with_a_growing_back_off_until_it_is_there() {
    let lab = Lab::start().await;
    lab.pod("p", ("resourceClaimTemplateName", "late"));
    lab.settle().await;
    let count = || {
        let events = lab.list(&EVENTS);
        assert_eq!(events.len(), 1, "one event whose count grows");
        assert_eq!(
            events[0]["message"],
            "PodResourceClaim gpu: resource claim template \"late\": resourceclaimtemplate.resource.k8s.io \"late\" not found"
        );
        assert_eq!((&events[0]["reason"], &events[0]["type"]), (&json!("FailedResourceClaimCreation"), &json!("Warning")));
        assert_eq!(events[0]["source"], json!({"component": "resource_claim"}));
        events[0]["count"].as_i64().expect("a count")
    };
    assert_eq!(count(), 1);
    for (delay, expected) in [(4, 1), (1, 2), (9, 2), (1, 3), (20, 4)] {
        lab.advance(Duration::from_millis(delay)).await;
        assert_eq!(count(), expected);
    }
    lab.template("late");
    lab.settle().await;
    assert_eq!(lab.list(&RESOURCECLAIMS).len(), 1, "at once, without waiting for the back-off");
    lab.end().await;
}

#[tokio::test]
async fn a_claim_is_released_when_its_pod_has_ended_in_two_writes() {
    let lab = Lab::start().await;
    lab.claim("some-gpu");
    let pod = lab.pod("pod0", ("resourceClaimName", "some-gpu"));
    lab.allocate("some-gpu", &[&pod]);
    lab.settle().await;
    let mut watch = lab.api.watch(&RESOURCECLAIMS, "", lab.api.revision()).expect("a watch");
    lab.phase("pod0", "Running");
    lab.settle().await;
    assert!(changes(&mut watch).await.is_empty(), "a running pod keeps its claim");
    lab.phase("pod0", "Succeeded");
    lab.settle().await;
    let seen = changes(&mut watch).await;
    let [(_, first), (_, second)] = seen.as_slice() else { panic!("two writes, not {}", seen.len()) };
    assert_eq!(first["status"], json!({}));
    assert_eq!(first["metadata"]["finalizers"], json!(["resource.kubernetes.io/delete-protection"]));
    assert!(second["metadata"].get("finalizers").is_none());
    assert!(lab.get(&RESOURCECLAIMS, "some-gpu").is_some(), "a claim that a user made stays");
    lab.end().await;
}

#[tokio::test]
async fn a_generated_claim_goes_when_its_pod_has_ended_although_the_pod_stays() {
    let lab = Lab::start().await;
    lab.template("one-gpu");
    let pod = lab.pod("p", ("resourceClaimTemplateName", "one-gpu"));
    lab.settle().await;
    let name = lab.list(&RESOURCECLAIMS)[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    lab.allocate(&name, &[&pod]);
    lab.phase("p", "Failed");
    lab.settle().await;
    assert!(lab.list(&RESOURCECLAIMS).is_empty());
    assert!(lab.get(&PODS, "p").is_some());
    lab.end().await;
}

#[tokio::test]
async fn only_the_consumers_that_are_gone_lose_their_place() {
    let lab = Lab::start().await;
    lab.claim("shared");
    let a = lab.pod("a", ("resourceClaimName", "shared"));
    let b = lab.pod("b", ("resourceClaimName", "shared"));
    lab.allocate("shared", &[&a, &b]);
    lab.settle().await;
    lab.delete(&PODS, "a", &DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() });
    lab.settle().await;
    let claim = lab.get(&RESOURCECLAIMS, "shared").expect("the claim");
    assert_eq!(claim["status"]["reservedFor"], json!([{"resource": "pods", "name": "b", "uid": b["metadata"]["uid"]}]));
    assert!(claim["status"]["allocation"].is_object());
    // A new pod of the name is another pod.
    lab.delete(&PODS, "b", &DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() });
    lab.pod("b", ("resourceClaimName", "shared"));
    lab.settle().await;
    assert_eq!(lab.get(&RESOURCECLAIMS, "shared").expect("the claim")["status"], json!({}));
    lab.end().await;
}

#[tokio::test]
async fn an_allocation_that_nobody_ever_reserved_stays_until_the_claim_is_deleted() {
    let lab = Lab::start().await;
    lab.claim("c");
    lab.allocate("c", &[]);
    lab.settle().await;
    assert!(lab.get(&RESOURCECLAIMS, "c").expect("the claim")["status"]["allocation"].is_object());
    lab.delete(&RESOURCECLAIMS, "c", &DeleteOptions::default());
    lab.settle().await;
    assert!(lab.get(&RESOURCECLAIMS, "c").is_none());
    lab.end().await;
}

#[tokio::test]
async fn a_deleted_claim_waits_for_its_pod() {
    let lab = Lab::start().await;
    lab.claim("c");
    let pod = lab.pod("p", ("resourceClaimName", "c"));
    lab.allocate("c", &[&pod]);
    lab.delete(&RESOURCECLAIMS, "c", &DeleteOptions::default());
    lab.settle().await;
    let claim = lab.get(&RESOURCECLAIMS, "c").expect("still there");
    assert!(claim["metadata"]["deletionTimestamp"].is_string() && claim["status"]["allocation"].is_object());
    lab.phase("p", "Succeeded");
    lab.settle().await;
    assert!(lab.get(&RESOURCECLAIMS, "c").is_none());
    lab.end().await;
}

#[tokio::test]
async fn a_pod_placed_by_hand_is_reserved_once_the_claim_is_allocated() {
    let lab = Lab::start().await;
    lab.claim("c");
    let entry = json!({"name": "gpu", "resourceClaimName": "c"});
    let spec = json!({"nodeName": "n", "containers": [{"name": "ctr0", "image": "ubuntu:24.04"}], "resourceClaims": [entry]});
    let placed = lab.create(&PODS, json!({"metadata": {"name": "p"}, "spec": spec}));
    lab.settle().await;
    assert_eq!(lab.get(&RESOURCECLAIMS, "c").expect("the claim")["status"], json!({}));
    let normal = lab.pod("normal", ("resourceClaimName", "c"));
    lab.allocate("c", &[&normal]);
    lab.settle().await;
    let claim = lab.get(&RESOURCECLAIMS, "c").expect("the claim");
    let uids: Vec<_> = claim["status"]["reservedFor"].as_array().expect("consumers").iter().map(|consumer| &consumer["uid"]).collect();
    assert_eq!(uids, [&normal["metadata"]["uid"], &placed["metadata"]["uid"]]);
    lab.end().await;
}
