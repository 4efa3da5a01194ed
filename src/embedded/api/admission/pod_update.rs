//! What may change in a pod: images, deadline, more tolerations, fewer gates; and in its status.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Bad, Faults, Path, duplicate, forbidden, invalid, required};
use super::json::{field, list, list_mut, optional, same, text};
use super::{go, meta, names, pod};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates a changed pod.
pub(super) fn validate(old: &Value, new: &Value, faults: &mut Faults) {
    meta::validate_update(old, new, faults);
    pod::validate_spec(new, faults);
    let (was, is, path) = (field(old, "spec"), field(new, "spec"), Path::new("spec"));
    for name in ["containers", "initContainers"] {
        let at = path.child(name);
        if list(was, name).len() != list(is, name).len() {
            faults.push(forbidden(&at, "pod updates may not add or remove containers"));
            return;
        }
        for (number, container) in list(is, name).iter().enumerate() {
            let at = at.index(number).child("image");
            let image = text(container, "image");
            if image.is_empty() {
                faults.push(required(&at, ""));
            }
            if image.trim() != image {
                faults.push(invalid(&at, image, "must not have leading or trailing whitespace"));
            }
        }
    }
    if !deadline(was, is, &path.child("activeDeadlineSeconds"), faults) {
        return;
    }
    tolerations(list(was, "tolerations"), list(is, "tolerations"), &path.child("tolerations"), faults);
    let had: Vec<&Value> = list(was, "schedulingGates").iter().collect();
    for (number, gate) in list(is, "schedulingGates").iter().enumerate() {
        if !had.contains(&gate) {
            let at = path.child("schedulingGates").index(number);
            faults.push(forbidden(
                &at,
                "only deletion is allowed, but found new scheduling gate ".to_owned() + &go::quote(text(gate, "name")),
            ));
        }
    }
    if same(was, is) {
        return;
    }
    let mut munged = munged(was, is);
    if !list(was, "schedulingGates").is_empty() && !same(field(was, "nodeSelector"), field(is, "nodeSelector")) {
        // A gated pod may be narrowed down.
        let kept = super::json::entries(was, "nodeSelector").all(|(key, value)| field(field(is, "nodeSelector"), key) == value);
        if !kept {
            let shown = go::compact(field(is, "nodeSelector"));
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            faults.push(invalid(&path.child("nodeSelector"), Bad::raw(shown), why));
        }
        munged["nodeSelector"] = field(was, "nodeSelector").clone();
    }
    if !same(was, &munged) {
        let diff = unified(&go::print_indented("PodSpec", was), &go::print_indented("PodSpec", &munged));
        faults.push(forbidden(&path, format!("pod updates may not change fields other than {UPDATABLE}\n{diff}")));
    }
}

/// False: nothing more is to be checked.
fn deadline(was: &Value, is: &Value, path: &Path, faults: &mut Faults) -> bool {
    let old = field(was, "activeDeadlineSeconds").as_i64();
    match (old, field(is, "activeDeadlineSeconds").as_i64()) {
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            faults.push(invalid(path, new, format!("must be between 0 and {}, inclusive", i32::MAX)));
            false
        }
        (Some(old), Some(new)) if old < new => {
            faults.push(invalid(path, new, "must be less than or equal to previous value"));
            false
        }
        (Some(_), None) => {
            faults.push(invalid(path, Bad::nil(), "must not update from a positive integer to nil value"));
            true
        }
        _ => true,
    }
}

fn tolerations(was: &[Value], is: &[Value], path: &Path, faults: &mut Faults) {
    let kept = |old: &Value| {
        is.iter().any(|new| {
            let mut old = old.clone();
            super::json::remove(&mut old, "tolerationSeconds");
            let mut new = new.clone();
            super::json::remove(&mut new, "tolerationSeconds");
            same(&old, &new)
        })
    };
    if !was.iter().all(kept) {
        faults.push(forbidden(path, "existing toleration can not be modified except its tolerationSeconds"));
        return;
    }
    pod::tolerations(is, path, faults);
}

