//! Preparing over the driver's sockets, as a kubelet asks for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use crate::driver::DriverError;
use crate::driver::grpc::proto::dra_v1::dra_plugin_client::DraPluginClient;
use crate::driver::grpc::proto::dra_v1::{Claim, NodePrepareResourceResponse, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest};
use crate::driver::testing::{FakeApi, NODE, Running};

fn claim(name: &str, results: &Value, config: &Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-of-{name}")},
        "spec": {"devices": {}},
        "status": {"allocation": {"devices": {"results": results, "config": config}}},
    })
}

fn result(request: &str, device: &str) -> Value {
    json!({"request": request, "driver": "gpu.example.com", "pool": NODE, "device": device})
}

fn store(api: &FakeApi, claim: Value) {
    api.put(&format!("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{}", claim["metadata"]["name"].as_str().unwrap()), claim);
}

fn named(name: &str) -> Claim {
    Claim { namespace: "default".to_owned(), name: name.to_owned(), uid: format!("uid-of-{name}") }
}

async fn connect(socket: &Path) -> DraPluginClient<Channel> {
    let endpoint = Endpoint::try_from(format!("unix:{}", socket.display())).unwrap();
    DraPluginClient::new(endpoint.connect().await.unwrap())
}

async fn prepare(driver: &Running, names: &[&str]) -> BTreeMap<String, NodePrepareResourceResponse> {
    let claims = names.iter().map(|name| named(name)).collect();
    let request = NodePrepareResourcesRequest { claims };
    connect(&driver.dra_socket).await.node_prepare_resources(request).await.unwrap().into_inner().claims
}

async fn unprepare(driver: &Running, names: &[&str]) -> BTreeMap<String, String> {
    let claims = names.iter().map(|name| named(name)).collect();
    let request = NodeUnprepareResourcesRequest { claims };
    let answer = connect(&driver.dra_socket).await.node_unprepare_resources(request).await.unwrap().into_inner();
    answer.claims.into_iter().map(|(uid, answer)| (uid, answer.error)).collect()
}

