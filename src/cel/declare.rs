//! The functions of the environment: names, overloads and their signatures, from the tables in [`super::lib`].

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::lib;
use super::types::{DEVICE, Type};

/// One signature of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    /// Called as `target.function(...)`; the target is the first of `args`.
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// The type parameters in the signature.
    pub(crate) parameters: Vec<char>,
}

/// A function with its overloads, in the order in which they are tried.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Function> = HashMap::new();
    for (name, id, signature) in lib::SIGNATURES.iter().flat_map(|table| table.iter()) {
        let function = functions.entry(name).or_insert_with(|| Function { name, overloads: Vec::new() });
        function.overloads.push(overload(id, signature));
    }
    functions
});

/// The function of this name.
pub(crate) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

/// Reads `target.(argument, …) result` or `(argument, …) result`.
fn overload(id: &'static str, signature: &'static str) -> Overload {
    let mut reader = Reader { rest: signature };
    let mut args = Vec::new();
    let member = !reader.eat("(");
    if member {
        args.push(reader.type_());
        reader.eat(".(");
    }
    while !reader.eat(")") {
        args.push(reader.type_());
        reader.eat(", ");
    }
    reader.eat(" ");
    let result = reader.type_();
    let mut parameters = Vec::new();
    for type_ in args.iter().chain([&result]) {
        collect(type_, &mut parameters);
    }
    Overload { id, member, args, result, parameters }
}

fn collect(type_: &Type, into: &mut Vec<char>) {
    type_.rewritten(&mut |inner| {
        if let Type::Param(name) = inner
            && !into.contains(name)
        {
            into.push(*name);
        }
        None
    });
}

struct Reader {
    rest: &'static str,
}

impl Reader {
    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn type_(&mut self) -> Type {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let mut parameters = Vec::new();
        if matches!(name, "list" | "map" | "opt" | "type") && self.eat("(") {
            while !self.eat(")") {
                parameters.push(self.type_());
                self.eat(", ");
            }
        }
        let mut parameter = || if parameters.is_empty() { Type::Dyn } else { parameters.remove(0) };
        match name {
            "list" => Type::list(parameter()),
            "map" => {
                let key = parameter();
                Type::map(key, parameter())
            }
            "opt" => Type::optional(parameter()),
            "type" => Type::type_of(parameter()),
            _ => named(name).unwrap_or_else(|| Type::Param(name.chars().next().unwrap_or('A'))),
        }
    }
}

fn named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "dyn" => Type::Dyn,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "quantity" => Type::Object("kubernetes.Quantity"),
        "semver" => Type::Object("kubernetes.Semver"),
        "url" => Type::Object("kubernetes.URL"),
        "format" => Type::Object("kubernetes.NamedFormat"),
        "authorizer" => Type::Object("kubernetes.authorization.Authorizer"),
        "pathcheck" => Type::Object("kubernetes.authorization.PathCheck"),
        "groupcheck" => Type::Object("kubernetes.authorization.GroupCheck"),
        "resourcecheck" => Type::Object("kubernetes.authorization.ResourceCheck"),
        "decision" => Type::Object("kubernetes.authorization.Decision"),
        "ip" => Type::Opaque("net.IP", Arc::new([])),
        "cidr" => Type::Opaque("net.CIDR", Arc::new([])),
        _ => return None,
    })
}

/// Names of types that expressions can use as values: `type(x) == int`.
pub(crate) fn type_value(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" => Type::Opaque("net.IP", Arc::new([])),
        "net.CIDR" => Type::Opaque("net.CIDR", Arc::new([])),
        _ => return None,
    })
}

/// Names that the checker knows as types but that have no value at run time.
pub(crate) fn type_without_value(name: &str) -> Option<Type> {
    Some(match name {
        DEVICE => Type::Object(DEVICE),
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "google.protobuf.Any" => Type::Any,
        "google.protobuf.Value" => Type::Dyn,
        "google.protobuf.Struct" => Type::map(Type::String, Type::Dyn),
        "google.protobuf.ListValue" => Type::list(Type::Dyn),
        _ => return None,
    })
}
