//! POST, PUT, PATCH, DELETE.

use http::Method;
use serde_json::{Value, json};

use super::body;
use super::respond::{self, Answer};
use super::route::Address;
use super::service::{Call, method_not_allowed, no_resource};
use crate::embedded::api::resource::{NAMESPACES, PODS, SERVICEACCOUNTS};
use crate::embedded::api::selectors::Selector;
use crate::embedded::api::{Deleted, FieldValidation, ListOptions, Resource, Status, Subresource, WriteOptions, Written, meta};

/// Answers a request that writes.
pub(super) fn answer(call: &Call, address: &Address, bytes: &[u8]) -> Result<Answer, Status> {
    if address.watch {
        return Err(method_not_allowed());
    }
    let at_collection = address.name.is_empty();
    match call.method {
        Method::POST if at_collection => create(call, address, bytes),
        Method::POST if address.resource == &PODS && address.subresource == "binding" => bind(call, address, bytes),
        Method::POST if address.resource == &PODS && address.subresource == "eviction" => evict(call, address, bytes),
        Method::PUT if !at_collection => update(call, address, bytes),
        Method::PATCH if !at_collection => patch(call, address, bytes),
        Method::DELETE if at_collection => delete_collection(call, address, bytes),
        Method::DELETE if address.subresource.is_empty() => delete(call, address, bytes),
        _ if !address.subresource.is_empty() => subresource(address).and(Err(method_not_allowed())),
        _ => Err(method_not_allowed()),
    }
}

fn subresource(address: &Address) -> Result<Subresource, Status> {
    match address.subresource.as_str() {
        "" => Ok(Subresource::Main),
        "status" if address.resource.has_status => Ok(Subresource::Status),
        "finalize" if address.resource == &NAMESPACES => Ok(Subresource::Finalize),
        _ => Err(no_resource()),
    }
}

/// The body has been checked while it was read; its warnings go out with whatever becomes of it.
fn checked(options: &WriteOptions) -> WriteOptions {
    WriteOptions { field_validation: FieldValidation::Ignore, ..options.clone() }
}

fn finish(
    call: &Call,
    resource: &'static Resource,
    done: Result<Written, Status>,
    code: u16,
    warnings: &[String],
) -> Result<Answer, Status> {
    let format = call.format()?;
    let (mut answer, more) = match done {
        Ok(written) => (respond::object(code, &format, resource, &written.object, call.api.now()), written.warnings),
        Err(status) => (respond::failure(&status), Vec::new()),
    };
    respond::warn(&mut answer, warnings);
    respond::warn(&mut answer, &more);
    Ok(answer)
}

fn create(call: &Call, address: &Address, bytes: &[u8]) -> Result<Answer, Status> {
    let options = body::write_options(&call.query, "CreateOptions")?;
    call.format()?;
    let resource = address.resource;
    let (object, warnings) = body::object(resource, body::media_type(&call.headers), bytes, options.field_validation)?;
    if resource.namespaced && address.namespace.is_empty() {
        // Cluster-wide paths of namespaced kinds are for reading.
        return Err(method_not_allowed());
    }
    let done = call.api.create_with_warnings(&call.caller, resource, &address.namespace, object, &checked(&options));
    finish(call, resource, done, 201, &warnings)
}

fn update(call: &Call, address: &Address, bytes: &[u8]) -> Result<Answer, Status> {
    let subresource = subresource(address)?;
    let options = body::write_options(&call.query, "UpdateOptions")?;
    call.format()?;
    let resource = address.resource;
    let (object, warnings) = body::object(resource, body::media_type(&call.headers), bytes, options.field_validation)?;
    let (namespace, name) = (&address.namespace, &address.name);
    let done = call.api.update_with_warnings(&call.caller, resource, subresource, namespace, name, object, &checked(&options));
    finish(call, resource, done, 200, &warnings)
}

