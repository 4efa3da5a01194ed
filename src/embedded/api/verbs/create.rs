//! Create: metadata, namespace life cycle, admission, managedFields, commit.

use serde_json::{Value, json};

use super::super::{Api, Caller, Resource, Status, WriteOptions, admission, fields, meta, names, resource, status};
use super::{Written, match_namespace, storage_failure, well_formed};
use crate::embedded::store::{Expect, StoreError};

/// How often a generated name that is taken is replaced (`registry/generic/registry/store.go`, RetryGenerateName).
const NAME_ATTEMPTS: usize = 8;

impl Api {
    /// [`Api::create`] with the warnings.
    ///
    /// # Errors
    /// As [`Api::create`].
    pub fn create_with_warnings(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        well_formed(resource, &mut object)?;
        let warnings = super::super::strict::check(resource, &mut object, options.field_validation)?;
        match_namespace(resource, namespace, &mut object)?;
        let generated = meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
        let mut attempt = 1;
        loop {
            match self.create_once(caller, resource, namespace, object.clone(), options) {
                Err(status) if generated && status.already_exists() && attempt < NAME_ATTEMPTS => attempt += 1,
                Err(status) if generated && status.already_exists() => {
                    let mut status = status;
                    status.message = format!("{}, the server was not able to generate a unique name for the object", status.message);
                    return Err(status);
                }
                Err(status) => return Err(status),
                Ok(object) => return Ok(Written { object, warnings, created: true }),
            }
        }
    }

    /// An object made by server-side apply: its managedFields are in it already.
    pub(super) fn create_applied(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<super::Object, Status> {
        self.create_prepared(caller, resource, namespace, object, options, false)
    }

    fn create_once(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<super::Object, Status> {
        self.create_prepared(caller, resource, namespace, object, options, true)
    }

    fn create_prepared(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        mut object: Value,
        options: &WriteOptions,
        manage_fields: bool,
    ) -> Result<super::Object, Status> {
        self.check_namespace(resource, namespace, meta::name(&object))?;
        let sent = manage_fields.then(|| object.clone());
        self.fill_metadata(&mut object);
        let context = self.context(caller);
        admission::prepare_create(resource, &mut object, &context)?;
        check_name(resource, &object)?;
        admission::validate_create(resource, &object, &context)?;
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        if let Some(sent) = &sent {
            fields::create_managed(resource, &caller.manager, sent, &mut object, self.now());
        }
        let name = meta::name(&object).to_owned();
        let key = resource.key(namespace, &name);
        if options.dry_run {
            return match self.store().get(resource.collection, &key) {
                Some(_) => Err(Status::taken(resource, &name)),
                None => Ok(object.into()),
            };
        }
        match self.store().put(resource.collection, &key, Expect::Absent, object) {
            Ok(entry) => Ok(entry.object),
            Err(StoreError::Expectation { .. }) => Err(Status::taken(resource, &name)),
            Err(error) => Err(storage_failure(&error)),
        }
    }

    /// The admission plugin NamespaceLifecycle: no creation in a namespace that is missing or terminating.
    fn check_namespace(&self, resource: &'static Resource, namespace: &str, name: &str) -> Result<(), Status> {
        if !resource.namespaced {
            return Ok(());
        }
        let Some(found) = self.store().get(resource::NAMESPACES.collection, namespace) else {
            return Err(Status::not_found(&resource::NAMESPACES, namespace));
        };
        if meta::is_deleting(&found.object) || found.object["status"]["phase"] == "Terminating" {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let mut refusal = Status::forbidden(resource, name, why);
            let message = format!("namespace {namespace} is being terminated");
            refusal.details["causes"] = json!([{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]);
            return Err(refusal);
        }
        Ok(())
    }

    /// `rest.FillObjectMetaSystemFields`, and the name from generateName.
    fn fill_metadata(&self, object: &mut Value) {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            meta::set(object, field, Value::Null);
        }
        meta::set(object, "uid", Value::String(self.ids().uid()));
        meta::set(object, "creationTimestamp", Value::String(meta::seconds(self.now())));
        if meta::name(object).is_empty() {
            // A name may have 63 characters where it becomes a label; upstream cuts the base at 58 for all kinds.
            let base = meta::text(object, "generateName");
            if !base.is_empty() {
                let cut = base.char_indices().map(|(at, _)| at).take_while(|at| *at <= 58).last().unwrap_or(0);
                let base = if base.len() > 58 { &base[..cut] } else { base };
                let name = format!("{base}{}", self.ids().suffix());
                meta::set(object, "name", Value::String(name));
            } else {
                meta::set(object, "name", Value::Null);
            }
        }
    }
}

fn check_name(resource: &'static Resource, object: &Value) -> Result<(), Status> {
    let name = meta::name(object);
    let causes = if name.is_empty() {
        vec![status::Cause::new("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")]
    } else {
        names::object_name_causes(resource, name)
    };
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid(resource, name, &causes)) }
}
