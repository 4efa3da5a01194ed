//! The function libraries of Kubernetes' base environment: what is declared ([`signatures`]) and what each does.

mod format;
mod lists;
mod net;
mod numbers;
mod re2;
mod regex;
mod signatures;
mod strings;
mod text_format;
mod time;
mod url;
mod versions;

pub(crate) use self::format::Format;
pub(crate) use self::lists::insert_into;
pub(crate) use self::numbers::{double_text, operator};
pub(crate) use self::regex::Pattern;
pub(crate) use self::signatures::SIGNATURES;
pub(crate) use self::text_format::check_template;
pub(crate) use self::time::{go_duration, rfc3339};
pub(crate) use self::url::Url;

use super::value::{Fault, Value};

/// What implements one overload. The arguments were checked against its signature.
pub(crate) type Native = fn(&[Value]) -> Result<Value, Fault>;

/// The implementation of an overload that has one of its own.
pub(crate) fn native(overload: &str) -> Option<Native> {
    [
        numbers::native,
        strings::native,
        lists::native,
        versions::native,
        net::native,
        format::native,
        time::native,
        regex::native,
        url::native,
    ]
    .iter()
    .find_map(|library| library(overload))
}
