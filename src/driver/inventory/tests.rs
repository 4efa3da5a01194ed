//! The built-in profiles, and what is refused in one's own.

use std::path::Path;

use k8s_openapi::api::resource::v1::Device;

use super::{Inventory, Profile, ProfileError, Simulated, SliceNames};

fn devices(profile: &str, node: &str, count: Option<u32>) -> Vec<Device> {
    let profile = Profile::load(profile).unwrap();
    Simulated::new(&profile, node, count).devices().unwrap().into_iter().map(|device| device.published).collect()
}

fn attribute(device: &Device, name: &str) -> String {
    let value = serde_json::to_value(&device.attributes.as_ref().unwrap()[name]).unwrap();
    value.as_object().unwrap().values().next().unwrap().to_string()
}

#[test]
fn the_default_profile_is_spread_over_numa_nodes_and_pcie_roots() {
    let devices = devices("default", "dra-lab-worker", None);
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6", "gpu-7"]);
    let numa: Vec<String> = devices.iter().map(|device| attribute(device, "numaNode")).collect();
    assert_eq!(numa, ["0", "0", "0", "0", "1", "1", "1", "1"]);
    let roots: Vec<String> = devices.iter().map(|device| attribute(device, "resource.kubernetes.io/pcieRoot").replace('"', "")).collect();
    let expected = ["pci0000:00", "pci0000:00", "pci0000:10", "pci0000:10", "pci0000:20", "pci0000:20", "pci0000:30", "pci0000:30"];
    assert_eq!(roots, expected);
    assert_eq!(attribute(&devices[7], "uuid"), "\"gpu-28f64f38-03ab-48fb-8aec-888b96582f59\"");
}

#[test]
fn the_recorded_profile_is_what_was_recorded() {
    let profile = Profile::load("recorded").unwrap();
    assert_eq!(profile.slice_names, SliceNames::IndexFirst);
    let devices = devices("recorded", "dra-lab-worker", None);
    assert_eq!(
        serde_json::to_value(&devices[2]).unwrap(),
        serde_json::json!({
            "name": "gpu-2",
            "attributes": {
                "driverVersion": {"version": "1.0.0"},
                "index": {"int": 2},
                "model": {"string": "LATEST-GPU-MODEL"},
                "uuid": {"string": "gpu-460be47c-e7c9-5610-2a88-b10221760c98"},
            },
            "capacity": {"compute": {"value": "100"}, "memory": {"value": "80Gi"}},
            "allowMultipleAllocations": false,
        })
    );
}

#[test]
fn derived_uuids_differ_by_node_and_index_and_never_change() {
    let uuids = |node, count| devices("default", node, Some(count)).iter().map(|device| attribute(device, "uuid")).collect::<Vec<_>>();
    let mut all = [uuids("dra-lab-worker", 12), uuids("dra-lab-worker2", 12)].concat();
    assert_eq!(all, [uuids("dra-lab-worker", 12), uuids("dra-lab-worker2", 12)].concat());
    assert_eq!(uuids("dra-lab-worker2", 1), ["\"gpu-0b0f50f3-93a7-55e9-ab14-e9ce00153f34\""]);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 24);
}

#[test]
fn a_profile_is_read_strictly_and_faults_have_their_line() {
    let good = "name: p\ndescription: d\ndevices:\n  count: 2\n  name: gpu-{index}\n";
    assert_eq!(Profile::parse(good, Path::new("p.yaml")).unwrap().name, "p");
    let cases = [
        (good.replace("count: 2", "count: two"), "line 4"),
        (good.replace("count: 2", "cuont: 2"), "line 4"),
        (good.replace("  count: 2\n", "  count: 2\n  count: 3\n"), "line 5"),
        (good.to_owned() + "  attributes:\n    index: { form: index }\n", "line 7"),
        (good.to_owned() + "  attributes:\n    index: { from: nowhere }\n", "line 7"),
        (good.to_owned() + "sliceNames: sideways\n", "line 6"),
        (good.replace("gpu-{index}", "gpu"), "expected {index} in it"),
        (good.replace("gpu-{index}", "GPU-{index}"), "expected a DNS label"),
        (good.to_owned() + "topology: { numaNodes: 0, pcieRootsPerNumaNode: 1 }\n", "at least one NUMA node"),
        (good.to_owned() + "  capacity: { memory: 80Gi, compute: lots }\n", "capacity \"compute\""),
        (good.to_owned() + "  attributes:\n    driverVersion: { version: one }\n", "attribute \"driverVersion\""),
        ("count: [".to_owned(), "p.yaml"),
    ];
    for (text, expected) in cases {
        let error = Profile::parse(&text, Path::new("p.yaml")).expect_err(&text).to_string();
        assert!(error.contains(expected) && error.contains("p.yaml"), "{expected} in {error}");
    }
    assert!(matches!(Profile::load("nonesuch"), Err(ProfileError::Unknown { .. })));
    assert!(matches!(Profile::load("./nonesuch.yaml"), Err(ProfileError::Unreadable { .. })));
}
