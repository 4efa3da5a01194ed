//! `describe`: pod, claim, template, slice, class and node in our own layout, with the allocated device and node, which
//! kubectl's table leaves out, and what belongs to the object.

use serde_json::Value;

use crate::base::failure::Failure;
use crate::cli::app::App;
use crate::cli::args::ObjectArgs;
use crate::cli::cmd::look::{asked, event_time};
use crate::client::apply::api_of;
use crate::client::{Kind, Kinds, wait};
use crate::timeline::state;
use crate::ui::table;

/// `describe`.
///
/// # Errors
/// When the lab is not up, or there is no such object.
pub async fn run(app: &App, args: &ObjectArgs) -> Result<u8, Failure> {
    let client = app.client().await?;
    let kinds = Kinds::discover(&client).await.map_err(Failure::from)?;
    let namespace = app.namespace(args.namespace.namespace.as_deref());
    let mut first = true;
    for one in asked(&kinds, &args.what)? {
        let api = api_of(&client, one.kind, &namespace);
        let objects = match &one.name {
            Some(name) => vec![
                serde_json::to_value(api.get(name).await.map_err(|e| Failure::from(crate::client::ClientError::from(e)))?)
                    .unwrap_or_default(),
            ],
            None => wait::list(&api).await.map_err(Failure::from)?.into_iter().map(|o| one.kind.typed(o)).collect(),
        };
        for object in objects {
            if !first {
                app.terminal.line("")?;
            }
            first = false;
            let around = Around::of(&client, &kinds, &object, one.kind).await?;
            let mut page = Page::default();
            describe(&mut page, &object, one.kind, &around);
            app.terminal.write(page.text.as_bytes())?;
        }
    }
    if first {
        app.terminal.progress(app.terminal.text("get.none-in-namespace", &[("namespace", &namespace)]));
    }
    Ok(0)
}

/// What belongs to an object: its events, and the objects that it names.
struct Around {
    events: Vec<Value>,
    claims: Vec<Value>,
    slices: Vec<Value>,
    pods: Vec<Value>,
}

impl Around {
    async fn of(client: &kube::Client, kinds: &Kinds, object: &Value, kind: &Kind) -> Result<Self, Failure> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let list = async |name: &str, namespace: &str| -> Result<Vec<Value>, Failure> {
            let kind = kinds.find(name).map_err(Failure::from)?;
            Ok(wait::list(&api_of(client, kind, namespace)).await.map_err(Failure::from)?.into_iter().map(|o| kind.typed(o)).collect())
        };
        let mut around = Around { events: Vec::new(), claims: Vec::new(), slices: Vec::new(), pods: Vec::new() };
        let events_in = if namespace.is_empty() { "default" } else { namespace };
        around.events = list("events", events_in).await?;
        around.events.retain(|e| {
            e["involvedObject"]["uid"] == object["metadata"]["uid"]
                || (e["involvedObject"]["kind"] == kind.kind.as_str() && e["involvedObject"]["name"] == object["metadata"]["name"])
        });
        around.events.sort_by_key(|e| event_time(e).to_owned());
        match kind.kind.as_str() {
            "Pod" => {
                around.claims = list("resourceclaims", namespace).await?;
                around.slices = list("resourceslices", "").await?;
            }
            "ResourceClaim" => {
                around.pods = list("pods", namespace).await?;
                around.slices = list("resourceslices", "").await?;
            }
            "Node" => {
                around.slices = list("resourceslices", "").await?;
                around.slices.retain(|s| s["spec"]["nodeName"] == object["metadata"]["name"]);
                around.pods = wait::list(&kube::Api::all_with(client.clone(), &kinds.find("pods").map_err(Failure::from)?.api_resource()))
                    .await
                    .map_err(Failure::from)?;
                around.pods.retain(|p| p["spec"]["nodeName"] == object["metadata"]["name"]);
            }
            _ => {}
        }
        Ok(around)
    }
}

