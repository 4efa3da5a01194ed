use super::*;

const NOT_SERVED: &[&str] = &["devicetaintrules"];

macro_rules! recorded {
    ($file:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!("../../../../tests/cases/discovery/", $file))).expect($file)
    };
}

fn get(path: &str, accept: &str) -> (String, Value) {
    let document = serve(path, accept, "127.0.0.1:6443").expect(path);
    (document.content_type, serde_json::from_slice(&document.body).expect("JSON"))
}

/// The recorded list without what this build does not serve.
fn trim(recorded: &Value, served: &[Value], key: &str) -> Vec<Value> {
    let names: Vec<&Value> = served.iter().map(|entry| &entry[key]).collect();
    recorded
        .as_array()
        .expect("a list")
        .iter()
        .filter(|entry| names.contains(&&entry[key]) && !NOT_SERVED.contains(&entry[key].as_str().unwrap_or_default()))
        .cloned()
        .collect()
}

#[test]
fn plain_lists_are_as_recorded() {
    for (path, recorded) in [("/api/v1", recorded!("api_v1.json")), ("/apis/resource.k8s.io/v1", recorded!("apis_resource.k8s.io_v1.json"))]
    {
        let (content_type, mut body) = get(path, "application/json");
        assert_eq!(content_type, "application/json");
        let list = body["resources"].as_array().expect("resources").clone();
        assert_eq!(list, trim(&recorded["resources"], &list, "name"), "{path}");
        body["resources"] = recorded["resources"].clone();
        assert_eq!(body, recorded, "{path}");
    }
    assert_eq!(get("/apis/resource.k8s.io", "*/*").1, recorded!("apis_resource.k8s.io.json"));
    assert_eq!(get("/api", "*/*").1["serverAddressByClientCIDRs"][0]["serverAddress"], "127.0.0.1:6443");
    assert_eq!(get("/apis", "application/json").1["groups"][2]["preferredVersion"]["groupVersion"], "resource.k8s.io/v1");
}

#[test]
fn aggregated_lists_are_as_recorded() {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    for (path, recorded) in [("/api", recorded!("api.aggregated.json")), ("/apis", recorded!("apis.aggregated.json"))] {
        let (content_type, body) = get(path, accept);
        assert_eq!(content_type, AGGREGATED);
        let group = body["items"].as_array().and_then(|items| items.last()).expect("a group");
        let list = group["versions"][0]["resources"].as_array().expect("resources").clone();
        let mut wanted = trim(&recorded["items"][0]["versions"][0]["resources"], &list, "resource");
        for entry in &mut wanted {
            let served = list.iter().find(|e| e["resource"] == entry["resource"]).expect("the same");
            match served["subresources"].as_array() {
                Some(parts) => entry["subresources"] = json!(trim(&entry["subresources"], parts, "subresource")),
                None => drop(entry.as_object_mut().and_then(|entry| entry.remove("subresources"))),
            }
        }
        assert_eq!(list, wanted, "{path}");
        assert_eq!(group["metadata"], recorded["items"][0]["metadata"]);
        assert_eq!(group["versions"][0]["freshness"], "Current");
    }
}

#[test]
fn accept_decides() {
    let cases = [
        ("", false),
        ("application/json", false),
        ("application/json, */*", false),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", true),
        ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json", false),
        ("application/vnd.kubernetes.protobuf, application/json; v=v2; g=apidiscovery.k8s.io; as=APIGroupDiscoveryList", true),
        ("application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", false),
    ];
    for (accept, wanted) in cases {
        assert_eq!(wants_aggregated(accept), wanted, "{accept}");
    }
}

#[test]
fn other_paths_are_not_discovery() {
    for path in ["/apis/nosuch.example.com/v1", "/apis/resource.k8s.io/v1beta1", "/api/v2", "/healthz", "/api/v1/pods"] {
        assert_eq!(serve(path, "*/*", "h"), None, "{path}");
    }
    assert!(get("/version", "*/*").1["gitVersion"].as_str().is_some_and(|v| v.starts_with("v1.37.2")));
}

#[test]
fn reviews_can_be_created() {
    let list = get("/apis/authorization.k8s.io/v1", "*/*").1;
    let names: Vec<&Value> = list["resources"].as_array().expect("resources").iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"]);
    assert_eq!(list["resources"][0]["verbs"], json!(["create"]));
}
