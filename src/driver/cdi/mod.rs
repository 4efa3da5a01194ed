//! Container Device Interface: what the container runtime reads to hand a device in
//! (<https://github.com/cncf-tags/container-device-interface>, SPEC.md).

mod folder;
mod spec;

pub use folder::{CdiError, CdiFolder};
pub use spec::{CdiKind, ContainerEdits, DeviceNode, Fault, Mount, Spec, SpecDevice};
