//! `dralab explain` as a process: on a lab, on files, on standard input; its forms, and what it refuses.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, Lab, Ran, dralab};

const CLASS: &str = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.example.com}\n---\n";
const SLICE: &str = "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\nspec: {driver: gpu.example.com, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0}]}\n---\n";

fn claim(name: &str, count: u32) -> String {
    format!(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {name}, namespace: default}}\nspec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu.example.com, count: {count}}}}}]}}}}\n---\n"
    )
}

fn pod(name: &str, claim: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default}}\nspec: {{resourceClaims: [{{name: x, resourceClaimName: {claim}}}], containers: [{{name: a, image: i, command: [sleep, '100'], resources: {{claims: [{{name: x}}]}}}}]}}\n---\n"
    )
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn a_lab_explains_what_waits_and_what_it_has() {
    let lab = Lab::up(&[]);
    let file = lab.file("a.yaml", &format!("{}{}{}{}", claim("six", 6), pod("p1", "six"), claim("too-many", 6), claim("nobody", 1)));
    lab.dralab(&["apply", "-f", &file]).ok();
    let until = Instant::now() + Duration::from_secs(20);
    let has = loop {
        let ran = lab.dralab(&["explain", "claim/six", "-o", "json"]);
        if json(&ran)["verdict"]["reason"] == "DL-EXP-allocated" || Instant::now() > until {
            break ran;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let document = json(&has);
    assert_eq!((has.code, &document["apiVersion"], &document["kind"]), (0, &"dralab/v1".into(), &"Explanation".into()), "{has:?}");
    assert_eq!(
        (&document["devices"][5]["device"], &document["state"]),
        (&"gpu.example.com/dra-lab-worker/gpu-5".into(), &"allocated,reserved".into())
    );
    // The other six cannot be had: who has them, and what would help.
    lab.dralab(&["apply", "-f", &lab.file("b.yaml", &pod("p2", "too-many"))]).ok();
    let waits = lab.dralab(&["explain", "pod/p2", "--lang", "en"]);
    assert_eq!(waits.code, 3, "{waits:?}");
    for part in [
        "are in use by default/six (pod p1)",
        "[DL-EXP-devices-in-use]",
        "kubectl delete pod -n default p1",
        "Ask for 2 in the request r",
        "dra-lab-worker: does not fit (nearest)",
    ] {
        assert!(waits.stdout.contains(part), "{part:?} is not in\n{}", waits.stdout);
    }
    assert!(waits.stderr.contains("dralab explain --reason devices-in-use"), "{}", waits.stderr);
    // What it suggests is true.
    lab.dralab(&["delete", "pod/p1"]).ok();
    let until = Instant::now() + Duration::from_secs(20);
    while lab.dralab(&["explain", "claim/too-many"]).code != 0 {
        assert!(Instant::now() < until, "the pod that waited has its devices after the other is gone");
        std::thread::sleep(Duration::from_millis(50));
    }
    let nobody = lab.dralab(&["explain", "claim", "nobody", "--lang", "zh"]);
    assert!(nobody.ok().contains("还没有 Pod 使用"), "{}", nobody.stdout);
}

#[test]
fn files_and_standard_input_need_no_cluster() {
    let home = Home::new();
    let text = format!("{CLASS}{SLICE}{}{}", claim("c", 2), pod("p", "c"));
    std::fs::write(home.path().join("objects.yaml"), &text).expect("written");
    let ran = home.dralab(&["explain", "claim/c", "-f", "objects.yaml", "--lang", "en"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("asks for 2 devices; of 1 on node n1 only 1 would do"), "{}", ran.stdout);
    assert!(ran.stderr.contains("the nodes are those that slices name"), "{}", ran.stderr);
    let mut child = home
        .command(&dralab())
        .args(["explain", "pod/p", "-f", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(text.replace("count: 2", "count: 1").as_bytes()).expect("written");
    let ran = Ran::of(&child.wait_with_output().expect("it ends"));
    assert_eq!((ran.code, &json(&ran)["verdict"]["reason"]), (0, &"DL-EXP-would-fit".into()), "{ran:?}");
    // Narrow, wide, plain: no line is longer than it may be, and plain is ASCII.
    let narrow = Ran::of(
        &home
            .command(&dralab())
            .args(["explain", "claim/c", "-f", "objects.yaml", "--plain", "-o", "wide"])
            .env("COLUMNS", "50")
            .output()
            .expect("it runs"),
    );
    assert!(narrow.stdout.is_ascii() && narrow.stdout.lines().all(|line| line.len() <= 60), "{}", narrow.stdout);
}

#[test]
fn reasons_and_what_is_refused() {
    let home = Home::new();
    let list = home.dralab(&["explain", "--reasons", "--lang", "en"]);
    assert!(list.ok().lines().count() > 60 && list.stdout.contains("DL-EXP-devices-in-use"), "{}", list.stdout);
    let page = home.dralab(&["explain", "--reason", "DL-EXP-devices-in-use", "--lang", "zh"]);
    assert!(page.ok().contains("设备正在使用"), "{}", page.stdout);
    for (args, code, said) in [
        (&["explain", "--reason", "device-in-use"][..], 2, "near to it: devices-in-use"),
        (&["explain"], 2, "KIND/NAME"),
        (&["explain", "node/x", "-f", "x"], 2, "cannot read"),
        (&["explain", "claim/c"], 4, "there is no lab"),
        (&["explain", "claim/c", "--context", "nowhere"], 2, "no context \"nowhere\""),
    ] {
        let ran = home.dralab(args);
        assert!(ran.stderr.contains(said) && !ran.stderr.contains("panicked"), "{args:?}: {ran:?}");
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
    }
    std::fs::write(home.path().join("o.yaml"), CLASS).expect("written");
    let ran = home.dralab(&["explain", "node/x", "-f", "o.yaml", "-o", "json"]);
    assert_eq!((ran.code, json(&ran)["kind"].is_string()), (2, true), "{ran:?}");
    let ran = home.dralab(&["explain", "claim/x", "-f", "o.yaml"]);
    assert!(ran.code == 3 && ran.stdout.contains("There is no ResourceClaim x in namespace default"), "{ran:?}");
}
