//! What an expression looks up on a device: `device.attributes["domain"].id` in all its spellings.

use crate::cel::{Part, PartKind, Span};
use crate::lint::fleet::Space;

/// How a part reaches into the device.
#[derive(Clone, Debug)]
pub(crate) enum Path {
    /// `device`
    Device,
    /// `device.driver`
    Driver,
    /// `device.attributes`, `device.capacity`
    Space(Space),
    /// `device.attributes["domain"]`
    Domain(Domain),
}

/// A domain that an expression names.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) space: Space,
    pub(crate) name: String,
    /// Where the name stands, quotes included.
    pub(crate) place: Option<Span>,
    /// `[?"domain"]`
    pub(crate) optional: bool,
}

/// One look-up of an attribute or capacity by a name that stands in the expression.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    pub(crate) domain: Domain,
    pub(crate) id: String,
    /// The whole part.
    pub(crate) span: Option<Span>,
    /// It asks whether the name is there: `has(…)`, `"id" in …`.
    pub(crate) test: bool,
    /// `.?id`, or below `[?"domain"]`.
    pub(crate) optional: bool,
}

impl Lookup {
    /// Whether a missing name is an error of the evaluation.
    pub(crate) fn is_strict(&self) -> bool {
        !self.test && !self.optional
    }
}

/// All look-ups of an expression, in the order of the source, and every domain that it names.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    pub(crate) lookups: Vec<Lookup>,
    /// Domains that are tested by themselves: `"domain" in device.attributes`.
    pub(crate) domains: Vec<Domain>,
    names: Vec<(String, Option<Path>)>,
}

impl Lookups {
    pub(crate) fn of(root: &Part) -> Self {
        let mut lookups = Lookups::default();
        lookups.walk(root);
        lookups
    }

    fn walk(&mut self, part: &Part) {
        match &part.kind {
            PartKind::Field { of, name, optional, test } => {
                if let Some(Path::Domain(domain)) = self.path(of) {
                    self.add(domain, name, part.span, *test, *optional);
                }
            }
            PartKind::Index { of, key, optional } => {
                if let (Some(Path::Domain(domain)), PartKind::Text(id)) = (self.path(of), &key.kind) {
                    self.add(domain, id, part.span, false, *optional);
                }
            }
            PartKind::Call { function, target: None, args } if function == "@in" => {
                if let [key, of] = args.as_slice()
                    && let PartKind::Text(text) = &key.kind
                {
                    match self.path(of) {
                        Some(Path::Domain(domain)) => self.add(domain, text, part.span, true, false),
                        Some(Path::Space(space)) => {
                            self.domains.push(Domain { space, name: text.clone(), place: key.span, optional: true });
                        }
                        _ => {}
                    }
                }
            }
            PartKind::Bind { name, value, body } => {
                self.walk(value);
                let path = self.path(value);
                self.names.push((name.clone(), path));
                self.walk(body);
                self.names.pop();
                return;
            }
            _ => {}
        }
        part.for_children(&mut |child| self.walk(child));
    }

    fn add(&mut self, domain: Domain, id: &str, span: Option<Span>, test: bool, optional: bool) {
        let optional = optional || domain.optional;
        self.lookups.push(Lookup { domain, id: id.to_owned(), span, test, optional });
    }

    fn path(&self, part: &Part) -> Option<Path> {
        match &part.kind {
            PartKind::Name(name) => match self.names.iter().rev().find(|(bound, _)| bound == name) {
                Some((_, path)) => path.clone(),
                None => (name == "device").then_some(Path::Device),
            },
            PartKind::Field { of, name, optional, test: false } => step(&self.path(of)?, name, None, *optional),
            PartKind::Index { of, key, optional } => match &key.kind {
                PartKind::Text(text) => step(&self.path(of)?, text, key.span, *optional),
                _ => None,
            },
            _ => None,
        }
    }
}

fn step(path: &Path, name: &str, place: Option<Span>, optional: bool) -> Option<Path> {
    match path {
        Path::Device => match name {
            "attributes" => Some(Path::Space(Space::Attributes)),
            "capacity" => Some(Path::Space(Space::Capacity)),
            "driver" => Some(Path::Driver),
            _ => None,
        },
        Path::Space(space) => Some(Path::Domain(Domain { space: *space, name: name.to_owned(), place, optional })),
        Path::Driver | Path::Domain(_) => None,
    }
}

/// Whether a part is `device.driver`.
pub(crate) fn is_driver(part: &Part) -> bool {
    matches!(Lookups::default().path(part), Some(Path::Driver))
}

/// The terms of a condition: what `&&` and `||` join, and the whole if they join nothing.
pub(crate) fn terms(root: &Part) -> Vec<&Part> {
    fn collect<'p>(part: &'p Part, into: &mut Vec<&'p Part>) {
        match part.operands("_&&_").or_else(|| part.operands("_||_")) {
            Some(operands) => operands.iter().for_each(|operand| collect(operand, into)),
            None => into.push(part),
        }
    }
    let mut terms = Vec::new();
    collect(root, &mut terms);
    terms
}
