//! The gRPC side of the driver: the wire format.

pub mod proto;
