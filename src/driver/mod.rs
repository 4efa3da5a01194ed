//! The DRA driver that a kubelet runs: inventory, publishing, prepare, CDI, gRPC.

pub mod grpc;
