//! Reviews: answered and not stored. Whoever holds the lab's token may do everything, so the answer is yes.

use http::Method;
use serde_json::{Value, json};

use super::body;
use super::respond::{self, Answer};
use super::service::{Call, method_not_allowed};
use crate::embedded::api::Status;

/// Answers a POST of a review.
pub(super) fn answer(call: &Call, plural: &str, bytes: &[u8]) -> Result<Answer, Status> {
    if call.method != Method::POST {
        return Err(method_not_allowed());
    }
    let format = call.format()?;
    let mut review = body::any(body::media_type(&call.headers), bytes)?;
    if !review.is_object() {
        return Err(Status::bad_request("the body of the request is no review"));
    }
    let (version, kind, status) = match plural {
        "selfsubjectreviews" => {
            let status = json!({"userInfo": {"username": call.caller.user, "groups": ["system:masters", "system:authenticated"]}});
            ("authentication.k8s.io/v1", "SelfSubjectReview", status)
        }
        "selfsubjectrulesreviews" => {
            let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
            let urls = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
            let status = json!({"resourceRules": everything, "nonResourceRules": urls, "incomplete": false});
            ("authorization.k8s.io/v1", "SelfSubjectRulesReview", status)
        }
        "subjectaccessreviews" => ("authorization.k8s.io/v1", "SubjectAccessReview", json!({"allowed": true})),
        _ => ("authorization.k8s.io/v1", "SelfSubjectAccessReview", json!({"allowed": true})),
    };
    review["apiVersion"] = json!(version);
    review["kind"] = json!(kind);
    review["status"] = status;
    if !review["metadata"].is_object() {
        review["metadata"] = Value::Object(serde_json::Map::new());
    }
    Ok(respond::value(201, &format, &review))
}