fn patch(call: &Call, address: &Address, bytes: &[u8]) -> Result<Answer, Status> {
    let subresource = subresource(address)?;
    let patch = body::patch(body::media_type(&call.headers), bytes, &call.query)?;
    let options = body::write_options(&call.query, "PatchOptions")?;
    call.format()?;
    let (resource, namespace, name) = (address.resource, &address.namespace, &address.name);
    let done = call.api.patch_with_warnings(&call.caller, resource, subresource, namespace, name, &patch, &options);
    let code = if done.as_ref().is_ok_and(|written| written.created) { 201 } else { 200 };
    finish(call, resource, done, code, &[])
}

fn delete(call: &Call, address: &Address, bytes: &[u8]) -> Result<Answer, Status> {
    let options = body::delete_options(body::media_type(&call.headers), bytes, &call.query)?;
    let format = call.format()?;
    let (resource, namespace, name) = (address.resource, &address.namespace, &address.name);
    match call.api.delete(&call.caller, resource, namespace, name, &options)? {
        Deleted::Marked(object) => Ok(respond::object(200, &format, resource, &object, call.api.now())),
        Deleted::Gone(object) if returns_object(resource) => Ok(respond::object(200, &format, resource, &object, call.api.now())),
        Deleted::Gone(object) => {
            let mut details = json!({"name": name, "kind": resource.plural, "uid": meta::uid(&object)});
            if !resource.group.is_empty() {
                details["group"] = json!(resource.group);
            }
            Ok(success(200, Some(details)))
        }
    }
}

/// Which registries have ReturnDeletedObject.
fn returns_object(resource: &'static Resource) -> bool {
    resource == &PODS || resource == &SERVICEACCOUNTS || resource.group == "resource.k8s.io"
}

fn success(code: u16, details: Option<Value>) -> Answer {
    let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => body["details"] = details,
        None => body["code"] = json!(code),
    }
    let format = super::negotiate::Format { yaml: false, pretty: false, shape: super::negotiate::Shape::Object };
    respond::value(code, &format, &body)
}

/// Deletes what the selectors select and answers with the list of it.
fn delete_collection(call: &Call, address: &Address, bytes: &[u8]) -> Result<Answer, Status> {
    let query = &call.query;
    let resource = address.resource;
    if resource == &NAMESPACES || (resource.namespaced && address.namespace.is_empty()) {
        return Err(method_not_allowed());
    }
    let options = body::delete_options(body::media_type(&call.headers), bytes, query)?;
    let format = call.format()?;
    let selector = Selector::parse(resource, query.text("labelSelector"), query.text("fieldSelector"))?;
    let list = ListOptions { selector, ..ListOptions::default() };
    let page = call.api.delete_collection(&call.caller, resource, &address.namespace, &list, &options)?;
    Ok(respond::list(&format, resource, &page, call.api.now()))
}

fn bind(call: &Call, address: &Address, bytes: &[u8]) -> Result<Answer, Status> {
    let binding = body::any(body::media_type(&call.headers), bytes)?;
    let options = body::write_options(&call.query, "CreateOptions")?;
    let uid = binding["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty());
    let kind = binding["target"]["kind"].as_str().unwrap_or_default();
    if !kind.is_empty() && kind != "Node" {
        let message = format!("target.kind: Unsupported value: \"{kind}\": supported values: \"Node\", \"<empty>\"");
        return Err(Status::new(500, "", message));
    }
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    if !options.dry_run {
        call.api.bind(&call.caller, &address.namespace, &address.name, uid, node)?;
    }
    Ok(success(201, None))
}

/// An eviction deletes the pod; there are no disruption budgets here.
fn evict(call: &Call, address: &Address, bytes: &[u8]) -> Result<Answer, Status> {
    let eviction = body::any(body::media_type(&call.headers), bytes)?;
    let sent = eviction["deleteOptions"].to_string();
    let options =
        body::delete_options("application/json", if eviction["deleteOptions"].is_object() { sent.as_bytes() } else { b"" }, &call.query)?;
    call.api.delete(&call.caller, &PODS, &address.namespace, &address.name, &options)?;
    Ok(success(201, None))
}
