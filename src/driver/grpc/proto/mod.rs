//! The messages, clients and servers of `assets/proto`, generated and committed.
//!
//! Both ends are here: the driver serves them, the embedded node agent calls them as a kubelet does.
//! `tests/it/protos.rs` regenerates the code and compares it.

macro_rules! generated {
    ($(#[$doc:meta])* $module:ident, $file:literal) => {
        $(#[$doc])*
        #[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated code; it keeps its own style")]
        pub mod $module {
            include!($file);
        }
    };
}

generated! {
    /// `k8s.io/kubelet/pkg/apis/dra/v1`: prepare and unprepare, the current version.
    dra_v1, "dra_v1.rs"
}
generated! {
    /// `k8s.io/kubelet/pkg/apis/dra/v1beta1`: the same without share ids, for kubelets up to 1.33.
    dra_v1beta1, "dra_v1beta1.rs"
}
generated! {
    /// `k8s.io/kubelet/pkg/apis/pluginregistration/v1`: how a plugin introduces itself.
    pluginregistration_v1, "pluginregistration_v1.rs"
}
generated! {
    /// `k8s.io/kubelet/pkg/apis/dra-health/v1`: the stream of the devices' health.
    dra_health_v1, "dra_health_v1.rs"
}
generated! {
    /// `k8s.io/kubelet/pkg/apis/dra-health/v1alpha1`: its alpha version.
    dra_health_v1alpha1, "dra_health_v1alpha1.rs"
}
