//! The greatest sizes of what hangs below the variable `device`, as the API limits them (resource/v1/types.go).

const MAX_ENTRIES: u64 = 32;

/// A place below `device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Device,
    Driver,
    Shared,
    Domains,
    Attributes,
    Attribute,
    CapacityDomains,
    Capacities,
    Quantity,
    Domain,
    Identifier,
}

impl Place {
    fn element(self) -> Option<Self> {
        match self {
            Self::Domains => Some(Self::Attributes),
            Self::Attributes => Some(Self::Attribute),
            Self::CapacityDomains => Some(Self::Capacities),
            Self::Capacities => Some(Self::Quantity),
            _ => None,
        }
    }

    fn key(self) -> Option<Self> {
        match self {
            Self::Domains | Self::CapacityDomains => Some(Self::Domain),
            Self::Attributes | Self::Capacities => Some(Self::Identifier),
            _ => None,
        }
    }

    fn field(self, name: &str, shared: bool) -> Option<Self> {
        match (self, name) {
            (Self::Device, "driver") => Some(Self::Driver),
            (Self::Device, "attributes") => Some(Self::Domains),
            (Self::Device, "capacity") => Some(Self::CapacityDomains),
            (Self::Device, "allowMultipleAllocations") if shared => Some(Self::Shared),
            // All attributes have the same limit, whatever their names.
            (Self::Attributes, _) => Some(Self::Attribute),
            _ => None,
        }
    }

    fn size(self) -> u64 {
        match self {
            Self::Device | Self::Quantity => 0,
            Self::Shared => 1,
            Self::Driver | Self::Domain => 63,
            Self::Identifier => 32,
            Self::Attribute => 64,
            Self::Domains | Self::Attributes | Self::CapacityDomains | Self::Capacities => MAX_ENTRIES,
        }
    }
}

/// The greatest size of what a path such as `device`, `attributes`, `@values` leads to.
pub(super) fn of_path<'p>(mut path: impl Iterator<Item = &'p str>, shared: bool) -> Option<u64> {
    if path.next() != Some("device") {
        return None;
    }
    let mut place = Place::Device;
    for step in path {
        place = match step {
            "@items" | "@values" => place.element()?,
            "@keys" => place.key()?,
            name => place.field(name, shared)?,
        };
    }
    Some(place.size())
}
