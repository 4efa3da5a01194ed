//! The API over HTTP in process: endpoints, refusals, forms of answers, logs.

use dralab::embedded::api::resource::{PODS, RESOURCECLAIMS};
use dralab::embedded::logs::Line;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::api_support::Lab;

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const JSON: (&str, &str) = ("content-type", "application/json");

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
    })
}

fn lab() -> Lab {
    Lab::new("2026-12-01T02:00:00Z")
}

/// Method, path, headers and body of a request, and the code and the beginning of the message of its refusal.
type Refusal<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str);

#[tokio::test]
async fn refusals_are_in_the_servers_words() {
    let lab = lab();
    lab.create(&RESOURCECLAIMS, "default", claim("good"));
    let good = format!("{CLAIMS}/good");
    let table: &[Refusal<'_>] = &[
        ("GET", "/apis/nosuch.example.com/v1", &[], "", 404, "404 page not found"),
        ("POST", "/nosuch", &[], "", 404, "404 page not found"),
        ("GET", "/apis/resource.k8s.io/v1beta1", &[], "", 404, "the server could not find the requested resource"),
        ("POST", "/apis/resource.k8s.io/v1/nosuch", &[JSON], "{}", 404, "the server could not find the requested resource"),
        ("GET", &format!("{good}/nosuch"), &[], "", 404, "the server could not find the requested resource"),
        ("PUT", &format!("{good}/nosuch"), &[JSON], "{}", 404, "the server could not find the requested resource"),
        ("GET", &format!("{CLAIMS}/nosuch"), &[], "", 404, "resourceclaims.resource.k8s.io \"nosuch\" not found"),
        ("GET", "/api/v1/namespaces/default/pods/p/attach", &[], "", 501, "pods/attach is not served: containers of an"),
        ("GET", "/api/v1/namespaces/default/pods/p/exec?command=env", &[], "", 404, "pods \"p\" not found"),
        ("POST", &good, &[JSON], "{}", 405, "the server does not allow this method on the requested resource"),
        ("POST", "/version", &[JSON], "{}", 405, "the server does not allow this method on the requested resource"),
        ("POST", "/apis/resource.k8s.io/v1/resourceclaims", &[JSON], "{}", 405, "the server does not allow this method"),
        ("GET", &good, &[("accept", "text/html")], "", 406, "406: Not Acceptable\n\nAvailable representations: application/json,"),
        ("POST", CLAIMS, &[("content-type", "text/plain")], "x", 415, "the body of the request was in an unknown format"),
        ("PATCH", &good, &[JSON], "{}", 415, "415: Unsupported Media Type"),
        (
            "PATCH",
            &good,
            &[("content-type", "application/apply-patch+yaml")],
            "{}",
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            "POST",
            &format!("{CLAIMS}?dryRun=Some"),
            &[JSON],
            "{}",
            422,
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
        ),
        (
            "GET",
            &format!("{CLAIMS}?labelSelector=a%3D%3D%3Db"),
            &[],
            "",
            400,
            "unable to parse requirement: found '=', expected: identifier",
        ),
        ("GET", &format!("{CLAIMS}?limit=x"), &[], "", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
    ];
    for (method, path, headers, body, code, message) in table {
        let answer = lab.send(method, path, headers, body).await;
        assert_eq!(answer.code, *code, "{method} {path}: {}", answer.text());
        let said = if answer.header("content-type") == "application/json" {
            let status = answer.json();
            assert_eq!((&status["kind"], status["code"].as_u64()), (&json!("Status"), Some(u64::from(*code))), "{path}");
            status["message"].as_str().unwrap().to_owned()
        } else {
            answer.text()
        };
        assert!(said.starts_with(message), "{method} {path}: {said}");
    }
}

#[tokio::test]
async fn bodies_are_bounded() {
    let lab = lab();
    let mut large = claim("large");
    large["metadata"]["annotations"] = json!({"a": "x".repeat(3 * 1024 * 1024)});
    let answer = lab.post(CLAIMS, &large).await;
    assert_eq!(answer.code, 413);
    assert_eq!(answer.json()["message"], "Request entity too large: limit is 3145728");
}

#[tokio::test]
async fn an_object_lives_over_http() {
    let lab = lab();
    let made = lab.post(&format!("{CLAIMS}?fieldManager=me"), &claim("c")).await;
    assert_eq!(made.code, 201, "{}", made.text());
    assert_eq!(made.header("cache-control"), "no-cache, private");
    let again = lab.post(CLAIMS, &claim("c")).await;
    assert_eq!((again.code, again.json()["reason"].clone()), (409, json!("AlreadyExists")));
    let merge = [("content-type", "application/merge-patch+json")];
    let path = format!("{CLAIMS}/c");
    let patched = lab.send("PATCH", &path, &merge, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
    assert_eq!((patched.code, &patched.json()["metadata"]["labels"]["a"]), (200, &json!("b")));
    let list = lab.get(&format!("{CLAIMS}?labelSelector=a=b")).await.json();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("ResourceClaimList"), 1));
    assert!(list["items"][0]["kind"].is_null(), "the list says what its items are");
    let yaml = lab.send("GET", &path, &[("accept", "application/yaml")], "").await;
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert!(yaml.text().contains("kind: ResourceClaim\n"), "{}", yaml.text());
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let table = lab.send("GET", CLAIMS, &table, "").await.json();
    assert_eq!((&table["kind"], &table["rows"][0]["cells"][1]), (&json!("Table"), &json!("pending")));
    let gone = lab.send("DELETE", &path, &[JSON], r#"{"propagationPolicy":"Background"}"#).await;
    assert_eq!((gone.code, &gone.json()["kind"]), (200, &json!("ResourceClaim")), "this registry returns the object");
    lab.post("/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "m"}})).await;
    let gone = lab.send("DELETE", "/api/v1/namespaces/default/configmaps/m", &[], "").await.json();
    assert_eq!((&gone["status"], &gone["details"]["kind"]), (&json!("Success"), &json!("configmaps")));
}

#[tokio::test]
async fn an_applied_label_can_be_given_up() {
    let lab = lab();
    let path = "/api/v1/namespaces/default/configmaps/m?fieldManager=me";
    let apply = async |labels: Value| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "labels": labels}});
        lab.send("PATCH", path, &[("content-type", "application/apply-patch+yaml")], &object.to_string()).await
    };
    let first = apply(json!({"a": "b", "c": "d"})).await;
    assert_eq!(first.code, 201, "{}", first.text());
    let one = apply(json!({"a": "b"})).await;
    assert_eq!((one.code, &one.json()["metadata"]["labels"]), (200, &json!({"a": "b"})), "{}", one.text());
    let none = apply(Value::Null).await;
    assert_eq!((none.code, &none.json()["metadata"]["labels"]), (200, &Value::Null), "{}", none.text());
    assert_eq!(none.json()["metadata"]["uid"], first.json()["metadata"]["uid"]);
}

