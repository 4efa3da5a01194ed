//! `doctor` as a process: without a lab, with one, with what is missing mended, and the archive.

use std::path::Path;

use crate::support::{Home, Lab, Ran, dralab};

fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

fn check<'a>(report: &'a serde_json::Value, id: &str) -> &'a serde_json::Value {
    report["checks"].as_array().and_then(|checks| checks.iter().find(|c| c["id"] == id)).unwrap_or_else(|| panic!("no {id} in {report}"))
}

#[test]
fn without_a_lab_only_the_machine_is_examined() {
    let home = Home::new();
    let listed = home.dralab(&["doctor", "--list", "--lang", "en"]);
    assert!(listed.ok().lines().any(|l| l.starts_with("DL-DOC-411") && l.contains("note-warning") && l.contains("pools complete")));
    let wrong = home.dralab(&["doctor", "DL-DOC-41"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("there is no check \"DL-DOC-41\"") && wrong.stderr.contains("near to it: DL-DOC-"), "{}", wrong.stderr);
    let nowhere =
        |args: &[&str]| Ran::of(&home.command(&dralab()).env("DOCKER_HOST", "unix:///nowhere").args(args).output().expect("it starts"));
    let report = json(&nowhere(&["doctor", "-o", "json"]));
    assert_eq!(check(&report, "DL-DOC-121")["result"], "found");
    assert_eq!(check(&report, "DL-DOC-411")["result"], "not-here");
    assert_eq!(check(&report, "DL-DOC-301")["reason"], "no such lab");
    let shown = nowhere(&["doctor", "--plain", "--lang", "en"]);
    assert!(
        shown.ok().is_ascii() && shown.stdout.contains("DL-DOC-121") && shown.stdout.contains("no cluster to examine"),
        "{}",
        shown.stdout
    );
    assert!(shown.stderr.contains("Next: dralab "), "{}", shown.stderr);
    let one = json(&nowhere(&["doctor", "dl-doc-121", "-o", "json"]));
    assert_eq!(one["checks"].as_array().map(Vec::len), Some(1));
    let context = nowhere(&["doctor", "--context", "none"]);
    assert_eq!(context.code, 2);
    assert!(context.stderr.contains("no context \"none\""), "{}", context.stderr);
}

#[test]
fn what_a_lab_lacks_is_found_and_mended() {
    let lab = Lab::up(&[]);
    let report = lab.dralab(&["doctor", "-o", "json"]);
    report.ok();
    let report = json(&report);
    for id in ["DL-DOC-304", "DL-DOC-307", "DL-DOC-401", "DL-DOC-402", "DL-DOC-403", "DL-DOC-411", "DL-DOC-431"] {
        assert_eq!(check(&report, id)["result"], "fine", "{}", check(&report, id));
    }
    // A pool that lacks a slice, a class that nobody has.
    let slice = lab.file("slice.yaml", "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\nspec: {driver: x.example.com, nodeName: dra-lab-worker, pool: {name: p, generation: 1, resourceSliceCount: 2}, devices: [{name: d}]}\n");
    lab.dralab(&["apply", "-f", &slice]).ok();
    lab.dralab(&["delete", "deviceclass/gpu.example.com"]).ok();
    let broken = lab.dralab(&["doctor", "-o", "json"]);
    assert_eq!(broken.code, 3, "{}", broken.stderr);
    let report = json(&broken);
    assert_eq!(report["worst"], "blocker");
    assert_eq!(check(&report, "DL-DOC-307")["findings"][0]["severity"], "blocker");
    assert!(check(&report, "DL-DOC-411").to_string().contains("resourceSliceCount 2, slices 1"));
    let unasked = lab.dralab(&["doctor", "--fix"]);
    assert_eq!(unasked.code, 2);
    assert!(unasked.stderr.contains("dralab doctor --fix --yes"), "{}", unasked.stderr);
    let mended = lab.dralab(&["doctor", "--fix", "--yes", "-o", "json"]);
    mended.ok();
    assert_eq!(json(&mended)["fixed"].as_array().map(Vec::len), Some(1));
    lab.dralab(&["get", "deviceclass/gpu.example.com"]).ok();
    // The archive: there, private, complete, and without the lab's token.
    let packed = lab.dralab(&["doctor", "--bundle", "b.tar"]);
    packed.ok();
    let path = lab.home.path().join("b.tar");
    let bytes = std::fs::read(&path).expect("an archive");
    let folder = lab.home.path().join(".local/state/dralab/labs/dra-lab");
    let kubeconfig = std::fs::read_to_string(folder.join("kubeconfig")).expect("a kubeconfig");
    let token = kubeconfig.lines().find_map(|l| l.trim().strip_prefix("token:")).expect("a token").trim().trim_matches('"').to_owned();
    let text = String::from_utf8_lossy(&bytes);
    assert!(token.len() > 10 && !text.contains(&token));
    assert!(text.contains("DoctorReport") && text.contains("DoctorBundle") && text.contains("x.example.com"));
    assert!(!text.contains(&lab.home.path().display().to_string()), "the home folder is shortened");
    assert_eq!(lab.dralab(&["doctor", "--bundle", "b.tar"]).code, 6);
    // A stopped lab is no fault.
    lab.dralab(&["down"]).ok();
    let stopped = lab.dralab(&["doctor", "-o", "json"]);
    stopped.ok();
    assert_eq!(check(&json(&stopped), "DL-DOC-304")["findings"][0]["severity"], "note");
    assert!(Path::new(&folder).exists());
}
