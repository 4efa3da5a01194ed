//! Compiled expressions and their verdicts, shared by all requests, claims and nodes of an inventory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::resource::v1::DeviceAttribute;

use super::inventory::{DeviceIx, Inventory};
use crate::cel::{CompileError, Environment, EvalError, Program, Purpose};
use crate::model::features::{Feature, Features};

/// More expressions than this at a time and the caches start afresh, so that claims that come and go do not fill memory.
const CACHED: usize = 1024;

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;
const FAILS: u8 = 3;

/// A selector, with its verdict per device once known. Verdicts do not change while the inventory lives.
#[derive(Debug)]
pub(super) struct Selector {
    program: Result<Program, CompileError>,
    verdicts: Box<[AtomicU8]>,
}

/// Why a selector has no verdict.
#[derive(Debug)]
pub(super) enum SelectorError {
    Compile(String),
    Runtime(EvalError),
}

impl Selector {
    /// Whether the device satisfies the selector; evaluated once per device.
    pub(super) fn matches(&self, inventory: &Inventory, device: DeviceIx) -> Result<bool, SelectorError> {
        let program = self.program.as_ref().map_err(|error| SelectorError::Compile(error.to_string()))?;
        let verdict = self.verdicts.get(device);
        match verdict.map(|verdict| verdict.load(Ordering::Relaxed)) {
            Some(NO) => return Ok(false),
            Some(YES) => return Ok(true),
            _ => {}
        }
        let (result, _) = program.matches(inventory.input(device));
        if let Some(verdict) = verdict {
            let value = match &result {
                Ok(true) => YES,
                Ok(false) => NO,
                Err(_) => FAILS,
            };
            verdict.store(value, Ordering::Relaxed);
        }
        result.map_err(SelectorError::Runtime)
    }
}

/// A derived attribute's program.
#[derive(Debug)]
pub(super) struct Derived(Result<Program, CompileError>);

impl Derived {
    /// The attribute's value on the device, or what goes after `failed: `.
    pub(super) fn value(&self, inventory: &Inventory, device: DeviceIx) -> Result<DeviceAttribute, SelectorError> {
        let program = self.0.as_ref().map_err(|error| SelectorError::Compile(error.to_string()))?;
        program.derive(inventory.input(device)).0.map_err(SelectorError::Runtime)
    }
}

/// The caches.
#[derive(Debug)]
pub(super) struct Selectors {
    environment: Environment,
    devices: usize,
    selectors: RwLock<HashMap<String, Arc<Selector>>>,
    derived: RwLock<HashMap<String, Arc<Derived>>>,
}

impl Selectors {
    pub(super) fn new(features: Features) -> Self {
        Self {
            environment: Environment {
                purpose: Purpose::Stored,
                consumable_capacity: features.has(Feature::ConsumableCapacity),
                list_type_attributes: features.has(Feature::ListTypeAttributes),
            },
            devices: 0,
            selectors: RwLock::default(),
            derived: RwLock::default(),
        }
    }

    pub(super) fn set_devices(&mut self, devices: usize) {
        self.devices = devices;
    }

    /// The selector with that text, compiled when first seen.
    pub(super) fn selector(&self, expression: &str) -> Arc<Selector> {
        cached(&self.selectors, expression, || Selector {
            program: Program::compile_selector(expression, self.environment),
            verdicts: (0..self.devices).map(|_| AtomicU8::new(UNKNOWN)).collect(),
        })
    }

    /// The derived attribute with that text, compiled when first seen.
    pub(super) fn derived(&self, expression: &str) -> Arc<Derived> {
        cached(&self.derived, expression, || Derived(Program::compile_derived(expression, self.environment)))
    }
}

fn cached<T>(cache: &RwLock<HashMap<String, Arc<T>>>, key: &str, make: impl FnOnce() -> T) -> Arc<T> {
    if let Some(found) = cache.read().unwrap_or_else(PoisonError::into_inner).get(key) {
        return Arc::clone(found);
    }
    let made = Arc::new(make());
    let mut cache = cache.write().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= CACHED {
        cache.clear();
    }
    Arc::clone(cache.entry(key.to_owned()).or_insert(made))
}
