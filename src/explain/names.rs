//! Names of attributes, capacities and domains: which are published how often, and which is nearest to one that is not.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::ResourceSlice;

use super::finding::Finding;
use super::reason::Reason;
use crate::base::nearest::distance;
use crate::model::attribute::split_name;

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sort {
    /// `device.attributes`.
    Attribute,
    /// `device.capacity`.
    Capacity,
}

impl Sort {
    /// The field of `device`.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Sort::Attribute => "attributes",
            Sort::Capacity => "capacity",
        }
    }
}

/// How often a name is published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// On how many devices.
    pub devices: usize,
    /// In how many pools.
    pub pools: usize,
}

/// A name that an expression uses: `device.attributes["domain"].name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Attribute or capacity.
    pub sort: Sort,
    /// The domain.
    pub domain: String,
    /// The name in the domain; `None` where only the domain is named.
    pub name: Option<String>,
    /// A missing name is no error here: `?` or `has(…)`.
    pub guarded: bool,
}

/// On how many devices a name was seen, and in which pools.
type Seen<'a> = (usize, BTreeSet<(&'a str, &'a str)>);

/// All published names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: BTreeMap<(Sort, String, String), Count>,
    /// How many devices there are.
    pub devices: usize,
    /// The drivers.
    pub drivers: BTreeSet<String>,
    of_driver: BTreeMap<String, usize>,
    twice: BTreeMap<(String, String), usize>,
}