/// Lines of `Name:   value`, with indented parts.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn row(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            let line = format!("{}{value}", table::pad(&format!("{name}:"), 14));
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    fn head(&mut self, name: &str) {
        self.text.push_str(name);
        self.text.push_str(":\n");
    }

    fn item(&mut self, line: &str) {
        self.text.push_str("  ");
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        for line in table::render(header, rows).lines() {
            self.item(line);
        }
    }
}

fn describe(page: &mut Page, object: &Value, kind: &Kind, around: &Around) {
    let metadata = &object["metadata"];
    page.row("Name", text(&metadata["name"]));
    page.row("Namespace", text(&metadata["namespace"]));
    page.row("Kind", &kind.kind);
    page.row("Created", text(&metadata["creationTimestamp"]));
    page.row("Deleting", text(&metadata["deletionTimestamp"]));
    page.row("Labels", &pairs(&metadata["labels"]));
    let owners: Vec<String> = items(&metadata["ownerReferences"]).map(|o| format!("{}/{}", text(&o["kind"]), text(&o["name"]))).collect();
    page.row("Owner", &owners.join(", "));
    let finalizers: Vec<&str> = items(&metadata["finalizers"]).map(text).collect();
    page.row("Finalizers", &finalizers.join(", "));
    match kind.kind.as_str() {
        "Pod" => pod(page, object, around),
        "ResourceClaim" => claim(page, object, around),
        "ResourceClaimTemplate" => requests(page, &object["spec"]["spec"]),
        "ResourceSlice" => slice(page, object),
        "DeviceClass" => class(page, object),
        "Node" => node(page, object, around),
        _ => {}
    }
    if around.events.is_empty() {
        page.row("Events", "none");
    } else {
        page.head("Events");
        let rows: Vec<Vec<String>> = around
            .events
            .iter()
            .map(|e| {
                vec![
                    event_time(e).get(11..19).unwrap_or_default().to_owned(),
                    text(&e["type"]).to_owned(),
                    text(&e["reason"]).to_owned(),
                    text(&e["message"]).trim().to_owned(),
                ]
            })
            .collect();
        page.table(&["TIME", "TYPE", "REASON", "MESSAGE"], &rows);
    }
}

fn pod(page: &mut Page, object: &Value, around: &Around) {
    page.row("State", &state::of(object));
    page.row("Node", text(&object["spec"]["nodeName"]));
    page.row("IP", text(&object["status"]["podIP"]));
    for condition in items(&object["status"]["conditions"]).filter(|c| c["status"] != "True" && !text(&c["message"]).is_empty()) {
        page.row(text(&condition["type"]), &format!("{} ({})", text(&condition["message"]), text(&condition["reason"])));
    }
    page.head("Containers");
    for container in items(&object["spec"]["containers"]) {
        let status = items(&object["status"]["containerStatuses"]).find(|s| s["name"] == container["name"]);
        let state = status.and_then(|s| s["state"].as_object()).and_then(|s| s.keys().next()).map_or("waiting", String::as_str);
        let claims: Vec<String> = items(&container["resources"]["claims"]).map(|c| text(&c["name"]).to_owned()).collect();
        let uses = if claims.is_empty() { "no claims".to_owned() } else { format!("claims {}", claims.join(", ")) };
        page.item(&format!("{}: {state}, image {}, {uses}", text(&container["name"]), text(&container["image"])));
    }
    if items(&object["spec"]["resourceClaims"]).next().is_some() {
        page.head("Claims");
        let rows: Vec<Vec<String>> = items(&object["spec"]["resourceClaims"])
            .map(|entry| {
                let from_status = items(&object["status"]["resourceClaimStatuses"])
                    .find(|s| s["name"] == entry["name"])
                    .map(|s| text(&s["resourceClaimName"]));
                let name = entry["resourceClaimName"].as_str().or(from_status).unwrap_or("(not made yet)");
                let claim = around.claims.iter().find(|c| c["metadata"]["name"] == name);
                let state = claim.map_or_else(|| "not there".to_owned(), state::of);
                vec![text(&entry["name"]).to_owned(), name.to_owned(), state, claim.map(|c| devices(c, &around.slices)).unwrap_or_default()]
            })
            .collect();
        page.table(&["ENTRY", "CLAIM", "STATE", "DEVICES"], &rows);
    }
}

