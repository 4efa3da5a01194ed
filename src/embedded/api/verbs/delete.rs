//! Delete: preconditions, grace, finalizers, namespaces.

use serde_json::{Value, json};

use super::super::{Api, Caller, DeleteOptions, Deleted, Object, Resource, Status, meta, resource, status::Cause};
use super::{ROUNDS, storage_failure};
use crate::embedded::store::{Entry, Expect, StoreError};

/// Namespaces that the admission plugin NamespaceLifecycle never lets go.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What BeforeDelete decides.
enum Grace {
    /// The kind has no grace, or it is over: delete unless finalizers keep it.
    None,
    /// Being deleted already, with no more grace than asked for: nothing to do.
    Pending,
    /// Mark with this many seconds, counted from now or (shortened) from when the deletion began.
    Mark { seconds: i64, at: jiff::Timestamp, first: bool },
}

impl Api {
    pub(crate) fn delete_object(
        &self,
        _caller: &Caller,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        check_options(options)?;
        if resource == &resource::NAMESPACES && IMMORTAL.contains(&name) {
            return Err(Status::forbidden(resource, name, "this namespace may not be deleted"));
        }
        for _ in 0..ROUNDS {
            let current = self.entry(resource, namespace, name)?;
            check_preconditions(resource, &current.object, options)?;
            let done = if resource == &resource::NAMESPACES {
                self.delete_namespace(&current, options)?
            } else {
                self.delete_once(resource, &current, options)?
            };
            if let Some(deleted) = done {
                return Ok(deleted);
            }
        }
        Err(Status::modified(resource, name))
    }

