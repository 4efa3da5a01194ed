//! What a lab must offer for a lesson: workers, and devices that no claim outside the lesson has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::lessons::format::Needs;

/// The driver whose devices lessons use.
const DRIVER: &str = "gpu.example.com";

/// What a lab lacks for a lesson.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// In words: what is needed, and what is there.
    pub need: String,
    /// Pods that devices of the node with most of them free are reserved for, by namespace.
    pub held_by: BTreeMap<String, BTreeSet<String>>,
}

/// Compares needs with slices and claims. Claims of `own`, the lesson's namespace, do not count: a lesson owns it.
#[must_use]
pub fn lack(needs: &Needs, slices: &[Value], claims: &[Value], own: &str) -> Option<Lack> {
    let mut nodes: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for slice in slices.iter().filter(|s| s["spec"]["driver"] == DRIVER) {
        let pool = text(&slice["spec"]["pool"]["name"]);
        let devices = items(&slice["spec"]["devices"]).map(|d| (pool, text(&d["name"])));
        nodes.entry(text(&slice["spec"]["nodeName"])).or_default().extend(devices);
    }
    let workers = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    if workers < needs.workers {
        return Some(Lack {
            need: format!("{} with devices of {DRIVER} (the lab has {workers})", count(needs.workers, "node")),
            held_by: BTreeMap::new(),
        });
    }
    let holders: Vec<(&Value, String, (&str, &str))> = claims
        .iter()
        .filter(|c| text(&c["metadata"]["namespace"]) != own)
        .flat_map(|claim| {
            let name = format!("{}/{}", text(&claim["metadata"]["namespace"]), text(&claim["metadata"]["name"]));
            items(&claim["status"]["allocation"]["devices"]["results"])
                .filter(|r| r["driver"] == DRIVER && r["adminAccess"] != true)
                .map(move |r| (claim, name.clone(), (text(&r["pool"]), text(&r["device"]))))
        })
        .collect();
    let free = |devices: &BTreeSet<(&str, &str)>| devices.iter().filter(|d| !holders.iter().any(|(_, _, held)| held == *d)).count();
    let Some((node, devices)) = nodes.iter().max_by_key(|(_, devices)| free(devices)) else {
        return (needs.devices > 0).then(|| Lack {
            need: format!("{} of {DRIVER} (the lab has none)", count(needs.devices, "device")),
            held_by: BTreeMap::new(),
        });
    };
    let (free, all) = (free(devices), devices.len());
    if u32::try_from(free).unwrap_or(u32::MAX) >= needs.devices {
        return None;
    }
    let here: Vec<_> = holders.iter().filter(|(_, _, device)| devices.contains(device)).collect();
    let names: BTreeSet<&str> = here.iter().map(|(_, name, _)| name.as_str()).collect();
    let used = if names.is_empty() { String::new() } else { format!("; in use by {}", names.into_iter().collect::<Vec<_>>().join(", ")) };
    let mut held_by: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (claim, _, _) in here {
        let pods = items(&claim["status"]["reservedFor"]).filter(|r| r["resource"] == "pods").map(|r| text(&r["name"]).to_owned());
        held_by.entry(text(&claim["metadata"]["namespace"]).to_owned()).or_default().extend(pods);
    }
    Some(Lack {
        need: format!("{} of {DRIVER} free on one node ({node} has {free} of {all} free{used})", count(needs.devices, "device")),
        held_by,
    })
}

fn count(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Needs, lack};
    use serde_json::{Value, json};

    fn slice(node: &str, devices: usize) -> Value {
        let devices: Vec<Value> = (0..devices).map(|i| json!({"name": format!("gpu-{i}")})).collect();
        json!({"spec": {"driver": "gpu.example.com", "nodeName": node, "pool": {"name": node}, "devices": devices}})
    }

    fn claim(namespace: &str, pool: &str, device: &str) -> Value {
        let result = json!({"driver": "gpu.example.com", "pool": pool, "device": device});
        json!({"metadata": {"namespace": namespace, "name": "c"}, "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"resource": "pods", "name": "p"}]}})
    }

    #[test]
    fn devices_count_when_nobody_else_has_them() {
        let need = |devices, workers, slices: &[Value], claims: &[Value]| {
            lack(&Needs { devices, workers }, slices, claims, "own").map(|l| {
                let held = l
                    .held_by
                    .into_iter()
                    .map(|(namespace, pods)| format!("{namespace}: {}", pods.into_iter().collect::<Vec<_>>().join(" ")));
                (l.need, held.collect::<Vec<_>>().join(","))
            })
        };
        let one = [slice("a", 8)];
        assert_eq!(need(8, 1, &one, &[]), None);
        assert_eq!(need(8, 1, &one, &[claim("own", "a", "gpu-0")]), None, "the lesson's own");
        assert_eq!(need(7, 1, &one, &[claim("x", "a", "gpu-0")]), None);
        assert_eq!(
            need(8, 1, &one, &[claim("x", "a", "gpu-0")]),
            Some(("8 devices of gpu.example.com free on one node (a has 7 of 8 free; in use by x/c)".to_owned(), "x: p".to_owned()))
        );
        assert_eq!(need(8, 1, &[slice("a", 8), slice("b", 8)], &[claim("x", "a", "gpu-0")]), None, "another node has them");
        assert_eq!(
            need(9, 1, &one, &[]),
            Some(("9 devices of gpu.example.com free on one node (a has 8 of 8 free)".to_owned(), String::new()))
        );
        assert_eq!(need(1, 2, &one, &[]), Some(("2 nodes with devices of gpu.example.com (the lab has 1)".to_owned(), String::new())));
        assert_eq!(need(1, 0, &[], &[]), Some(("1 device of gpu.example.com (the lab has none)".to_owned(), String::new())));
    }
}
