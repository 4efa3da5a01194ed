//! The generated gRPC code is committed, so that building dralab needs no protobuf compiler; this test
//! regenerates it from `assets/proto` and compares.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Proto file, name of the file that the generator makes of its package, and name in the source tree.
const FILES: &[(&str, &str, &str)] = &[
    ("dra_v1.proto", "k8s.io.kubelet.pkg.apis.dra.v1.rs", "dra_v1.rs"),
    ("dra_v1beta1.proto", "k8s.io.kubelet.pkg.apis.dra.v1beta1.rs", "dra_v1beta1.rs"),
    ("dra_health_v1.proto", "v1.rs", "dra_health_v1.rs"),
    ("dra_health_v1alpha1.proto", "v1alpha1.rs", "dra_health_v1alpha1.rs"),
    ("pluginregistration_v1.proto", "pluginregistration.rs", "pluginregistration_v1.rs"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn committed() -> PathBuf {
    root().join("src/driver/grpc/proto")
}

fn generate() -> BTreeMap<&'static str, String> {
    let out = tempfile::tempdir().expect("a temporary folder");
    let protos = root().join("assets/proto");
    let descriptors = protox::compile(FILES.iter().map(|(proto, ..)| protos.join(proto)), [&protos]).expect("the protos compile");
    tonic_prost_build::configure().btree_map(".").out_dir(out.path()).compile_fds(descriptors).expect("code is generated");
    FILES.iter().map(|(_, generated, name)| (*name, fs::read_to_string(out.path().join(generated)).expect("a generated file"))).collect()
}

#[test]
fn committed_grpc_code_is_what_the_protos_give() {
    for (name, text) in generate() {
        let committed = fs::read_to_string(committed().join(name)).unwrap_or_default();
        assert!(
            committed == text,
            "src/driver/grpc/proto/{name} is not what assets/proto gives; run `cargo test --test it -- --ignored write_grpc_code`"
        );
    }
}

#[test]
#[ignore = "writes into the source tree; run it after a change of assets/proto"]
fn write_grpc_code() {
    for (name, text) in generate() {
        fs::write(committed().join(name), text).expect("the source tree is writable");
    }
}
