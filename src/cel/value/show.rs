//! Values as texts, in the manner in which Go prints them into messages.

use std::fmt;

use super::Value;
use crate::cel::lib;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL_VALUE"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Double(value) => f.write_str(&lib::double_text(*value)),
            Self::String(text) => f.write_str(text),
            Self::Bytes(bytes) => {
                let numbers: Vec<String> = bytes.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", numbers.join(" "))
            }
            Self::Duration(nanos) => f.write_str(&lib::go_duration(*nanos)),
            Self::Timestamp(time) => f.write_str(&lib::rfc3339(*time)),
            Self::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Map(map) => {
                f.write_str("{")?;
                for (index, (key, value)) in map.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Optional(Some(value)) => write!(f, "optional({value})"),
            Self::Type(name) => f.write_str(name),
            Self::Quantity { amount, .. } => write!(f, "{amount}"),
            Self::Semver(version) => write!(f, "{version}"),
            Self::Url(url) => write!(f, "{url}"),
            Self::Ip(address) => write!(f, "{address}"),
            Self::Cidr(address, bits) => write!(f, "{address}/{bits}"),
            Self::Format(format) => f.write_str(format.name()),
        }
    }
}