async fn start(api: &FakeApi, folder: &Arc<TempDir>) -> Running {
    let mut driver = Running::start(api, folder, 8, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    driver
}

fn spec_file(folder: &TempDir, id: &str) -> PathBuf {
    folder.path().join(format!("cdi/k8s.gpu.example.com-gpu_{id}.json"))
}

/// The environment that each CDI device of a spec file gives.
fn environment(path: &Path) -> Vec<(String, Vec<String>)> {
    let spec: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(spec["kind"], "k8s.gpu.example.com/gpu");
    let strings = |value: &Value| value.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect();
    let devices = spec["devices"].as_array().unwrap().iter();
    devices.map(|device| (device["name"].as_str().unwrap().to_owned(), strings(&device["containerEdits"]["env"]))).collect()
}

#[tokio::test]
async fn a_claim_is_prepared_for_the_runtime_and_given_back() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    store(&api, claim("some-gpu", &json!([result("gpu", "gpu-1")]), &json!([])));
    let driver = start(&api, &folder).await;
    let answers = prepare(&driver, &["some-gpu"]).await;
    let answer = &answers["uid-of-some-gpu"];
    assert_eq!(answer.error, "");
    let device = &answer.devices[0];
    assert_eq!((device.pool_name.as_str(), device.device_name.as_str()), (NODE, "gpu-1"));
    assert_eq!(device.request_names, ["gpu"]);
    assert_eq!(device.cdi_device_ids, ["k8s.gpu.example.com/gpu=uid-of-some-gpu-gpu-1", "k8s.gpu.example.com/gpu=common"]);
    assert_eq!(
        environment(&spec_file(&folder, "uid-of-some-gpu")),
        [(
            "uid-of-some-gpu-gpu-1".to_owned(),
            [
                "GPU_DEVICE_1=gpu-1",
                "GPU_DEVICE_1_UUID=gpu-babab493-35cb-0367-015c-c8c7ac9e7055",
                "GPU_DEVICE_1_MODEL=LATEST-GPU-MODEL",
                "GPU_DEVICE_1_MEMORY=80Gi",
                "GPU_DEVICE_1_SHARING_STRATEGY=TimeSlicing",
                "GPU_DEVICE_1_TIMESLICE_INTERVAL=Default",
                "GPU_DEVICE_GPU_1_RESOURCE_CLAIM=uid-of-some-gpu",
                "DRA_ADMIN_ACCESS=false",
            ]
            .map(str::to_owned)
            .to_vec()
        )]
    );
    let common = environment(&spec_file(&folder, "common"));
    assert_eq!(common[0].1, ["DRA_RESOURCE_DRIVER_NAME=gpu.example.com", "KUBERNETES_NODE_NAME=dra-lab-worker"]);

    // Again, and with the API server gone: the same answer, from memory.
    api.set_offline(true);
    assert_eq!(prepare(&driver, &["some-gpu"]).await, answers);
    assert_eq!(unprepare(&driver, &["some-gpu", "never-seen"]).await.values().collect::<Vec<_>>(), ["", ""]);
    assert_eq!(unprepare(&driver, &["some-gpu"]).await["uid-of-some-gpu"], "");
    assert!(!spec_file(&folder, "uid-of-some-gpu").exists());
    assert!(spec_file(&folder, "common").exists());
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn each_claim_has_its_own_error_and_good_ones_are_prepared() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    store(&api, claim("good", &json!([result("gpu", "gpu-0")]), &json!([])));
    store(
        &api,
        claim("other-pool", &json!([{"request": "gpu", "driver": "gpu.example.com", "pool": "elsewhere", "device": "gpu-0"}]), &json!([])),
    );
    store(
        &api,
        claim("other-driver", &json!([{"request": "gpu", "driver": "net.example.com", "pool": NODE, "device": "gpu-0"}]), &json!([])),
    );
    store(&api, claim("unknown-device", &json!([result("gpu", "gpu-99")]), &json!([])));
    let config = json!([{"source": "FromClaim", "requests": ["gpu"], "opaque": {"driver": "gpu.example.com",
        "parameters": {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "NoSuchConfig"}}}]);
    store(&api, claim("bad-config", &json!([result("gpu", "gpu-0")]), &config));
    let mut replaced = claim("replaced", &json!([result("gpu", "gpu-0")]), &json!([]));
    replaced["metadata"]["uid"] = json!("uid-of-another");
    store(&api, replaced);
    let mut pending = claim("pending", &json!([]), &json!([]));
    pending["status"] = json!({});
    store(&api, pending);

    let driver = start(&api, &folder).await;
    let expected = [
        ("good", ""),
        (
            "other-pool",
            "error preparing devices for claim uid-of-other-pool: request \"gpu\": device \"gpu-0\" is in pool \"elsewhere\", this node has pool \"dra-lab-worker\"",
        ),
        (
            "other-driver",
            "error preparing devices for claim uid-of-other-driver: claim default/other-driver has no device of driver gpu.example.com",
        ),
        (
            "unknown-device",
            "error preparing devices for claim uid-of-unknown-device: request \"gpu\": allocated device \"gpu-99\" is not on this node",
        ),
        (
            "bad-config",
            "error preparing devices for claim uid-of-bad-config: prepare failed: error getting opaque device configs: error decoding config parameters: no kind \"NoSuchConfig\" is registered for version \"gpu.resource.example.com/v1alpha1\"",
        ),
        (
            "replaced",
            "error preparing devices for claim uid-of-replaced: claim default/replaced got replaced: expected uid uid-of-replaced, got uid-of-another",
        ),
        ("pending", "error preparing devices for claim uid-of-pending: claim default/pending not allocated"),
        ("missing", "retrieve claim default/missing: \"missing\" not found"),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let answers = prepare(&driver, &names).await;
    assert_eq!(answers.len(), expected.len());
    for (name, error) in expected {
        assert_eq!(answers[&format!("uid-of-{name}")].error, error);
        assert_eq!(spec_file(&folder, &format!("uid-of-{name}")).exists(), error.is_empty(), "{name}");
    }
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn configuration_admin_access_and_shares_reach_the_container() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let sharing = |sharing: Value| json!({"driver": "gpu.example.com", "parameters": {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig", "sharing": sharing}});
    let config = json!([
        {"source": "FromClass", "requests": ["one", "two"], "opaque": sharing(json!({"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": 2}}))},
        {"source": "FromClaim", "requests": ["two"], "opaque": sharing(json!({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}))},
    ]);
    let mut admin = result("admin", "gpu-0");
    admin["adminAccess"] = json!(true);
    let share = |id: &str| {
        let mut share = result("two/small", "gpu-3");
        share["shareID"] = json!(id);
        share["consumedCapacity"] = json!({"memory": "10Gi"});
        share
    };
    store(&api, claim("c", &json!([result("one", "gpu-0"), admin, share("s-1"), share("s-2")]), &config));
    let driver = start(&api, &folder).await;
    let answers = prepare(&driver, &["c"]).await;
    let devices = &answers["uid-of-c"].devices;
    let shares: Vec<_> = devices.iter().map(|device| (device.request_names[0].as_str(), device.share_id.as_deref())).collect();
    assert_eq!(shares, [("one", None), ("admin", None), ("two", Some("s-1")), ("two", Some("s-2"))], "without subrequests");
    let environment = environment(&spec_file(&folder, "uid-of-c"));
    let names: Vec<&str> = environment.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["uid-of-c-gpu-0", "uid-of-c-gpu-0-1", "uid-of-c-gpu-3", "uid-of-c-gpu-3-1"]);
    for (at, line) in [
        (0, "GPU_DEVICE_0_PARTITION_COUNT=2"),
        (0, "DRA_ADMIN_ACCESS=false"),
        (1, "GPU_DEVICE_0_SHARING_STRATEGY=TimeSlicing"),
        (1, "DRA_ADMIN_ACCESS=true"),
        (2, "GPU_DEVICE_3_TIMESLICE_INTERVAL=Long"),
        (3, "GPU_DEVICE_3_MEMORY=10Gi"),
    ] {
        assert!(environment[at].1.iter().any(|found| found == line), "{line} in {:?}", environment[at]);
    }
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn a_restart_knows_what_is_prepared_and_a_reboot_has_the_specs_written_again() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    store(&api, claim("c", &json!([result("gpu", "gpu-2")]), &json!([])));
    let driver = start(&api, &folder).await;
    let answers = prepare(&driver, &["c"]).await;
    let path = spec_file(&folder, "uid-of-c");
    let spec = fs::read(&path).unwrap();
    driver.stop().await.unwrap();

    // The CDI folder is on a tmpfs: a reboot empties it. Something that no claim has is not kept.
    fs::remove_dir_all(folder.path().join("cdi")).unwrap();
    fs::create_dir(folder.path().join("cdi")).unwrap();
    fs::write(spec_file(&folder, "uid-of-gone"), "{}").unwrap();
    fs::write(folder.path().join("cdi/nvidia.json"), "{}").unwrap();
    let driver = start(&api, &folder).await;
    assert_eq!(fs::read(&path).unwrap(), spec, "written at the start, byte for byte");
    assert!(!spec_file(&folder, "uid-of-gone").exists());
    assert!(folder.path().join("cdi/nvidia.json").exists(), "other vendors' files are not ours");

    // Somebody empties the folder while the driver runs.
    fs::remove_file(&path).unwrap();
    api.set_offline(true);
    assert_eq!(prepare(&driver, &["c"]).await, answers);
    assert_eq!(fs::read(&path).unwrap(), spec);
    driver.stop().await.unwrap();

    // The device is gone when the driver comes back.
    let mut driver = Running::start(&api, &folder, 2, |config| config.publish = false);
    driver.until(|status| status.serving).await;
    let answer = prepare(&driver, &["c"]).await["uid-of-c"].error.clone();
    assert_eq!(answer, "claim uid-of-c was prepared with device \"gpu-2\", which is not on this node any more");
    assert_eq!(unprepare(&driver, &["c"]).await["uid-of-c"], "", "it can still be given back");
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn a_claim_that_was_allocated_anew_gets_its_new_device() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    store(&api, claim("c", &json!([result("gpu", "gpu-2")]), &json!([])));
    let driver = start(&api, &folder).await;
    prepare(&driver, &["c"]).await;
    // Its pod was removed by force, nobody unprepared it, and another pod has it now.
    store(&api, claim("c", &json!([result("gpu", "gpu-5")]), &json!([])));
    assert_eq!(prepare(&driver, &["c", "c"]).await["uid-of-c"].devices[0].device_name, "gpu-5");
    assert_eq!(environment(&spec_file(&folder, "uid-of-c"))[0].0, "uid-of-c-gpu-5");
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn a_damaged_checkpoint_ends_the_driver_and_is_kept() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    store(&api, claim("c", &json!([result("gpu", "gpu-2")]), &json!([])));
    let driver = start(&api, &folder).await;
    prepare(&driver, &["c"]).await;
    driver.stop().await.unwrap();
    let path = folder.path().join("plugins/gpu.example.com/checkpoint.json");
    fs::write(&path, "{").unwrap();
    let error = Running::start(&api, &folder, 8, |_| {}).end().await.expect_err("it does not start empty");
    assert!(matches!(error, DriverError::Open(_)), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{");
    assert!(spec_file(&folder, "uid-of-c").exists(), "running containers keep what they have");
    assert!(!folder.path().join("registry/gpu.example.com@reg.sock").exists(), "it never registered");
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_written_prepares_nothing() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    store(&api, claim("c", &json!([result("gpu", "gpu-2")]), &json!([])));
    let driver = start(&api, &folder).await;
    // A folder in the file's place: the rename fails, for any user.
    let path = folder.path().join("plugins/gpu.example.com/checkpoint.json");
    fs::create_dir_all(path.join("in-the-way")).unwrap();
    let error = prepare(&driver, &["c"]).await["uid-of-c"].error.clone();
    assert!(error.starts_with(&format!("checkpoint {}: ", path.display())), "{error}");
    assert!(!spec_file(&folder, "uid-of-c").exists());
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(prepare(&driver, &["c"]).await["uid-of-c"].error, "");
    driver.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_prepared_at_the_same_time_are_all_remembered() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let names: Vec<String> = (0..24).map(|index| format!("c{index}")).collect();
    for (index, name) in names.iter().enumerate() {
        store(&api, claim(name, &json!([result("gpu", &format!("gpu-{}", index % 8))]), &json!([])));
    }
    let driver = start(&api, &folder).await;
    let client = connect(&driver.dra_socket).await;
    // Each claim is asked for twice at once, and every third one is given back meanwhile.
    let calls = names.iter().enumerate().flat_map(|(index, name)| {
        let prepare = |name: &str| {
            let (mut client, request) = (client.clone(), NodePrepareResourcesRequest { claims: vec![named(name)] });
            tokio::spawn(async move {
                client.node_prepare_resources(request).await.unwrap().into_inner().claims.into_values().next().unwrap().error
            })
        };
        let mut calls = vec![prepare(name), prepare(name)];
        if index % 3 == 0 {
            let (mut client, request) = (client.clone(), NodeUnprepareResourcesRequest { claims: vec![named(name)] });
            calls.push(tokio::spawn(async move {
                client.node_unprepare_resources(request).await.unwrap().into_inner().claims.into_values().next().unwrap().error
            }));
        }
        calls
    });
    for error in futures::future::join_all(calls).await {
        let error = error.unwrap();
        assert_eq!(error, "");
    }
    let specs = || {
        let mut names: Vec<String> =
            fs::read_dir(folder.path().join("cdi")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let before = specs();
    assert!(before.len() > 16, "those that nobody gave back, and the common one: {before:?}");
    driver.stop().await.unwrap();
    // Checkpoint and specs agree: a start adds nothing and removes nothing.
    let driver = start(&api, &folder).await;
    assert_eq!(specs(), before);
    driver.stop().await.unwrap();
}
