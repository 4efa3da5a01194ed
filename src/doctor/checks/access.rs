//! Who may do what: labels, roles, quotas and policies that keep claims from working.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::steps::Say;
use crate::doctor::facts::{Facts, called, claims_of, is_done, items, name, namespace, text};
use crate::doctor::{Check, Finding, Group, Looked, Severity};
use crate::model::quantity::Quantity;

const ADMIN: &str = "resource.kubernetes.io/admin-access";
/// The spelling in a release note of Kubernetes 1.33, which no server reads.
const ADMIN_OLD: &str = "resource.k8s.io/admin-access";

/// Namespaces whose admin label is misspelt or has another value than `true`.
pub(super) const ADMIN_LABEL: Check = Check {
    id: "DL-DOC-461",
    slug: "admin-label",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: admin_label,
};

/// Schedulers beside the default one that may not read what DRA needs.
pub(super) const SCHEDULERS: Check = Check {
    id: "DL-DOC-462",
    slug: "own-scheduler",
    group: Group::Cluster,
    least: Severity::Note,
    most: Severity::Warning,
    look: schedulers,
};

/// Quotas that are used up, and policies that judge claims.
pub(super) const BARRED: Check =
    Check { id: "DL-DOC-463", slug: "claims-barred", group: Group::Cluster, least: Severity::Note, most: Severity::Warning, look: barred };

/// Taint rules that evict from every device there is.
pub(super) const TAINTS_ALL: Check = Check {
    id: "DL-DOC-464",
    slug: "taints-all",
    group: Group::Cluster,
    least: Severity::Warning,
    most: Severity::Warning,
    look: taints_all,
};

fn admin_label(facts: &Facts) -> Looked {
    let mut finding = Finding::new(Severity::Warning, Say::new("doctor.admin-label.found"), Say::new("doctor.admin-label.advice"));
    for space in facts.list("namespaces")? {
        let labels = &space["metadata"]["labels"];
        let right = labels[ADMIN].as_str();
        if let Some(value) = labels[ADMIN_OLD].as_str().filter(|_| right != Some("true")) {
            finding.add(called("namespace", space), format!("label {ADMIN_OLD}={value}"));
        }
        if let Some(value) = right.filter(|v| *v != "true") {
            finding.add(called("namespace", space), format!("label {ADMIN}={value}"));
        }
    }
    Ok(finding.if_any().into_iter().collect())
}

/// What a scheduler has to list and watch for DRA.
const NEEDED: &[&str] = &["resourceclaims", "resourceslices", "deviceclasses"];

fn schedulers(facts: &Facts) -> Looked {
    let pods = facts.list("pods")?;
    let mut clients: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in pods.iter().filter(|p| !is_done(p) && claims_of(p).next().is_some()) {
        let scheduler = text(&pod["spec"]["schedulerName"]);
        if !scheduler.is_empty() && scheduler != "default-scheduler" {
            clients.entry(scheduler).or_default().push(pod);
        }
    }
    if clients.is_empty() {
        return Ok(Vec::new());
    }
    let (roles, bindings) = (facts.list("clusterroles")?, facts.list("clusterrolebindings")?);
    let mut findings = Vec::new();
    for (scheduler, waiting) in clients {
        let own = pods.iter().find(|p| !is_done(p) && runs_scheduler(p, scheduler));
        let Some(own) = own else {
            let what = Say::new("doctor.own-scheduler.unknown").with("scheduler", scheduler);
            let mut finding =
                Finding::new(Severity::Note, what, Say::new("doctor.own-scheduler.unknown-advice").with("scheduler", scheduler));
            for pod in waiting {
                finding.add(called("pod", pod), format!("schedulerName {scheduler}"));
            }
            findings.push(finding);
            continue;
        };
        let account = own["spec"]["serviceAccountName"].as_str().unwrap_or("default");
        let missing = missing_rights(roles, bindings, namespace(own), account);
        if !missing.is_empty() {
            let what = Say::new("doctor.own-scheduler.found").with("scheduler", scheduler);
            let mut finding = Finding::new(Severity::Warning, what, Say::new("doctor.own-scheduler.advice")).seen(
                called("pod", own),
                format!("serviceAccount {}/{account} may not list and watch {} in resource.k8s.io", namespace(own), missing.join(", ")),
            );
            for pod in waiting {
                finding.add(called("pod", pod), format!("schedulerName {scheduler}"));
            }
            findings.push(finding);
        }
    }
    Ok(findings)
}

/// Whether a pod is the scheduler of that name: by its name, its labels or its arguments.
fn runs_scheduler(pod: &Value, scheduler: &str) -> bool {
    let says = |value: &Value| value.as_str().is_some_and(|t| t == scheduler || t.ends_with(&format!("={scheduler}")));
    let labels = pod["metadata"]["labels"].as_object().into_iter().flatten().any(|(_, v)| says(v));
    labels
        || name(pod) == scheduler
        || name(pod).strip_prefix(scheduler).is_some_and(|rest| rest.starts_with('-'))
        || items(&pod["spec"]["containers"]).any(|c| says(&c["name"]) || items(&c["args"]).chain(items(&c["command"])).any(says))
}

