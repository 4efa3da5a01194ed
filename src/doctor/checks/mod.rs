//! The checks: pure functions from facts to findings, by what they look at.
//!
//! Ids: 1xx the machine, 2xx the tools, 3xx the lab, 4xx the cluster. An id is never given to another check.

mod access;
mod claims;
mod classes;
mod drivers;
mod engine;
mod features;
mod host;
mod lab;
mod nodes;
mod pods;
mod slices;
mod tools;

use crate::doctor::Check;

/// All checks, in the order of the report.
pub const CHECKS: &[&Check] = &[
    &host::MEMORY,
    &host::DISK,
    &host::INOTIFY,
    &host::CGROUP,
    &host::CONTROLLERS,
    &host::FILES,
    &host::PROXIES,
    &host::WSL,
    &host::FIREWALL,
    &engine::ENGINE,
    &engine::STORAGE,
    &engine::IMAGE_STORE,
    &engine::ROOTLESS,
    &engine::SNAP,
    &engine::INIT,
    &engine::SUBNETS,
    &tools::KIND,
    &tools::KUBECTL,
    &lab::RECORD,
    &lab::KUBECONFIG,
    &lab::ANSWERS,
    &lab::PROCESS,
    &lab::CONTAINERS,
    &lab::ADDRESSES,
    &lab::INSTALLED,
    &lab::LEFTOVERS,
    &lab::LOCK,
    &nodes::SERVER,
    &features::DROPPED,
    &features::CLOCK,
    &nodes::NOT_READY,
    &nodes::FAULTY_KUBELET,
    &nodes::SKEW,
    &nodes::TWO_OWNERS,
    &slices::INCOMPLETE,
    &slices::DUPLICATE_DEVICES,
    &slices::COLLIDING,
    &slices::TWO_SPELLINGS,
    &slices::NO_NODE,
    &drivers::NOT_REGISTERED,
    &drivers::NO_POD,
    &drivers::RESTARTING,
    &classes::SELECTORS,
    &classes::UNKNOWN,
    &claims::RESERVATIONS,
    &claims::STUCK,
    &claims::UNUSED,
    &claims::GONE_DEVICES,
    &pods::EARLIER_POD,
    &pods::WAITING,
    &pods::NODE_BY_HAND,
    &access::ADMIN_LABEL,
    &access::SCHEDULERS,
    &access::BARRED,
    &access::TAINTS_ALL,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CHECKS;
    use crate::doctor::testing::{self, Expected};
    use crate::doctor::{Group, examine};

    #[test]
    fn ids_and_slugs_are_unique_and_in_order() {
        let ids: BTreeSet<&str> = CHECKS.iter().map(|c| c.id).collect();
        let slugs: BTreeSet<&str> = CHECKS.iter().map(|c| c.slug).collect();
        assert_eq!((ids.len(), slugs.len()), (CHECKS.len(), CHECKS.len()));
        for check in CHECKS {
            let group = match check.id.strip_prefix("DL-DOC-").and_then(|n| n.chars().next()) {
                Some('1') => Group::Host,
                Some('2') => Group::Tools,
                Some('3') => Group::Lab,
                _ => Group::Cluster,
            };
            assert_eq!(check.group, group, "{}", check.id);
            assert!(check.least <= check.most, "{}", check.id);
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        let report = examine(&testing::sound(), &[]);
        for one in &report.examined {
            let findings = one.outcome.as_ref().map(Vec::as_slice).unwrap_or_default();
            assert!(findings.is_empty(), "{}: {findings:?}", one.check.id);
        }
    }

    #[test]
    fn every_check_finds_its_faults_and_keeps_quiet_about_what_is_near_to_them() {
        let mut found = BTreeSet::new();
        for case in testing::cases() {
            let check = CHECKS.iter().find(|c| c.id == case.check).expect(case.check);
            let outcome = (check.look)(&case.facts);
            let what = format!("{} {}: {outcome:?}", check.id, case.name);
            match case.expected {
                Expected::Found(severity, evidence) => {
                    found.insert(check.id);
                    let findings = outcome.expect(&what);
                    assert_eq!(findings.iter().map(|f| f.severity).max(), Some(severity), "{what}");
                    assert!(findings.iter().all(|f| (check.least..=check.most).contains(&f.severity)), "{what}");
                    let seen: Vec<String> = findings.iter().flat_map(|f| &f.evidence).map(|e| format!("{}: {}", e.of, e.seen)).collect();
                    assert!(seen.iter().any(|s| s.contains(evidence)), "{what}");
                }
                Expected::Fine => assert!(outcome.is_ok_and(|findings| findings.is_empty()), "{what}"),
                Expected::Blind => assert!(outcome.is_err(), "{what}"),
            }
        }
        let silent: Vec<&str> = CHECKS.iter().map(|c| c.id).filter(|id| !found.contains(id)).collect();
        assert!(silent.is_empty(), "no case makes these find anything: {silent:?}");
    }
}