    /// Deletes each object of a list; one that is gone meanwhile is no failure.
    pub(crate) fn delete_objects(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        objects: &[Object],
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        for object in objects {
            match self.delete_object(caller, resource, meta::namespace(object), meta::name(object), options) {
                Err(status) if !status.is_not_found() => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }

    /// `None`: another write came between.
    fn delete_once(&self, resource: &'static Resource, current: &Entry, options: &DeleteOptions) -> Result<Option<Deleted>, Status> {
        let old = &*current.object;
        let mut new = old.clone();
        let grace = self.grace(resource, old, options);
        if matches!(grace, Grace::Pending) {
            return Ok(Some(Deleted::Marked(current.object.clone())));
        }
        let finalizers = propagated_finalizers(resource, old, options);
        let changed = finalizers != meta::finalizers(old);
        if changed {
            let list = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
            meta::set(&mut new, "finalizers", list);
        }
        let kept = !finalizers.is_empty();
        let (mark, at_once) = match grace {
            Grace::Pending => (false, false),
            Grace::None => {
                if kept {
                    mark_as_deleting(&mut new, self.now());
                }
                (kept, !kept)
            }
            Grace::Mark { seconds, at, first } => {
                meta::set(&mut new, "deletionTimestamp", json!(meta::seconds(at)));
                meta::set(&mut new, "deletionGracePeriodSeconds", json!(seconds));
                if first {
                    meta::raise_generation(&mut new);
                }
                (true, seconds == 0 && !kept)
            }
        };
        let mut current = current.clone();
        if mark {
            let Some(marked) = self.commit(resource, &current, new, options.dry_run)? else { return Ok(None) };
            current = marked;
        }
        if !at_once {
            return Ok(Some(Deleted::Marked(current.object)));
        }
        if options.dry_run {
            return Ok(Some(Deleted::Gone(current.object)));
        }
        let key = resource.key(meta::namespace(&current.object), meta::name(&current.object));
        loop {
            match self.store().remove(resource.collection, &key, current.revision) {
                Ok(entry) => return Ok(Some(Deleted::Gone(entry.object))),
                Err(StoreError::Expectation { .. }) if mark => {}
                Err(StoreError::Expectation { .. }) => return Ok(None),
                Err(error) => return Err(storage_failure(&error)),
            }
            // Somebody saw the mark and wrote, or deleted, before the removal: a pod that is deleted at once goes all
            // the same, unless it has got a finalizer.
            match self.store().get(resource.collection, &key) {
                Some(entry) if meta::uid(&entry.object) != meta::uid(&current.object) => return Ok(Some(Deleted::Gone(current.object))),
                Some(entry) if !meta::finalizers(&entry.object).is_empty() => return Ok(Some(Deleted::Marked(entry.object))),
                Some(entry) => current = entry,
                None => return Ok(Some(Deleted::Gone(current.object))),
            }
        }
    }

    /// The first deletion makes a namespace Terminating; the controller empties it and takes `spec.finalizers` away.
    fn delete_namespace(&self, current: &Entry, options: &DeleteOptions) -> Result<Option<Deleted>, Status> {
        let resource = &resource::NAMESPACES;
        if meta::is_deleting(&current.object) {
            if current.object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
                return Ok(Some(Deleted::Marked(current.object.clone())));
            }
            return self.delete_once(resource, current, options);
        }
        let mut new = (*current.object).clone();
        meta::set(&mut new, "deletionTimestamp", json!(meta::seconds(self.now())));
        new["status"]["phase"] = json!("Terminating");
        let finalizers = propagated_finalizers(resource, &current.object, options);
        meta::set(&mut new, "finalizers", if finalizers.is_empty() { Value::Null } else { json!(finalizers) });
        Ok(self.commit(resource, current, new, options.dry_run)?.map(|entry| Deleted::Marked(entry.object)))
    }

    fn commit(&self, resource: &'static Resource, current: &Entry, new: Value, dry_run: bool) -> Result<Option<Entry>, Status> {
        if dry_run || new == *current.object {
            return Ok(Some(current.with(new)));
        }
        let key = resource.key(meta::namespace(&new), meta::name(&new));
        match self.store().put(resource.collection, &key, Expect::Revision(current.revision), new) {
            Ok(entry) => Ok(Some(entry)),
            Err(StoreError::Expectation { .. }) => Ok(None),
            Err(error) => Err(storage_failure(&error)),
        }
    }

    /// `rest.BeforeDelete` with the pod strategy's CheckGracefulDelete; only pods have grace.
    fn grace(&self, resource: &'static Resource, old: &Value, options: &DeleteOptions) -> Grace {
        if resource != &resource::PODS {
            return Grace::None;
        }
        // Negative values mean one second.
        let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let began = old["metadata"]["deletionTimestamp"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
        if let Some(until) = began {
            let Some(left) = old["metadata"]["deletionGracePeriodSeconds"].as_i64() else { return Grace::None };
            return match asked {
                Some(asked) if asked < left => {
                    let at = until.checked_sub(jiff::SignedDuration::from_secs(left - asked)).unwrap_or(until);
                    Grace::Mark { seconds: asked, at, first: false }
                }
                _ => Grace::Pending,
            };
        }
        let scheduled = old["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        let finished = matches!(old["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        let seconds = if !scheduled || finished {
            0
        } else {
            asked.unwrap_or_else(|| old["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30)).max(0)
        };
        let at = self.now().checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(jiff::Timestamp::MAX);
        Grace::Mark { seconds, at, first: true }
    }
}

/// `markAsDeleting`: a kind without grace that finalizers keep.
fn mark_as_deleting(object: &mut Value, now: jiff::Timestamp) {
    if !meta::is_deleting(object) {
        meta::raise_generation(object);
        meta::set(object, "deletionTimestamp", json!(meta::seconds(now)));
    }
    meta::set(object, "deletionGracePeriodSeconds", json!(0));
}

/// `deletionFinalizersForGarbageCollection`: the policy is recorded as a finalizer for the garbage collector.
fn propagated_finalizers<'a>(resource: &Resource, old: &'a Value, options: &DeleteOptions) -> Vec<&'a str> {
    let before = meta::finalizers(old);
    if resource == &resource::EVENTS {
        return before;
    }
    let (orphan, foreground) = match options.propagation.as_deref() {
        Some("Orphan") => (true, false),
        Some("Foreground") => (false, true),
        Some(_) => (false, false),
        None => (before.contains(&ORPHAN), !before.contains(&ORPHAN) && before.contains(&FOREGROUND)),
    };
    let had = (before.contains(&ORPHAN), before.contains(&FOREGROUND));
    if had == (orphan, foreground) {
        return before;
    }
    let mut after: Vec<&str> = before.into_iter().filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND).collect();
    if orphan {
        after.push(ORPHAN);
    }
    if foreground {
        after.push(FOREGROUND);
    }
    after
}

fn check_options(options: &DeleteOptions) -> Result<(), Status> {
    let Some(policy) = options.propagation.as_deref() else { return Ok(()) };
    if matches!(policy, "Foreground" | "Background" | "Orphan") {
        return Ok(());
    }
    let message = format!("Unsupported value: \"{policy}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"");
    let cause = Cause::new("FieldValueNotSupported", "propagationPolicy", message);
    Err(Status::invalid_kind("DeleteOptions.meta.k8s.io", "", &[cause]))
}

fn check_preconditions(resource: &'static Resource, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let refused = |why: String| {
        // Upstream names the kind here where other conflicts name the resource.
        let mut status = Status::conflict(resource, meta::name(old), why);
        status.message = status.message.replacen(&resource.qualified(), &resource.qualified_kind(), 1);
        status.details["kind"] = json!(resource.kind);
        Err(status)
    };
    let uid = meta::uid(old);
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        return refused(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        ));
    }
    let version = meta::text(old, "resourceVersion");
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        return refused(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        ));
    }
    Ok(())
}