#[tokio::test]
async fn unknown_fields_warn_or_are_refused() {
    let lab = lab();
    let mut object = claim("c");
    object["spec"]["x"] = json!(1);
    let refused = lab.post(&format!("{CLAIMS}?fieldValidation=Strict"), &object).await;
    assert_eq!(refused.code, 400, "{}", refused.text());
    assert!(refused.text().contains("strict decoding error: unknown field"), "{}", refused.text());
    let warned = lab.post(CLAIMS, &object).await;
    assert_eq!((warned.code, warned.header("warning")), (201, "299 - \"unknown field \\\"spec.x\\\"\""));
    object["metadata"]["name"] = json!("C");
    let both = lab.post(CLAIMS, &object).await;
    assert_eq!((both.code, both.header("warning").is_empty()), (422, false), "a refusal carries the warnings too");
}

fn pod(lab: &Lab, name: &str, containers: &[&str]) -> Value {
    let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name, "image": "i"})).collect();
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
    (*lab.create(&PODS, "default", pod)).clone()
}

#[tokio::test]
async fn logs_are_plain_text() {
    let lab = Lab::new("2026-12-01T02:00:00Z");
    let account = json!({"metadata": {"name": "default"}});
    lab.create(&dralab::embedded::api::resource::SERVICEACCOUNTS, "default", account);
    let uid = pod(&lab, "p", &["c"])["metadata"]["uid"].as_str().unwrap().to_owned();
    pod(&lab, "two", &["a", "b"]);
    let log = "/api/v1/namespaces/default/pods/p/log";
    assert_eq!(lab.get(log).await.code, 204, "not scheduled yet");
    lab.api.bind(&lab.caller, "default", "p", None, "node").unwrap();
    lab.api.bind(&lab.caller, "default", "two", None, "node").unwrap();
    let waiting = lab.get(log).await;
    assert_eq!(waiting.code, 400);
    assert_eq!(waiting.json()["message"], "container \"c\" in pod \"p\" is waiting to start: ContainerCreating");
    for (second, text) in ["one", "two", "three"].into_iter().enumerate() {
        let at = format!("2026-12-01T02:00:0{second}.5Z").parse().unwrap();
        lab.api.logs().append(&uid, "c", Line { at, text: text.to_owned() });
    }
    assert_eq!(lab.get(log).await.text(), "one\ntwo\nthree\n");
    assert_eq!(lab.get(log).await.header("content-type"), "text/plain");
    assert_eq!(lab.get(&format!("{log}?tailLines=1&timestamps=true")).await.text(), "2026-12-01T02:00:02.500000000Z three\n");
    assert_eq!(lab.get(&format!("{log}?limitBytes=5")).await.text(), "one\nt");
    assert_eq!(lab.get(&format!("{log}?sinceTime=2026-12-01T02:00:02Z")).await.text(), "three\n");
    assert_eq!(lab.get(&format!("{log}?previous=true")).await.code, 400);
    for (path, message) in [
        ("two/log", "a container name must be specified for pod two, choose one of: [a b]"),
        ("two/log?container=x", "container x is not valid for pod two"),
    ] {
        assert_eq!(lab.get(&format!("/api/v1/namespaces/default/pods/{path}")).await.json()["message"], message);
    }
    let path = format!("{log}?follow=true&tailLines=1");
    let followed = lab.get(&path);
    let printed = async {
        tokio::task::yield_now().await;
        let at = "2026-12-01T02:00:09Z".parse().unwrap();
        lab.api.logs().append(&uid, "c", Line { at, text: "four".to_owned() });
        tokio::task::yield_now().await;
        lab.api.logs().end(&uid, "c");
    };
    assert_eq!(tokio::join!(followed, printed).0.text(), "three\nfour\n");
}

