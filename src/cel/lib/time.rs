//! Durations and timestamps: reading, printing and the getters.

use std::ops::RangeInclusive;

use super::Native;
use crate::cel::value::{Fault, Timestamp, Value};

/// Seconds of the years 1 to 9999.
pub(super) const RANGE: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

const DAY: i64 = 86_400;

/// Go's `time.ParseDuration`: `1h30m`, `-1.5s`, `0`.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let nanos: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok().filter(|whole| *whole <= 1 << 63)? };
        total = total.checked_add(whole.checked_mul(nanos)?)?;
        let digits = fraction.get(..fraction.len().min(18)).unwrap_or_default();
        if !digits.is_empty() {
            let fraction: f64 = digits.parse().ok()?;
            total += (fraction * (nanos as f64 / 10f64.powi(digits.len() as i32))) as u128;
        }
        if total > 1 << 63 {
            return None;
        }
        rest = tail;
    }
    let total = total as i128;
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Go's `Duration.String`: `1h30m0s`, `1.5ms`.
pub(crate) fn go_duration(nanos: i64) -> String {
    let magnitude = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let scaled = |unit: u64, name: &str| {
        let fraction = format!("{:0width$}", magnitude % unit, width = unit.ilog10() as usize);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() || unit == 1 { String::new() } else { format!(".{fraction}") };
        format!("{sign}{}{point}{name}", magnitude / unit)
    };
    match magnitude {
        0 => "0s".to_owned(),
        1..1_000 => scaled(1, "ns"),
        1_000..1_000_000 => scaled(1_000, "µs"),
        1_000_000..1_000_000_000 => scaled(1_000_000, "ms"),
        _ => {
            let total = magnitude / 1_000_000_000;
            let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
            let fraction = format!("{:09}", magnitude % 1_000_000_000);
            let fraction = fraction.trim_end_matches('0');
            let seconds = if fraction.is_empty() { format!("{seconds}s") } else { format!("{seconds}.{fraction}s") };
            match (hours, minutes) {
                (0, 0) => format!("{sign}{seconds}"),
                (0, _) => format!("{sign}{minutes}m{seconds}"),
                _ => format!("{sign}{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

/// Days since 1970 of a date of the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of days since 1970.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads `2024-01-31T12:30:00.5+01:00`.
pub(super) fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let number = |from: usize, length: usize| -> Option<i64> {
        let part = text.get(from..from + length)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let is = |at: usize, expected: u8| (bytes.get(at) == Some(&expected)).then_some(());
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    is(4, b'-').and(is(7, b'-')).and(is(10, b'T')).and(is(13, b':')).and(is(16, b':'))?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return None;
        }
        nanos = format!("{:0<9}", &fraction[..length.min(9)]).parse().ok()?;
        rest = &fraction[length..];
    }
    let offset = if rest == "Z" {
        0
    } else {
        let sign = match rest.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let at = text.len() - rest.len();
        is(at + 3, b':')?;
        let (hours, minutes) = (number(at + 1, 2)?, number(at + 4, 2)?);
        if rest.len() != 6 || hours > 24 || minutes > 60 {
            return None;
        }
        sign * (hours * 3600 + minutes * 60)
    };
    let seconds = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
    Some(Timestamp { seconds, nanos, offset: offset as i32 })
}

/// The timestamp in the zone it was written in, fractions only as far as needed.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    let local = at.seconds + i64::from(at.offset);
    let (year, month, day) = civil_from_days(local.div_euclid(DAY));
    let second = local.rem_euclid(DAY);
    let fraction = format!("{:09}", at.nanos);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    let zone = match at.offset {
        0 => "Z".to_owned(),
        offset => {
            let minutes = offset.abs() / 60;
            format!("{}{:02}:{:02}", if offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
        }
    };
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}{point}{zone}", second / 3600, second / 60 % 60, second % 60)
}

/// The offset of a named zone or of `+HH:MM` at a time.
fn zone_offset(zone: &str, at: Timestamp) -> Result<i64, Fault> {
    if let Some((hours, minutes)) = zone.split_once(':') {
        let number =
            |text: &str| text.parse::<i64>().map_err(|_| Fault::error(format!("strconv.Atoi: parsing \"{text}\": invalid syntax")));
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let minutes = if zone.starts_with('-') { hours.saturating_mul(60) - minutes } else { hours.saturating_mul(60) + minutes };
        return Ok(minutes.saturating_mul(60).clamp(-DAY * 400, DAY * 400));
    }
    if matches!(zone, "" | "UTC" | "Local") {
        return Ok(0);
    }
    let unknown = || Fault::error(format!("unknown time zone {zone}"));
    let time_zone = jiff::tz::TimeZone::get(zone).map_err(|_| unknown())?;
    // The last days of the year 9999 are beyond the library; zones have no changes there.
    let seconds = at.seconds.clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
    let instant = jiff::Timestamp::from_second(seconds).map_err(|_| unknown())?;
    Ok(i64::from(time_zone.to_offset(instant).seconds()))
}

pub(super) fn native(overload: &str) -> Option<Native> {
    macro_rules! getter {
        ($get:expr) => {
            |args| match args {
                [Value::Timestamp(at)] => Ok(Value::Int($get(at.seconds, at.nanos))),
                [Value::Timestamp(at), Value::String(zone)] => Ok(Value::Int($get(at.seconds + zone_offset(zone, *at)?, at.nanos))),
                _ => Err(Fault::no_such_overload()),
            }
        };
    }
    macro_rules! duration {
        ($nanos:expr) => {
            |args| match args {
                [Value::Duration(nanos)] => Ok(Value::Int(nanos / $nanos)),
                _ => Err(Fault::no_such_overload()),
            }
        };
    }
    Some(match overload {
        "timestamp_to_year" | "timestamp_to_year_with_tz" => getter!(|s: i64, _| civil_from_days(s.div_euclid(DAY)).0),
        "timestamp_to_month" | "timestamp_to_month_with_tz" => getter!(|s: i64, _| civil_from_days(s.div_euclid(DAY)).1 - 1),
        "timestamp_to_day_of_year" | "timestamp_to_day_of_year_with_tz" => getter!(|s: i64, _| {
            let days = s.div_euclid(DAY);
            days - days_from_civil(civil_from_days(days).0, 1, 1)
        }),
        "timestamp_to_day_of_month" | "timestamp_to_day_of_month_with_tz" => {
            getter!(|s: i64, _| civil_from_days(s.div_euclid(DAY)).2 - 1)
        }
        "timestamp_to_day_of_month_1_based" | "timestamp_to_day_of_month_1_based_with_tz" => {
            getter!(|s: i64, _| civil_from_days(s.div_euclid(DAY)).2)
        }
        "timestamp_to_day_of_week" | "timestamp_to_day_of_week_with_tz" => getter!(|s: i64, _| (s.div_euclid(DAY) + 4).rem_euclid(7)),
        "timestamp_to_hours" | "timestamp_to_hours_with_tz" => getter!(|s: i64, _| s.rem_euclid(DAY) / 3600),
        "timestamp_to_minutes" | "timestamp_to_minutes_with_tz" => getter!(|s: i64, _| s.rem_euclid(3600) / 60),
        "timestamp_to_seconds" | "timestamp_to_seconds_tz" => getter!(|s: i64, _| s.rem_euclid(60)),
        "timestamp_to_milliseconds" | "timestamp_to_milliseconds_with_tz" => getter!(|_, nanos| i64::from(nanos / 1_000_000)),
        "duration_to_hours" => duration!(3_600_000_000_000),
        "duration_to_minutes" => duration!(60_000_000_000),
        "duration_to_seconds" => duration!(1_000_000_000),
        "duration_to_milliseconds" => duration!(1_000_000),
        _ => return None,
    })
}