fn missing_rights(roles: &[Value], bindings: &[Value], namespace: &str, account: &str) -> Vec<&'static str> {
    let group = format!("system:serviceaccounts:{namespace}");
    let bound = bindings.iter().filter(|b| {
        items(&b["subjects"]).any(|s| match text(&s["kind"]) {
            "ServiceAccount" => text(&s["name"]) == account && text(&s["namespace"]) == namespace,
            "Group" => text(&s["name"]) == group || matches!(text(&s["name"]), "system:serviceaccounts" | "system:authenticated"),
            _ => false,
        })
    });
    let names: BTreeSet<&str> = bound.map(|b| text(&b["roleRef"]["name"])).collect();
    let rules: Vec<&Value> = roles.iter().filter(|r| names.contains(name(r))).flat_map(|r| items(&r["rules"])).collect();
    let has = |list: &Value, wanted: &str| items(list).any(|v| text(v) == wanted || text(v) == "*");
    let may = |resource: &str, verb: &str| {
        rules.iter().any(|r| has(&r["apiGroups"], "resource.k8s.io") && has(&r["resources"], resource) && has(&r["verbs"], verb))
    };
    NEEDED.iter().copied().filter(|resource| !(may(resource, "list") && may(resource, "watch"))).collect()
}

fn barred(facts: &Facts) -> Looked {
    let cluster = facts.cluster()?;
    let mut full = Finding::new(Severity::Warning, Say::new("doctor.claims-barred.quota"), Say::new("doctor.claims-barred.quota-advice"));
    for quota in cluster.list_or_none("resourcequotas") {
        for (resource, hard) in quota["status"]["hard"].as_object().into_iter().flatten() {
            let about_claims = resource.contains("resourceclaims") || resource.contains(".deviceclass.resource.k8s.io/");
            let amount = |value: &Value| value.as_str().and_then(|t| Quantity::parse(t).ok());
            let used = &quota["status"]["used"][resource];
            if about_claims && matches!((amount(used), amount(hard)), (Some(used), Some(hard)) if used >= hard) {
                full.add(called("resourcequota", quota), format!("{resource}: used {}, hard {}", text(used), text(hard)));
            }
        }
    }
    let mut refused =
        Finding::new(Severity::Warning, Say::new("doctor.claims-barred.refused"), Say::new("doctor.claims-barred.refused-advice"));
    let living: BTreeSet<&str> = cluster
        .list_or_none("pods")
        .iter()
        .filter(|p| text(&p["status"]["phase"]) == "Pending")
        .map(|p| text(&p["metadata"]["uid"]))
        .collect();
    let mut told = BTreeSet::new();
    for event in facts.list("events")? {
        let message = text(&event["message"]);
        let barred = message.contains("exceeded quota") || message.contains("denied request") || message.contains("forbidden");
        let about = &event["involvedObject"];
        if text(&event["reason"]) == "FailedResourceClaimCreation"
            && barred
            && living.contains(text(&about["uid"]))
            && told.insert(text(&about["uid"]))
        {
            refused.add(format!("pod/{}/{}", text(&about["namespace"]), text(&about["name"])), message);
        }
    }
    let mut judged = Finding::new(Severity::Note, Say::new("doctor.claims-barred.policy"), Say::new("doctor.claims-barred.policy-advice"));
    let bindings = cluster.list_or_none("validatingadmissionpolicybindings");
    for policy in cluster.list_or_none("validatingadmissionpolicies") {
        let ours = text(&policy["metadata"]["labels"]["app.kubernetes.io/managed-by"]) == "dralab";
        let about_claims = items(&policy["spec"]["matchConstraints"]["resourceRules"]).any(|rule| {
            items(&rule["apiGroups"]).any(|g| matches!(text(g), "resource.k8s.io" | "*"))
                && items(&rule["resources"]).any(|r| matches!(text(r), "resourceclaims" | "resourceclaimtemplates" | "*" | "*/*"))
        });
        let denies = bindings
            .iter()
            .find(|b| text(&b["spec"]["policyName"]) == name(policy) && items(&b["spec"]["validationActions"]).any(|a| text(a) == "Deny"));
        if let Some(binding) = denies.filter(|_| about_claims && !ours) {
            judged.add(called("validatingadmissionpolicy", policy), format!("binding {} denies", name(binding)));
        }
    }
    Ok([full, refused, judged].into_iter().filter_map(Finding::if_any).collect())
}

fn taints_all(facts: &Facts) -> Looked {
    let mut finding = Finding::new(Severity::Warning, Say::new("doctor.taints-all.found"), Say::new("doctor.taints-all.advice"));
    for rule in facts.list("devicetaintrules")? {
        let selector = &rule["spec"]["deviceSelector"];
        let chooses =
            selector.as_object().is_some_and(|s| s.values().any(|v| !v.is_null() && v != "" && v.as_array().is_none_or(|a| !a.is_empty())));
        if !chooses && text(&rule["spec"]["taint"]["effect"]) == "NoExecute" {
            finding.add(
                called("devicetaintrule", rule),
                format!("deviceSelector is empty, effect NoExecute, key {}", text(&rule["spec"]["taint"]["key"])),
            );
        }
    }
    Ok(finding.if_any().into_iter().collect())
}
