//! CEL for devices: parser, checker, cost, evaluator and trace behind one [`Program`] type.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{DeviceAttribute, DeviceCapacity};
use serde_json::Value;

/// Which expressions an environment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// New or changed objects, as the API server checks them (limited by gates and minimum version).
    New,
    /// Objects that are stored already: everything that ever existed is allowed, gates are ignored.
    Stored,
}

/// What an expression is compiled against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Environment {
    /// New or stored expressions.
    pub purpose: Purpose,
    /// Gate `DRAConsumableCapacity`.
    pub consumable_capacity: bool,
    /// Gate `DRAListTypeAttributes`.
    pub list_type_attributes: bool,
}

/// An expression that does not compile. `Display` is upstream's message without the allocator's prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// The message, as cel-go and the API server word it.
    pub message: String,
}

/// An expression that failed on a device. `Display` is upstream's message without the allocator's prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// The message, hint for missing keys included.
    pub message: String,
}

/// A device as expressions see it, converted once. Attributes that cannot be converted fail each evaluation, as upstream.
#[derive(Clone, Debug)]
pub struct DeviceInput {}

impl DeviceInput {
    /// Converts a device of `driver`.
    #[must_use]
    pub fn new(
        driver: &str,
        attributes: &BTreeMap<String, DeviceAttribute>,
        capacity: &BTreeMap<String, DeviceCapacity>,
        allow_multiple_allocations: bool,
    ) -> Self {
        let _ = (driver, attributes, capacity, allow_multiple_allocations);
        unimplemented!()
    }
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Program {}

impl Program {
    /// False until the compiler has landed: admission does not compile then.
    pub(crate) const READY: bool = false;

    /// Compiles a device selector (must be bool, or any/dyn).
    pub fn compile_selector(expression: &str, environment: Environment) -> Result<Self, CompileError> {
        let _ = (expression, environment);
        unimplemented!()
    }

    /// Compiles a derived attribute.
    pub fn compile_derived(expression: &str, environment: Environment) -> Result<Self, CompileError> {
        let _ = (expression, environment);
        unimplemented!()
    }

    /// Compiles a condition over JSON values bound to `variables` (all of type dyn), for lesson checks and waits.
    pub fn compile_condition(expression: &str, variables: &[&str]) -> Result<Self, CompileError> {
        let _ = (expression, variables);
        unimplemented!()
    }

    /// The cost estimate of cel-go; `u64::MAX` when unbounded.
    #[must_use]
    pub fn estimated_cost(&self) -> u64 {
        unimplemented!()
    }

    /// Evaluates a selector on a device: the verdict and the actual cost.
    pub fn matches(&self, device: &DeviceInput) -> (Result<bool, EvalError>, u64) {
        let _ = device;
        unimplemented!()
    }

    /// Evaluates a derived attribute on a device.
    pub fn derive(&self, device: &DeviceInput) -> (Result<DeviceAttribute, EvalError>, u64) {
        let _ = device;
        unimplemented!()
    }

    /// Evaluates a condition over JSON values. A result that is not bool is an error.
    pub fn holds(&self, bindings: &[(&str, &Value)]) -> Result<bool, EvalError> {
        let _ = bindings;
        unimplemented!()
    }
}
