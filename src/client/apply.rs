//! Server-side apply and deletion of manifests, by field manager `dralab`.

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::Status;
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use crate::client::{ClientError, Kind, Kinds};

/// The field manager of everything that dralab applies.
pub const MANAGER: &str = "dralab";

/// What applying an object did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is new.
    Created,
    /// It was changed.
    Configured,
    /// It was so already.
    Unchanged,
}

impl Applied {
    /// kubectl's word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Applied::Created => "created",
            Applied::Configured => "configured",
            Applied::Unchanged => "unchanged",
        }
    }
}

/// The dynamic API of a kind in a namespace (ignored for cluster-scoped kinds).
#[must_use]
pub fn api_of(client: &Client, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
    let resource = kind.api_resource();
    if kind.namespaced { Api::namespaced_with(client.clone(), namespace, &resource) } else { Api::all_with(client.clone(), &resource) }
}

/// The namespace that an object is for: its own, else the given one.
#[must_use]
pub fn namespace_of<'a>(object: &'a Value, otherwise: &'a str) -> &'a str {
    object["metadata"]["namespace"].as_str().filter(|n| !n.is_empty()).unwrap_or(otherwise)
}

/// How an object is applied.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// Take fields over from other managers.
    pub force: bool,
    /// Only ask what would happen.
    pub dry_run: bool,
}

impl Default for How<'_> {
    fn default() -> Self {
        How { manager: MANAGER, force: false, dry_run: false }
    }
}

/// Applies one object. Says how it is named, and what was done.
///
/// # Errors
/// When the kind is not served, the object has no name, or the server refuses.
pub async fn apply(
    client: &Client,
    kinds: &Kinds,
    object: &Value,
    namespace: &str,
    how: How<'_>,
) -> Result<(String, Applied), ClientError> {
    let (kind, name) = identify(kinds, object)?;
    let (applied, _) = apply_object(client, kinds, object, namespace, how).await?;
    Ok((kind.object_name(&name), applied))
}

/// Applies one object. Says what was done, and how the object is then.
///
/// # Errors
/// As [`apply`].
pub async fn apply_object(
    client: &Client,
    kinds: &Kinds,
    object: &Value,
    namespace: &str,
    how: How<'_>,
) -> Result<(Applied, DynamicObject), ClientError> {
    let (kind, name) = identify(kinds, object)?;
    let api = api_of(client, kind, namespace_of(object, namespace));
    let before = api.get_opt(&name).await?.and_then(|o| o.resource_version());
    let params = PatchParams {
        dry_run: how.dry_run,
        force: how.force,
        field_manager: Some(how.manager.to_owned()),
        field_validation: Some(kube::api::ValidationDirective::Strict),
    };
    let after = api.patch(&name, &params, &Patch::Apply(object)).await?;
    let applied = match before {
        None => Applied::Created,
        Some(before) if Some(&before) == after.resource_version().as_ref() => Applied::Unchanged,
        Some(_) => Applied::Configured,
    };
    Ok((applied, after))
}

/// Deletes one object; says whether it was there.
///
/// # Errors
/// When the kind is not served or the server refuses.
pub async fn delete(client: &Client, kind: &Kind, namespace: &str, name: &str) -> Result<bool, ClientError> {
    match api_of(client, kind, namespace).delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if is_not_found(&status) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_not_found(status: &Status) -> bool {
    status.code == 404
}

/// The kind and name of a manifest's object.
///
/// # Errors
/// When the kind is not served or the object has no name.
pub fn identify<'k>(kinds: &'k Kinds, object: &Value) -> Result<(&'k Kind, String), ClientError> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind_name = object["kind"].as_str().unwrap_or_default();
    let kind = kinds
        .by_type(api_version, kind_name)
        .ok_or_else(|| ClientError::UnknownKind { name: format!("{kind_name} in {api_version}"), near: Vec::new() })?;
    let name = object["metadata"]["name"].as_str().filter(|n| !n.is_empty());
    let name =
        name.ok_or_else(|| ClientError::Manifest { file: kind_name.to_owned(), reason: "the object has no metadata.name".to_owned() })?;
    Ok((kind, name.to_owned()))
}
