//! The protobuf wire format, as far as Kubernetes uses it.

use jiff::Timestamp;
use serde_json::{Value, json};

/// A damaged message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error("unexpected EOF")]
    End,
    #[error("integer overflow")]
    Overflow,
    #[error("illegal wire type")]
    Type,
    #[error("a text is not UTF-8")]
    Text,
    #[error("a raw value is not JSON")]
    Json,
    #[error("a time is out of range")]
    Time,
    #[error("messages are nested too deeply")]
    Depth,
}

/// A field as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) number: usize,
    pub(super) payload: Payload<'a>,
}

/// What a field carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// A number of 7 bits per byte, and what follows it.
pub(super) fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), WireError> {
    let mut number = 0u64;
    for (at, byte) in bytes.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * u32::try_from(at).unwrap_or(u32::MAX);
        if shift > 63 || (shift == 63 && bits > 1) {
            return Err(WireError::Overflow);
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((number, bytes.get(at + 1..).unwrap_or_default()));
        }
    }
    Err(WireError::End)
}

/// The fields of a message, in order; ends after the first fault.
pub(super) fn fields(bytes: &[u8]) -> impl Iterator<Item = Result<Field<'_>, WireError>> {
    let mut rest = bytes;
    let mut failed = false;
    std::iter::from_fn(move || {
        if rest.is_empty() || failed {
            return None;
        }
        Some(match next(rest) {
            Ok((field, after)) => {
                rest = after;
                Ok(field)
            }
            Err(error) => {
                failed = true;
                Err(error)
            }
        })
    })
}

fn next(bytes: &[u8]) -> Result<(Field<'_>, &[u8]), WireError> {
    let (key, rest) = varint(bytes)?;
    let number = usize::try_from(key >> 3).map_err(|_| WireError::Overflow)?;
    let (payload, rest) = match key & 7 {
        0 => varint(rest).map(|(number, rest)| (Payload::Number(number), rest))?,
        1 => rest.split_first_chunk::<8>().map(|(b, rest)| (Payload::Fixed64(u64::from_le_bytes(*b)), rest)).ok_or(WireError::End)?,
        5 => rest.split_first_chunk::<4>().map(|(b, rest)| (Payload::Fixed32(u32::from_le_bytes(*b)), rest)).ok_or(WireError::End)?,
        2 => {
            let (length, rest) = varint(rest)?;
            let length = usize::try_from(length).map_err(|_| WireError::Overflow)?;
            rest.split_at_checked(length).map(|(bytes, rest)| (Payload::Bytes(bytes), rest)).ok_or(WireError::End)?
        }
        _ => return Err(WireError::Type),
    };
    Ok((Field { number, payload }, rest))
}

/// The last value of a field.
pub(super) fn first(bytes: &[u8], wanted: usize) -> Result<Option<Payload<'_>>, WireError> {
    let mut found = None;
    for field in fields(bytes) {
        let field = field?;
        if field.number == wanted {
            found = Some(field.payload);
        }
    }
    Ok(found)
}

pub(super) fn text(bytes: &[u8]) -> Result<String, WireError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| WireError::Text)
}

/// A time of seconds (1) and nanoseconds (2); null without seconds.
pub(super) fn time(message: &[u8], micro: bool) -> Result<Value, WireError> {
    let number = |field: usize| match first(message, field) {
        Ok(Some(Payload::Number(number))) => Ok(Some(number.cast_signed())),
        Ok(_) => Ok(None),
        Err(error) => Err(error),
    };
    let Some(seconds) = number(1)? else { return Ok(Value::Null) };
    let nanos = i32::try_from(number(2)?.unwrap_or(0)).map_err(|_| WireError::Time)?;
    let at = Timestamp::new(seconds, nanos).map_err(|_| WireError::Time)?;
    let form = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(json!(at.strftime(form).to_string()))
}
