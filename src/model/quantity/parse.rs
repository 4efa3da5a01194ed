//! Reads the text of a quantity, as `ParseQuantity` does.

use std::cmp::Ordering;

use super::super::decimal::BigDecimal;
use super::{Amount, Format, MAX_SHIFT, NANO, Quantity, QuantityError, compare, round_away};

/// The parts of a text that looks like a quantity.
pub(super) struct Parts<'t> {
    negative: bool,
    /// Sign, digits and point, as given.
    number: &'t str,
    /// Digits before the point, leading zeros removed; `0` if none are left.
    whole: &'t str,
    /// Digits after the point.
    fraction: &'t str,
    pub(super) suffix: &'t str,
}

impl<'t> Parts<'t> {
    pub(super) fn split(text: &'t str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let significant = unsigned.trim_start_matches('0');
        if significant.is_empty() {
            return Ok(Self { negative, number: "0", whole: "0", fraction: "", suffix: "" });
        }
        let whole_end = significant.find(|c: char| !c.is_ascii_digit()).unwrap_or(significant.len());
        let (whole, rest) = significant.split_at(whole_end);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
            None => ("", rest),
        };
        let number = &text[..text.len() - suffix.len()];
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        Ok(Self { negative, number, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
    }

    /// The small form, where Kubernetes takes it.
    pub(super) fn small(&self, text: &str, exponent: i32, format: Format) -> Result<Option<Quantity>, QuantityError> {
        let digits = self.whole.len() + self.fraction.len();
        let (multiplier, fits) = match format {
            Format::BinarySi => {
                if !self.fraction.is_empty() {
                    return Ok(None);
                }
                let used = (f64::from(exponent) * 3.0 / 10.0) as i64;
                (1i64 << exponent, 15 - self.whole.len() as i64 - used > 0)
            }
            Format::DecimalExponent | Format::DecimalSi => (1, digits <= 18),
        };
        let base = if format == Format::BinarySi { 0 } else { exponent };
        let Some(scale) = base.checked_sub(self.fraction.len() as i32).filter(|scale| fits && *scale >= NANO) else {
            return Ok(None);
        };
        let shifted = format!("{}{}", self.whole, self.fraction);
        let value: i64 = shifted.parse().map_err(|_| QuantityError::Number)?;
        let Some(magnitude) = value.checked_mul(multiplier) else { return Ok(None) };
        let unchanged = match format {
            Format::BinarySi => exponent % 10 == 0 && value & 7 != 0,
            _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
        };
        let value = if self.negative { -magnitude } else { magnitude };
        Ok(Some(Quantity { amount: Amount::Small { value, scale }, format, text: unchanged.then(|| text.into()) }))
    }

    pub(super) fn big(&self, exponent: i32, mut format: Format) -> Result<Quantity, QuantityError> {
        let digits: String = self.number.chars().filter(char::is_ascii_digit).collect();
        if digits.is_empty() {
            return Err(QuantityError::Number);
        }
        let mut unscaled = BigDecimal::from_digits(&digits);
        let mut scale = -(self.number.split_once('.').map_or(0, |(_, fraction)| fraction.len()) as i64);
        if format == Format::BinarySi {
            for _ in 0..exponent / 10 {
                unscaled = unscaled.times(1024);
            }
        } else {
            scale += i64::from(exponent);
        }
        if !unscaled.is_zero() {
            let up = scale - i64::from(NANO);
            if up < 0 {
                (unscaled, scale) = (round_away(&unscaled, -up).0, i64::from(NANO));
            } else if up <= MAX_SHIFT {
                (unscaled, scale) = (unscaled.shifted_up(up as usize), i64::from(NANO));
            }
        }
        if format == Format::BinarySi {
            let magnitude = (&unscaled, scale);
            if compare(magnitude, (&BigDecimal::from_i64(i64::MAX), 0)) == Ordering::Greater {
                (unscaled, scale) = (BigDecimal::from_i64(i64::MAX), 0);
            } else if !unscaled.is_zero() && compare(magnitude, (&BigDecimal::from_i64(1), 0)) == Ordering::Less {
                format = Format::DecimalSi;
            }
        }
        let unscaled = if self.negative { unscaled.negated() } else { unscaled };
        Ok(Quantity { amount: Amount::Big { unscaled, scale }, format, text: None })
    }
}

/// The power (of ten, or of two for the binary format) and the format a suffix stands for.
pub(super) fn suffix(suffix: &str) -> Option<(i32, Format)> {
    Some(match suffix {
        "" => (0, Format::DecimalSi),
        "n" => (-9, Format::DecimalSi),
        "u" => (-6, Format::DecimalSi),
        "m" => (-3, Format::DecimalSi),
        "k" => (3, Format::DecimalSi),
        "M" => (6, Format::DecimalSi),
        "G" => (9, Format::DecimalSi),
        "T" => (12, Format::DecimalSi),
        "P" => (15, Format::DecimalSi),
        "E" => (18, Format::DecimalSi),
        "Ki" => (10, Format::BinarySi),
        "Mi" => (20, Format::BinarySi),
        "Gi" => (30, Format::BinarySi),
        "Ti" => (40, Format::BinarySi),
        "Pi" => (50, Format::BinarySi),
        "Ei" => (60, Format::BinarySi),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Upstream truncates to 32 bits as well.
            (exponent as i32, Format::DecimalExponent)
        }
    })
}