#[tokio::test]
async fn reviews_say_yes() {
    let lab = lab();
    let review = json!({"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}});
    let answer = lab.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await;
    assert_eq!((answer.code, &answer.json()["status"]["allowed"]), (201, &json!(true)));
    let answer = lab.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.json();
    assert_eq!(answer["status"]["userInfo"]["username"], "kubernetes-admin");
}

#[tokio::test]
async fn an_eviction_and_a_binding_are_posted() {
    let lab = lab();
    lab.create(&dralab::embedded::api::resource::SERVICEACCOUNTS, "default", json!({"metadata": {"name": "default"}}));
    pod(&lab, "p", &["c"]);
    let base = "/api/v1/namespaces/default/pods/p";
    let bound = lab.post(&format!("{base}/binding"), &json!({"target": {"kind": "Node", "name": "w"}})).await;
    assert_eq!((bound.code, &bound.json()["status"]), (201, &json!("Success")), "{}", bound.text());
    assert_eq!(lab.post(&format!("{base}/binding"), &json!({"target": {"name": "w"}})).await.code, 409);
    assert_eq!(lab.post(&format!("{base}/eviction"), &json!({})).await.code, 201);
    assert_eq!(lab.get(base).await.json()["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[tokio::test]
async fn a_kube_client_works_in_process() {
    let lab = lab();
    let client = dralab::embedded::http::client(&lab.api);
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client, "default");
    let map =
        |name: &str| ConfigMap { metadata: kube::api::ObjectMeta { name: Some(name.into()), ..Default::default() }, ..Default::default() };
    let made = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(made.metadata.managed_fields.unwrap_or_default().len(), 0, "an empty object has no fields to manage");
    let applied = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"}}));
    let applied = maps.patch("b", &PatchParams::apply("me"), &applied).await.unwrap();
    assert_eq!(applied.data.unwrap()["x"], "y");
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 2);
    assert!(maps.get_opt("nosuch").await.unwrap().is_none());
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    match maps.get("a").await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 404),
        other => panic!("{other:?}"),
    }
}
