//! IP addresses and networks (apiserver/pkg/cel/library/ip.go, cidr.go).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Native;
use crate::cel::value::{Fault, Value};
use crate::model::semver::quoted;

pub(super) fn native(overload: &str) -> Option<Native> {
    Some(match overload {
        "string_to_ip" => |args| text(args, |text| parse_ip(text).map(Value::Ip)),
        "is_ip" => |args| text(args, |text| Ok(Value::Bool(parse_ip(text).is_ok()))),
        "ip_is_canonical" => |args| text(args, |text| Ok(Value::Bool(parse_ip(text)?.to_string() == text))),
        "ip_family" => |args| ip(args, |address| Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        "ip_is_unspecified" => |args| ip(args, |address| Value::Bool(address.is_unspecified())),
        "ip_is_loopback" => |args| ip(args, |address| Value::Bool(address.is_loopback())),
        "ip_is_link_local_multicast" => |args| {
            ip(args, |address| {
                Value::Bool(match address {
                    IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
                    IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
                })
            })
        },
        "ip_is_link_local_unicast" => |args| ip(args, |address| Value::Bool(is_link_local(address))),
        "ip_is_global_unicast" => |args| {
            ip(args, |address| {
                let broadcast = *address == IpAddr::V4(Ipv4Addr::BROADCAST);
                let special = address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_link_local(address);
                Value::Bool(!broadcast && !special)
            })
        },
        "string_to_cidr" => |args| {
            text(args, |text| {
                let network = parse_cidr(text)
                    .map_err(|reason| Fault::error(format!("network address parse error during conversion from string: {reason}")))?;
                Ok(Value::Cidr(network.0, network.1))
            })
        },
        "is_cidr" => |args| text(args, |text| Ok(Value::Bool(parse_cidr(text).is_ok()))),
        "cidr_contains_ip_string" => |args| match args {
            [Value::Cidr(network, bits), Value::String(text)] => {
                let address = parse_ip(text).map_err(|_| Fault::no_such_overload())?;
                Ok(Value::Bool(contains(*network, *bits, address)))
            }
            _ => Err(Fault::no_such_overload()),
        },
        "cidr_contains_ip_ip" => |args| match args {
            [Value::Cidr(network, bits), Value::Ip(address)] => Ok(Value::Bool(contains(*network, *bits, *address))),
            _ => Err(Fault::no_such_overload()),
        },
        "cidr_contains_cidr_string" => |args| match args {
            [Value::Cidr(network, bits), Value::String(text)] => {
                let (inner, inner_bits) = parse_cidr(text)
                    .map_err(|reason| Fault::error(format!("network address parse error during conversion from string: {reason}")))?;
                Ok(Value::Bool(contains_network(*network, *bits, inner, inner_bits)))
            }
            _ => Err(Fault::no_such_overload()),
        },
        "cidr_contains_cidr" => |args| match args {
            [Value::Cidr(network, bits), Value::Cidr(inner, inner_bits)] => {
                Ok(Value::Bool(contains_network(*network, *bits, *inner, *inner_bits)))
            }
            _ => Err(Fault::no_such_overload()),
        },
        "cidr_ip" => |args| match args {
            [Value::Cidr(network, _)] => Ok(Value::Ip(*network)),
            _ => Err(Fault::no_such_overload()),
        },
        "cidr_prefix_length" => |args| match args {
            [Value::Cidr(_, bits)] => Ok(Value::Int(i64::from(*bits))),
            _ => Err(Fault::no_such_overload()),
        },
        "cidr_masked" => |args| match args {
            [Value::Cidr(network, bits)] => Ok(Value::Cidr(masked(*network, *bits), *bits)),
            _ => Err(Fault::no_such_overload()),
        },
        _ => return None,
    })
}

fn text(args: &[Value], get: impl Fn(&str) -> Result<Value, Fault>) -> Result<Value, Fault> {
    match args {
        [Value::String(text)] => get(text),
        _ => Err(Fault::no_such_overload()),
    }
}

fn ip(args: &[Value], get: impl Fn(&IpAddr) -> Value) -> Result<Value, Fault> {
    match args {
        [Value::Ip(address)] => Ok(get(address)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, Fault> {
    let (address, zone) = text.split_once('%').map_or((text, ""), |(address, zone)| (address, zone));
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) if !zone.is_empty() => Err(Fault::error(format!("IP address {} with zone value is not allowed", quoted(text)))),
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() && zone.is_empty() && !text.contains('%') => {
            Err(Fault::error(format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text))))
        }
        Ok(address) if !text.contains('%') => Ok(address),
        _ => {
            let reason = format!("ParseAddr({}): {}", quoted(text), why_no_ip(text));
            Err(Fault::error(format!("IP Address {} parse error during conversion from string: {reason}", quoted(text))))
        }
    }
}

fn why_no_ip(text: &str) -> &'static str {
    match text.find(['.', ':', '%']).map(|at| text.as_bytes()[at]) {
        Some(b'.') => {
            let fields: Vec<&str> = text.split('.').collect();
            if text.bytes().any(|b| !b.is_ascii_digit() && b != b'.') {
                "unexpected character"
            } else if fields.iter().any(|field| field.is_empty()) {
                "IPv4 field must have at least one digit"
            } else if fields.iter().any(|field| field.len() > 1 && field.starts_with('0')) {
                "IPv4 field has octet with leading zero"
            } else if fields.iter().any(|field| field.parse::<u8>().is_err()) {
                "IPv4 field has value >255"
            } else if fields.len() > 4 {
                "IPv4 address too long"
            } else {
                "IPv4 address too short"
            }
        }
        Some(b'%') => "missing IPv6 address",
        Some(_) => "unexpected character",
        None => "unable to parse IP",
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let fail =
        |reason: &str| format!("network address parse error during conversion from string: netip.ParsePrefix({}): {reason}", quoted(text));
    let Some((address, bits)) = text.rsplit_once('/') else { return Err(fail("no '/'")) };
    if address.contains('%') {
        return Err(fail("IPv6 zones cannot be present in a prefix"));
    }
    let address: IpAddr = address.parse().map_err(|_| fail(&format!("ParseAddr({}): {}", quoted(address), why_no_ip(address))))?;
    let plain = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let length: Option<u8> = if plain { bits.parse().ok() } else { None };
    let Some(length) = length else { return Err(fail(&format!("bad bits after slash: {}", quoted(bits)))) };
    if length > if address.is_ipv4() { 32 } else { 128 } {
        return Err(fail("prefix length out of range"));
    }
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text))),
        _ => Ok((address, length)),
    }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0))),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0))),
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && masked(network, bits) == masked(address, bits)
}

fn contains_network(network: IpAddr, bits: u8, inner: IpAddr, inner_bits: u8) -> bool {
    bits <= inner_bits && contains(network, bits, inner)
}