impl Names {
    /// Counts the names of slices.
    #[must_use]
    pub fn of<'a>(slices: impl Iterator<Item = &'a ResourceSlice>) -> Self {
        let mut names: BTreeMap<(Sort, &str, &str), Seen<'_>> = BTreeMap::new();
        let mut all = Names::default();
        for slice in slices {
            let driver = slice.spec.driver.as_str();
            if !all.drivers.contains(driver) {
                all.drivers.insert(driver.to_owned());
            }
            let devices = slice.spec.devices.as_ref().map_or(0, Vec::len);
            match all.of_driver.get_mut(driver) {
                Some(count) => *count += devices,
                None => {
                    all.of_driver.insert(driver.to_owned(), devices);
                }
            }
            let pool = (driver, slice.spec.pool.name.as_str());
            for device in slice.spec.devices.iter().flatten() {
                all.devices += 1;
                let attributes = device.attributes.iter().flatten().map(|(name, _)| (Sort::Attribute, name));
                for (sort, name) in attributes.chain(device.capacity.iter().flatten().map(|(name, _)| (Sort::Capacity, name))) {
                    let (domain, id) = split_name(name, driver);
                    let count = names.entry((sort, domain, id)).or_default();
                    count.0 += 1;
                    count.1.insert(pool);
                    let both = sort == Sort::Attribute && name.contains('/') && domain == driver;
                    if both && device.attributes.as_ref().is_some_and(|own| own.contains_key(id)) {
                        *all.twice.entry((domain.to_owned(), id.to_owned())).or_default() += 1;
                    }
                }
            }
        }
        let owned = |((sort, domain, id), (devices, pools)): ((Sort, &str, &str), (usize, BTreeSet<_>))| {
            ((sort, domain.to_owned(), id.to_owned()), Count { devices, pools: pools.len() })
        };
        all.names = names.into_iter().map(owned).collect();
        all
    }

    /// How often a name is published.
    #[must_use]
    pub fn count(&self, sort: Sort, domain: &str, name: &str) -> Option<&Count> {
        self.names.get(&(sort, domain.to_owned(), name.to_owned()))
    }

    /// The domains in use.
    fn domains(&self, sort: Sort) -> BTreeSet<&str> {
        self.names.keys().filter(|(of, _, _)| *of == sort).map(|(_, domain, _)| domain.as_str()).collect()
    }

    /// The names of a domain.
    fn in_domain(&self, sort: Sort, domain: &str) -> Vec<&str> {
        self.names.keys().filter(|(of, d, _)| *of == sort && d == domain).map(|(_, _, name)| name.as_str()).collect()
    }

    /// What is to be said of the names in an expression: those that nobody publishes, those that few do.
    #[must_use]
    pub fn remarks(&self, expression: &str) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        for used in used(expression) {
            if let Some(remark) = self.remark(&used)
                && !found.contains(&remark)
            {
                found.push(remark);
            }
        }
        found
    }

    fn remark(&self, used: &Used) -> Option<Finding> {
        let Used { sort, domain, name, .. } = used;
        let own = self.in_domain(*sort, domain);
        let other = if *sort == Sort::Attribute { Sort::Capacity } else { Sort::Attribute };
        let Some(name) = name else {
            return (own.is_empty() && self.in_domain(other, domain).is_empty()).then(|| self.unknown_domain(used));
        };
        if let Some(count) = self.count(*sort, domain, name) {
            if *sort == Sort::Attribute
                && let Some(devices) = self.twice.get(&(domain.clone(), name.clone()))
            {
                return Some(Finding::new(Reason::PublishedTwice).with("name", name).with("domain", domain).with("devices", devices));
            }
            // A driver's own names can be on its own devices only.
            let all = self.of_driver.get(domain).copied().unwrap_or(self.devices);
            return (count.devices < all).then(|| {
                Finding::new(Reason::RareName)
                    .variant(if used.guarded { "guarded" } else { "" })
                    .with("name", name)
                    .with("domain", domain)
                    .with("devices", count.devices)
                    .with("all", all)
                    .with("pools", count.pools)
            });
        }
        let unknown = Finding::new(Reason::UnknownName)
            .with("name", name)
            .with("domain", domain)
            .with("field", sort.field())
            .with("all", self.devices)
            .with("known", own.join(", "));
        if self.count(other, domain, name).is_some() {
            return Some(unknown.variant("other-field").with("nearest", other.field()));
        }
        if own.is_empty() {
            return Some(self.unknown_domain(used));
        }
        Some(match nearest(name, own.iter().copied()) {
            Some(near) if near.eq_ignore_ascii_case(name) => unknown.variant("case").with("nearest", near),
            Some(near) => unknown.variant("near").with("nearest", near),
            None => unknown,
        })
    }

    fn unknown_domain(&self, used: &Used) -> Finding {
        let domains = self.domains(used.sort);
        let finding = Finding::new(Reason::UnknownDomain)
            .with("domain", &used.domain)
            .with("field", used.sort.field())
            .with("all", self.devices)
            .with("known", domains.iter().copied().collect::<Vec<_>>().join(", "));
        match nearest(&used.domain, domains.iter().copied()) {
            Some(near) if near.eq_ignore_ascii_case(&used.domain) => finding.variant("case").with("nearest", near),
            Some(near) => finding.variant("near").with("nearest", near),
            None => finding,
        }
    }

    /// What is to be said of the attribute of a constraint that no device of these has; `None` if some device has it.
    #[must_use]
    pub fn constraint(&self, attribute: &str) -> Option<Finding> {
        let finding = Finding::new(Reason::ConstraintUnknown).with("attribute", attribute).with("all", self.devices);
        let Some((domain, name)) = attribute.split_once('/') else {
            let full: Vec<String> = self.full_names().filter(|full| full.split_once('/').is_some_and(|(_, id)| id == attribute)).collect();
            return Some(match full.first() {
                Some(full) => finding.variant("near").with("nearest", full),
                None => finding,
            });
        };
        if self.count(Sort::Attribute, domain, name).is_some() {
            return None;
        }
        let names: Vec<String> = self.full_names().collect();
        let same_id = names.iter().find(|full| full.split_once('/').is_some_and(|(_, id)| id.eq_ignore_ascii_case(name)));
        let near = same_id.map(String::as_str).or_else(|| nearest(attribute, names.iter().map(String::as_str)));
        Some(match near {
            Some(near) => finding.variant("near").with("nearest", near),
            None => finding,
        })
    }

    fn full_names(&self) -> impl Iterator<Item = String> {
        self.names.keys().filter(|(sort, _, _)| *sort == Sort::Attribute).map(|(_, domain, name)| format!("{domain}/{name}"))
    }
}

