//! The columns of each kind. Descriptions are those of the fields shown, taken from k8s-openapi's schemas.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::super::{Resource, resource::RESOURCES, schema};

/// Where a column's description comes from.
enum Doc {
    /// The field of a type.
    Of(&'static str, &'static str),
    /// Words of the printer's own.
    Text(&'static str),
}

use Doc::{Of, Text};

struct Column {
    name: &'static str,
    format: &'static str,
    doc: Doc,
    priority: u8,
}

const META: &str = "apimachinery.pkg.apis.meta.v1.ObjectMeta";

const fn column(name: &'static str, doc: Doc) -> Column {
    Column { name, format: "", doc, priority: 0 }
}

const fn wide(name: &'static str, doc: Doc) -> Column {
    Column { name, format: "", doc, priority: 1 }
}

const fn name(priority: u8) -> Column {
    Column { name: "Name", format: "name", doc: Of(META, "name"), priority }
}

const AGE: Column = column("Age", Of(META, "creationTimestamp"));

const POD: &[Column] = &[
    name(0),
    column("Ready", Text("The aggregate readiness state of this pod for accepting traffic.")),
    column("Status", Text("The aggregate status of the containers in this pod.")),
    column(
        "Restarts",
        Text("The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
    ),
    AGE,
    wide("IP", Of("api.core.v1.PodStatus", "podIP")),
    wide("Node", Of("api.core.v1.PodSpec", "nodeName")),
    wide("Nominated Node", Of("api.core.v1.PodStatus", "nominatedNodeName")),
    wide("Readiness Gates", Of("api.core.v1.PodSpec", "readinessGates")),
];

const NODE: &[Column] = &[
    name(0),
    column("Status", Text("The status of the node")),
    column("Roles", Text("The roles of the node")),
    AGE,
    column("Version", Of("api.core.v1.NodeSystemInfo", "kubeletVersion")),
    wide("Internal-IP", Of("api.core.v1.NodeStatus", "addresses")),
    wide("External-IP", Of("api.core.v1.NodeStatus", "addresses")),
    wide("OS-Image", Of("api.core.v1.NodeSystemInfo", "osImage")),
    wide("Kernel-Version", Of("api.core.v1.NodeSystemInfo", "kernelVersion")),
    wide("Container-Runtime", Of("api.core.v1.NodeSystemInfo", "containerRuntimeVersion")),
];

const EVENT: &[Column] = &[
    column("Last Seen", Of("api.core.v1.Event", "lastTimestamp")),
    column("Type", Of("api.core.v1.Event", "type")),
    column("Reason", Of("api.core.v1.Event", "reason")),
    column("Object", Of("api.core.v1.Event", "involvedObject")),
    wide("Subobject", Of("api.core.v1.ObjectReference", "fieldPath")),
    wide("Source", Of("api.core.v1.Event", "source")),
    column("Message", Of("api.core.v1.Event", "message")),
    wide("First Seen", Of("api.core.v1.Event", "firstTimestamp")),
    wide("Count", Of("api.core.v1.Event", "count")),
    name(1),
];

const SLICE: &[Column] = &[
    name(0),
    column("Node", Of("api.resource.v1.ResourceSliceSpec", "nodeName")),
    column("Driver", Of("api.resource.v1.ResourceSliceSpec", "driver")),
    column("Pool", Of("api.resource.v1.ResourcePool", "name")),
    AGE,
];

fn columns(resource: &Resource) -> &'static [Column] {
    match resource.kind {
        "Pod" => POD,
        "Node" => NODE,
        "Event" => EVENT,
        "ResourceSlice" => SLICE,
        "Namespace" => &const { [name(0), column("Status", Text("The status of the namespace")), AGE] },
        "ConfigMap" => &const { [name(0), column("Data", Of("api.core.v1.ConfigMap", "data")), AGE] },
        "Secret" => {
            &const { [name(0), column("Type", Of("api.core.v1.Secret", "type")), column("Data", Of("api.core.v1.Secret", "data")), AGE] }
        }
        "ResourceClaim" => {
            &const { [name(0), column("State", Text("A summary of the current state (allocated, pending, reserved, etc.).")), AGE] }
        }
        _ => &const { [name(0), AGE] },
    }
}

/// `columnDefinitions` of a kind's table.
pub(super) fn definitions(resource: &Resource) -> Value {
    static ALL: OnceLock<BTreeMap<&'static str, Value>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let types = schema::definitions();
        RESOURCES.iter().map(|resource| (resource.kind, build(columns(resource), &types))).collect()
    });
    all.get(resource.kind).cloned().unwrap_or_else(|| json!([]))
}

fn build(columns: &[Column], types: &Map<String, Value>) -> Value {
    let described = |column: &Column| match column.doc {
        Text(text) => text.to_owned(),
        Of(owner, field) => {
            let text = types.get(&format!("io.k8s.{owner}")).map(|t| &t["properties"][field]["description"]);
            text.and_then(Value::as_str).unwrap_or_default().to_owned()
        }
    };
    let list = columns.iter().map(|column| {
        json!({"name": column.name, "type": "string", "format": column.format, "description": described(column), "priority": column.priority})
    });
    Value::Array(list.collect())
}
