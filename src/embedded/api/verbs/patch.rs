//! Patch: the patch applied to the current object, then as an update; server-side apply may create.

use serde_json::Value;

use super::super::{Api, Caller, Patch, Resource, Status, Subresource, WriteOptions, fields, meta, patch, strict};
use super::update::{Fields, match_name};
use super::{ROUNDS, Written, match_namespace, well_formed};

impl Api {
    /// [`Api::patch`] with the warnings.
    ///
    /// # Errors
    /// As [`Api::patch`].
    #[expect(clippy::too_many_arguments, reason = "an address, a patch and its options; the agreed seam")]
    pub fn patch_with_warnings(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        subresource: Subresource,
        namespace: &str,
        name: &str,
        change: &Patch,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        if let Patch::Apply { object, force } = change {
            return self.apply(caller, resource, subresource, namespace, name, object.clone(), *force, options);
        }
        for _ in 0..ROUNDS {
            let current = self.entry(resource, namespace, name)?;
            let mut new = patch::apply(resource, &current.object, change)?;
            well_formed(resource, &mut new)?;
            let warnings = strict::check_patched(resource, &mut new, change, options.field_validation)?;
            match_namespace(resource, namespace, &mut new)?;
            match_name(name, &mut new)?;
            if let Some(object) = self.change(caller, resource, subresource, &current, new, options, Fields::Compute)? {
                return Ok(Written { object, warnings, created: false });
            }
        }
        Err(Status::modified(resource, name))
    }

    #[expect(clippy::too_many_arguments, reason = "one call site, right above")]
    fn apply(
        &self,
        caller: &Caller,
        resource: &'static Resource,
        subresource: Subresource,
        namespace: &str,
        name: &str,
        mut applied: Value,
        force: bool,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        fields::check_applied(resource, &applied)?;
        well_formed(resource, &mut applied)?;
        let warnings = strict::check(resource, &mut applied, options.field_validation)?;
        match_namespace(resource, namespace, &mut applied)?;
        match_name(name, &mut applied)?;
        for _ in 0..ROUNDS {
            let manager = &caller.manager;
            let current = self.store().get(resource.collection, &resource.key(namespace, name));
            let Some(current) = current else {
                if subresource != Subresource::Main {
                    return Err(Status::not_found(resource, name));
                }
                if !meta::uid(&applied).is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {}, and no existing object was found",
                        meta::uid(&applied)
                    );
                    return Err(Status::conflict(resource, name, why));
                }
                let object = fields::server_side_apply(resource, subresource, manager, None, &applied, force, self.now())?;
                match self.create_applied(caller, resource, namespace, object, options) {
                    // Somebody else created it meanwhile: apply to theirs.
                    Err(status) if status.already_exists() => continue,
                    Err(status) => return Err(status),
                    Ok(object) => return Ok(Written { object, warnings, created: true }),
                }
            };
            let live = Some(&*current.object);
            let new = fields::server_side_apply(resource, subresource, manager, live, &applied, force, self.now())?;
            if let Some(object) = self.change(caller, resource, subresource, &current, new, options, Fields::Set)? {
                return Ok(Written { object, warnings, created: false });
            }
        }
        Err(Status::modified(resource, name))
    }
}
