//! GET: one object, a list, a watch.

use std::time::Duration;

use super::respond::{self, Answer};
use super::route::Address;
use super::service::{Call, no_resource};
use super::stream;
use crate::embedded::api::selectors::Selector;
use crate::embedded::api::{ListOptions, Status, WatchOptions};

/// How long a list waits for a revision that does not exist yet (`cacher`, blockTimeout).
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// `GET .../NAME` and `GET .../NAME/status`.
pub(super) fn one(call: &Call, address: &Address) -> Result<Answer, Status> {
    match address.subresource.as_str() {
        "" => {}
        "status" if address.resource.has_status => {}
        _ => return Err(no_resource()),
    }
    let format = call.format()?;
    let object = call.api.get(address.resource, &address.namespace, &address.name)?;
    Ok(respond::object(200, &format, address.resource, &object, call.api.now()))
}

/// A list or a watch.
pub(super) async fn many(call: &Call, address: &Address) -> Result<Answer, Status> {
    let query = &call.query;
    let format = call.format()?;
    let mut fields = query.text("fieldSelector").to_owned();
    if !address.name.is_empty() {
        fields = format!("metadata.name={}", address.name);
    }
    let selector = Selector::parse(address.resource, query.text("labelSelector"), &fields)?;
    let limit = query.number("limit")?.unwrap_or(0);
    let timeout = query.seconds("timeoutSeconds")?;
    if address.watch || query.flag("watch").unwrap_or(false) {
        let options = WatchOptions {
            selector,
            resource_version: query.text("resourceVersion").to_owned(),
            version_match: query.text("resourceVersionMatch").to_owned(),
            send_initial_events: query.flag("sendInitialEvents"),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            timeout,
        };
        return match call.api.watch_selected(address.resource, &address.namespace, options) {
            Ok(watch) => Ok(stream::watch(call, address.resource, format, watch)),
            // A watch that cannot begin where it should is answered inside the stream.
            Err(status) if status.code == 410 => Ok(stream::refused(&status)),
            Err(status) => Err(status),
        };
    }
    let options = ListOptions {
        selector,
        limit,
        continuation: query.text("continue").to_owned(),
        resource_version: query.text("resourceVersion").to_owned(),
        version_match: query.text("resourceVersionMatch").to_owned(),
    };
    let mut page = call.api.list_page(address.resource, &address.namespace, &options);
    if page.as_ref().is_err_and(|status| status.code == 504) {
        call.api.clock().sleep(FUTURE_WAIT).await;
        page = call.api.list_page(address.resource, &address.namespace, &options);
    }
    Ok(respond::list(&format, address.resource, &page?, call.api.now()))
}
