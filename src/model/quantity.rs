//! Kubernetes quantities: exact parse, compare and print.