fn claim(page: &mut Page, object: &Value, around: &Around) {
    page.row("State", &state::of(object));
    requests(page, &object["spec"]);
    let results: Vec<Vec<String>> = items(&object["status"]["allocation"]["devices"]["results"])
        .map(|r| {
            let node = node_of(r, &around.slices).or_else(|| selected_node(object)).unwrap_or_default();
            vec![
                text(&r["request"]).to_owned(),
                text(&r["device"]).to_owned(),
                text(&r["pool"]).to_owned(),
                text(&r["driver"]).to_owned(),
                node,
            ]
        })
        .collect();
    if results.is_empty() {
        page.row("Devices", "none allocated");
    } else {
        page.row("Allocated at", text(&object["status"]["allocation"]["allocationTimestamp"]));
        page.head("Devices");
        page.table(&["REQUEST", "DEVICE", "POOL", "DRIVER", "NODE"], &results);
    }
    let reserved: Vec<String> = items(&object["status"]["reservedFor"])
        .map(|r| format!("{}/{}", text(&r["resource"]).trim_end_matches('s'), text(&r["name"])))
        .collect();
    page.row("Reserved for", if reserved.is_empty() { "nobody" } else { "" });
    if !reserved.is_empty() {
        page.row("Reserved for", &reserved.join(", "));
    }
    let name = text(&object["metadata"]["name"]);
    let named: Vec<&str> = around.pods.iter().filter(|p| names_claim(p, name)).map(|p| text(&p["metadata"]["name"])).collect();
    page.row(
        "Named by",
        &if named.is_empty() { "no pod".to_owned() } else { named.iter().map(|n| format!("pod/{n}")).collect::<Vec<_>>().join(", ") },
    );
}

fn names_claim(pod: &Value, claim: &str) -> bool {
    items(&pod["spec"]["resourceClaims"]).any(|c| c["resourceClaimName"] == claim)
        || items(&pod["status"]["resourceClaimStatuses"]).any(|c| c["resourceClaimName"] == claim)
}

fn requests(page: &mut Page, spec: &Value) {
    if items(&spec["devices"]["requests"]).next().is_none() {
        page.row("Requests", "none");
        return;
    }
    page.head("Requests");
    for request in items(&spec["devices"]["requests"]) {
        let exact = &request["exactly"];
        if exact.is_object() {
            page.item(&format!("{}: {}", text(&request["name"]), one_request(exact)));
            selectors(page, exact);
        }
        for (index, alternative) in items(&request["firstAvailable"]).enumerate() {
            page.item(&format!(
                "{}/{} (alternative {}): {}",
                text(&request["name"]),
                text(&alternative["name"]),
                index + 1,
                one_request(alternative)
            ));
            selectors(page, alternative);
        }
    }
    for constraint in items(&spec["devices"]["constraints"]) {
        for kind in ["matchAttribute", "distinctAttribute"] {
            if let Some(attribute) = constraint[kind].as_str() {
                page.item(&format!("constraint {kind} {attribute}"));
            }
        }
    }
}

fn one_request(request: &Value) -> String {
    let mode = text(&request["allocationMode"]);
    let count = if mode == "All" { "all devices".to_owned() } else { format!("{} of", request["count"].as_i64().unwrap_or(1)) };
    let admin = if request["adminAccess"] == true { ", admin access" } else { "" };
    format!("{count} class {}{admin}", text(&request["deviceClassName"]))
}