/// The nearest of some names: equal but for case, else at most a third of the letters differ.
#[must_use]
pub fn nearest<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    among
        .map(|other| (if other.eq_ignore_ascii_case(name) { 0 } else { distance(name, other) }, other))
        .filter(|(far, other)| *far <= (name.chars().count().max(other.chars().count()) / 3).max(1))
        .min()
        .map(|(_, other)| other)
}

/// The names that an expression uses, as far as they are written out.
#[must_use]
pub fn used(expression: &str) -> Vec<Used> {
    let mut found = Vec::new();
    for sort in [Sort::Attribute, Sort::Capacity] {
        let start = format!("device.{}", sort.field());
        let mut rest = expression;
        while let Some(at) = rest.find(&start) {
            let guarded = rest[..at].trim_end().ends_with("has(");
            let after = &rest[at + start.len()..];
            rest = after;
            let Some((domain, after, optional)) = key(after) else { continue };
            let (name, guarded) = match member(after).or_else(|| key(after).map(|(name, _, optional)| (name, optional))) {
                Some((name, maybe)) => (Some(name), guarded || optional || maybe),
                None => (None, true),
            };
            let used = Used { sort, domain, name, guarded };
            if !found.contains(&used) {
                found.push(used);
            }
        }
    }
    found
}

/// `["text"]` or `[?"text"]`: the text, what follows, and whether it is optional.
fn key(text: &str) -> Option<(String, &str, bool)> {
    let inner = text.trim_start().strip_prefix('[')?.trim_start();
    let (inner, optional) = inner.strip_prefix('?').map_or((inner, false), |inner| (inner, true));
    let inner = inner.trim_start();
    let quote = inner.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (value, after) = inner[1..].split_once(quote)?;
    Some((value.to_owned(), after.trim_start().strip_prefix(']')?, optional))
}

/// `.name` or `.?name`, unless it is a call.
fn member(text: &str) -> Option<(String, bool)> {
    let inner = text.trim_start().strip_prefix('.')?;
    let (inner, optional) = inner.strip_prefix('?').map_or((inner, false), |inner| (inner, true));
    let name: String = inner.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let call = inner.trim_start()[name.len()..].trim_start().starts_with('(');
    (!name.is_empty() && !call).then_some((name, optional))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_expressions() {
        let text = r#"has(device.attributes["a.b"].x) && device.attributes['a.b'].?y.orValue(1) == 1 && device.capacity["c"]["m"].compareTo(quantity("1")) > 0"#;
        let seen: Vec<(String, Option<String>, bool)> = used(text).into_iter().map(|u| (u.domain, u.name, u.guarded)).collect();
        let name = |n: &str| Some(n.to_owned());
        assert_eq!(seen, [("a.b".to_owned(), name("x"), true), ("a.b".to_owned(), name("y"), true), ("c".to_owned(), name("m"), false)]);
        assert!(used("device.attributes[x].y && device.driver == 'é'").is_empty());
    }

    #[test]
    fn near_names() {
        for (name, among, expected) in [
            ("modle", &["model", "uuid"][..], Some("model")),
            ("Model", &["model", "modem"], Some("model")),
            ("gpu.exmaple.com", &["gpu.example.com", "nic.example.com"], Some("gpu.example.com")),
            ("gpu.nvidia.com", &["gpu.example.com"], None),
            ("x", &[], None),
        ] {
            assert_eq!(nearest(name, among.iter().copied()), expected, "{name}");
        }
    }
}