/// The new spec with everything that may change put back as it was.
fn munged(was: &Value, is: &Value) -> Value {
    let mut munged = is.clone();
    for name in ["containers", "initContainers"] {
        for (container, old) in list_mut(&mut munged, name).zip(list(was, name)) {
            container["image"] = field(old, "image").clone();
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        match was.get(name) {
            Some(value) => munged[name] = value.clone(),
            None => super::json::remove(&mut munged, name),
        }
    }
    munged
}

/// A unified diff with three lines of context, as Go's difflib prints it without file names.
fn unified(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut out = String::new();
    for hunk in hunks(&edits(&a, &b)) {
        let count = |kept: fn(&Edit) -> bool| hunk.iter().filter(|edit| kept(edit)).count();
        let old_lines = count(|edit| !matches!(edit, Edit::Added(_)));
        let new_lines = count(|edit| !matches!(edit, Edit::Removed(..)));
        let (old_start, new_start) = hunk.first().map_or((0, 0), Edit::place);
        out.push_str(&format!("@@ -{} +{} @@\n", range(old_start, old_lines), range(new_start, new_lines)));
        for edit in hunk {
            let (mark, line) = match edit {
                Edit::Same(old, _) => (' ', a.get(*old)),
                Edit::Removed(old, _) => ('-', a.get(*old)),
                Edit::Added(place) => ('+', b.get(place.1)),
            };
            out.push(mark);
            out.push_str(line.copied().unwrap_or_default());
            out.push('\n');
        }
    }
    out
}

fn range(start: usize, lines: usize) -> String {
    match lines {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{lines}", start + 1),
    }
}

/// A line of a diff, with its place in both texts.
enum Edit {
    Same(usize, usize),
    Removed(usize, usize),
    Added((usize, usize)),
}

impl Edit {
    fn place(&self) -> (usize, usize) {
        match self {
            Edit::Same(old, new) | Edit::Removed(old, new) | Edit::Added((old, new)) => (*old, *new),
        }
    }

    fn is_same(&self) -> bool {
        matches!(self, Edit::Same(..))
    }
}

/// The shortest edit of the middle that differs; removed lines come before added ones.
fn edits(a: &[&str], b: &[&str]) -> Vec<Edit> {
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let tail = a.iter().skip(head).rev().zip(b.iter().skip(head).rev()).take_while(|(a, b)| a == b).count();
    let (a_end, b_end) = (a.len() - tail, b.len() - tail);
    let (rows, columns) = (a_end - head, b_end - head);
    // Longest common subsequence, from the end.
    let mut common = vec![vec![0_usize; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            common[row][column] = if a[head + row] == b[head + column] {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let mut edits: Vec<Edit> = (0..head).map(|at| Edit::Same(at, at)).collect();
    let (mut row, mut column) = (0, 0);
    while row < rows || column < columns {
        if row < rows && column < columns && a[head + row] == b[head + column] {
            edits.push(Edit::Same(head + row, head + column));
            row += 1;
            column += 1;
        } else if row < rows && (column == columns || common[row + 1][column] >= common[row][column + 1]) {
            edits.push(Edit::Removed(head + row, head + column));
            row += 1;
        } else {
            edits.push(Edit::Added((head + row, head + column)));
            column += 1;
        }
    }
    edits.extend((0..tail).map(|at| Edit::Same(a_end + at, b_end + at)));
    edits
}

fn hunks(edits: &[Edit]) -> Vec<&[Edit]> {
    const CONTEXT: usize = 3;
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for (at, _) in edits.iter().enumerate().filter(|(_, edit)| !edit.is_same()) {
        let (start, end) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(edits.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.1 => last.1 = end,
            _ => hunks.push((start, end)),
        }
    }
    hunks.into_iter().filter_map(|(start, end)| edits.get(start..end)).collect()
}

/// Validates a changed status of a pod.
pub(super) fn validate_status(old: &Value, new: &Value, faults: &mut Faults) {
    meta::validate_update(old, new, faults);
    let (was, is, path) = (field(old, "status"), field(new, "status"), Path::new("status"));
    let (nominated, before) = (text(is, "nominatedNodeName"), text(was, "nominatedNodeName"));
    if nominated != before && !nominated.is_empty() {
        faults.each(&path.child("nominatedNodeName"), nominated, names::subdomain(nominated));
        if !text(field(old, "spec"), "nodeName").is_empty() {
            let why = "may not be set on pods that are already bound to a node";
            faults.push(forbidden(&path.child("nominatedNodeName"), why));
        }
    }
    if text(was, "qosClass") != text(is, "qosClass") {
        faults.push(invalid(&path.child("qosClass"), text(is, "qosClass"), "field is immutable"));
    }
    let spec = field(old, "spec");
    terminated(was, is, text(spec, "restartPolicy"), &path.child("containerStatuses"), faults);
    let at = path.child("resourceClaimStatuses");
    let mut seen = BTreeSet::new();
    for (number, status) in list(is, "resourceClaimStatuses").iter().enumerate() {
        let at = at.index(number);
        let name = text(status, "name");
        if !list(spec, "resourceClaims").iter().any(|claim| text(claim, "name") == name) {
            faults.push(invalid(&at.child("name"), name, "must match the name of an entry in `spec.resourceClaims`"));
        }
        if !seen.insert(name) {
            faults.push(duplicate(&at.child("name"), name));
        }
        if let Some(claim) = optional(status, "resourceClaimName") {
            faults.each(&at.child("resourceClaimName"), claim, names::subdomain(claim));
        }
    }
}

/// Containers that ended stay ended, where they are not to be restarted.
fn terminated(was: &Value, is: &Value, policy: &str, path: &Path, faults: &mut Faults) {
    if policy == "Always" {
        return;
    }
    for (number, old) in list(was, "containerStatuses").iter().enumerate() {
        let Some(code) = old.pointer("/state/terminated").map(|ended| super::json::int(ended, "exitCode")) else { continue };
        if code != 0 && policy == "OnFailure" {
            continue;
        }
        let restarted = list(is, "containerStatuses")
            .iter()
            .any(|new| text(new, "name") == text(old, "name") && new.pointer("/state/terminated").is_none());
        if restarted {
            faults.push(forbidden(&path.index(number).child("state"), "may not be transitioned to non-terminated state"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn a_diff_shows_three_lines_around_a_change() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9";
        assert_eq!(unified(old, &old.replace('5', "five")), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
        assert_eq!(unified(old, &old.replace("9", "9\n10")), "@@ -7,3 +7,4 @@\n 7\n 8\n 9\n+10\n");
        assert_eq!(unified("1\n2\n3", "2\n3"), "@@ -1,3 +1,2 @@\n-1\n 2\n 3\n");
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old: Vec<String> = (1..=20).map(|line| line.to_string()).collect();
        let mut new = old.clone();
        new[1] = "x".to_owned();
        new[17] = "y".to_owned();
        let diff = unified(&old.join("\n"), &new.join("\n"));
        assert_eq!(diff.matches("@@ ").count(), 2, "{diff}");
    }
}
