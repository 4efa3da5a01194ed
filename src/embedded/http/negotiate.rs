//! What the caller accepts (`k8s.io/apiserver/pkg/endpoints/handlers/negotiation`).

use super::query::Query;
use crate::embedded::api::Status;
use crate::embedded::api::table::IncludeObject;

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) yaml: bool,
    pub(super) pretty: bool,
    pub(super) shape: Shape,
}

/// What is shown of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// All of them.
    Object,
    /// Rows; the version of `meta.k8s.io`.
    Table(&'static str, IncludeObject),
    /// PartialObjectMetadata.
    Metadata(&'static str),
}

/// The API server's 406.
pub(super) fn not_acceptable() -> Status {
    let mut status = Status::new(
        406,
        "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    );
    status.details = serde_json::json!({});
    status
}

/// Takes the first acceptable entry of an `Accept` header.
///
/// # Errors
/// 406 when there is none, 422 for an unknown `includeObject`.
pub(super) fn negotiate(accept: &str, user_agent: &str, query: &Query) -> Result<Format, Status> {
    let include = match query.text("includeObject") {
        "" | "Metadata" => IncludeObject::Metadata,
        "None" => IncludeObject::None,
        "Object" => IncludeObject::Object,
        other => {
            let mut status = Status::bad_request(format!("unrecognized includeObject value: \"{other}\""));
            status.details = serde_json::json!({});
            return Err(status);
        }
    };
    // Browsers and command-line tools get their JSON indented.
    let by_hand = ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| user_agent.starts_with(tool));
    let pretty = query.flag("pretty").unwrap_or(by_hand);
    let accept = if accept.trim().is_empty() { "*/*" } else { accept };
    accept.split(',').find_map(|entry| format(entry, pretty, include)).ok_or_else(not_acceptable)
}

fn format(entry: &str, pretty: bool, include: IncludeObject) -> Option<Format> {
    let mut parts = entry.split(';').map(str::trim);
    let yaml = match parts.next()? {
        "application/json" | "*/*" | "application/*" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let (mut shape, mut group, mut version) = ("", "", "");
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name {
            "as" => shape = value,
            "g" => group = value,
            "v" => version = value,
            _ => {}
        }
    }
    let version = match version {
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ => "",
    };
    let shape = match shape {
        "" => Shape::Object,
        _ if group != "meta.k8s.io" || version.is_empty() => return None,
        "Table" => Shape::Table(version, include),
        "PartialObjectMetadata" | "PartialObjectMetadataList" => Shape::Metadata(version),
        _ => return None,
    };
    Some(Format { yaml, pretty, shape })
}

#[cfg(test)]
mod tests {
    use super::{Format, Query, Shape, negotiate};
    use crate::embedded::api::table::IncludeObject;

    #[test]
    fn accepted_forms() {
        let plain = Format { yaml: false, pretty: false, shape: Shape::Object };
        let table = Format { shape: Shape::Table("v1", IncludeObject::Metadata), ..plain.clone() };
        for (accept, format) in [
            ("", plain.clone()),
            ("application/json, */*", plain.clone()),
            ("application/vnd.kubernetes.protobuf,application/json", plain.clone()),
            ("application/json;stream=watch", plain.clone()),
            ("application/yaml", Format { yaml: true, ..plain.clone() }),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", table),
            ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Format { shape: Shape::Metadata("v1"), ..plain.clone() }),
            ("application/json;as=Nothing;v=v1;g=meta.k8s.io,application/json", plain),
        ] {
            assert_eq!(negotiate(accept, "kubectl", &Query::default()).unwrap(), format, "{accept}");
        }
        assert_eq!(negotiate("text/html", "", &Query::default()).unwrap_err().code, 406);
        assert!(negotiate("", "curl/8", &Query::default()).unwrap().pretty);
    }
}