fn selectors(page: &mut Page, request: &Value) {
    for selector in items(&request["selectors"]) {
        page.item(&format!("  where {}", text(&selector["cel"]["expression"]).trim()));
    }
}

fn slice(page: &mut Page, object: &Value) {
    let spec = &object["spec"];
    page.row("Driver", text(&spec["driver"]));
    page.row("Node", spec["nodeName"].as_str().unwrap_or(if spec["allNodes"] == true { "all nodes" } else { "by selector" }));
    page.row(
        "Pool",
        &format!(
            "{}, generation {}, {} slice(s) in all",
            text(&spec["pool"]["name"]),
            spec["pool"]["generation"],
            spec["pool"]["resourceSliceCount"]
        ),
    );
    page.head("Devices");
    for device in items(&spec["devices"]) {
        let attributes: Vec<String> =
            device["attributes"].as_object().into_iter().flatten().map(|(name, value)| format!("{name}={}", first_value(value))).collect();
        let capacity: Vec<String> =
            device["capacity"].as_object().into_iter().flatten().map(|(name, value)| format!("{name} {}", text(&value["value"]))).collect();
        page.item(&format!("{}: {}", text(&device["name"]), capacity.join(", ")));
        page.item(&format!("  {}", attributes.join(" ")));
    }
}

fn class(page: &mut Page, object: &Value) {
    selectors(page, &object["spec"]);
    page.row("Extended", text(&object["spec"]["extendedResourceName"]));
}

fn node(page: &mut Page, object: &Value, around: &Around) {
    let ready = items(&object["status"]["conditions"]).find(|c| c["type"] == "Ready");
    page.row("Ready", ready.map_or("unknown", |c| text(&c["status"])));
    let taints: Vec<String> = items(&object["spec"]["taints"]).map(|t| format!("{}:{}", text(&t["key"]), text(&t["effect"]))).collect();
    page.row("Taints", &taints.join(", "));
    for slice in &around.slices {
        let devices: Vec<&str> = items(&slice["spec"]["devices"]).map(|d| text(&d["name"])).collect();
        page.row("Devices", &format!("{} of {}: {}", devices.len(), text(&slice["spec"]["driver"]), devices.join(" ")));
    }
    let pods: Vec<String> =
        around.pods.iter().map(|p| format!("{}/{}", text(&p["metadata"]["namespace"]), text(&p["metadata"]["name"]))).collect();
    page.row("Pods", &if pods.is_empty() { "none".to_owned() } else { pods.join(", ") });
}

/// The devices of a claim with the node that has them.
fn devices(claim: &Value, slices: &[Value]) -> String {
    let results: Vec<String> = items(&claim["status"]["allocation"]["devices"]["results"])
        .map(|r| match node_of(r, slices).or_else(|| selected_node(claim)) {
            Some(node) => format!("{} on {node}", text(&r["device"])),
            None => text(&r["device"]).to_owned(),
        })
        .collect();
    results.join(", ")
}

fn node_of(result: &Value, slices: &[Value]) -> Option<String> {
    let slice = slices.iter().find(|s| s["spec"]["driver"] == result["driver"] && s["spec"]["pool"]["name"] == result["pool"])?;
    slice["spec"]["nodeName"].as_str().map(str::to_owned)
}

fn selected_node(claim: &Value) -> Option<String> {
    let term = items(&claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]).next()?;
    let field = items(&term["matchFields"]).find(|f| f["key"] == "metadata.name")?;
    items(&field["values"]).next().and_then(Value::as_str).map(str::to_owned)
}

fn first_value(attribute: &Value) -> String {
    attribute
        .as_object()
        .and_then(|o| o.values().next())
        .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
        .unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn pairs(value: &Value) -> String {
    value.as_object().into_iter().flatten().map(|(k, v)| format!("{k}={}", text(v))).collect::<Vec<_>>().join(", ")
}
