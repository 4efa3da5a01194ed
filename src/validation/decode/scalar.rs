//! Scalars with a format: quantities, times, base64, and Go's names of string types.

use crate::model::quantity::Quantity;

/// A resource quantity in its canonical form, as Kubernetes prints it.
pub(crate) fn quantity(text: &str) -> Result<String, String> {
    Quantity::parse(text).map(|quantity| quantity.to_string()).map_err(|error| error.to_string())
}

/// Checks an RFC 3339 time.
pub(crate) fn time(text: &str) -> Result<(), String> {
    match text.parse::<jiff::Timestamp>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\"")),
    }
}

/// Checks standard base64 with padding.
pub(crate) fn base64(text: &str) -> Result<(), String> {
    let bytes: Vec<(usize, u8)> = text.bytes().enumerate().filter(|(_, b)| !matches!(b, b'\r' | b'\n')).collect();
    let body = bytes.iter().take_while(|(_, b)| *b != b'=').count();
    let padding = bytes.len() - body;
    if let Some((at, _)) = bytes.iter().take(body).find(|(_, b)| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))) {
        return Err(format!("illegal base64 data at input byte {at}"));
    }
    let padded = bytes.len().is_multiple_of(4) && padding <= 2 && bytes.iter().skip(body).all(|(_, b)| *b == b'=');
    if padded { Ok(()) } else { Err(format!("illegal base64 data at input byte {}", body.saturating_sub(body % 4))) }
}

/// String and number fields that are of a named type in Go, which decoding errors then show.
const NAMED: &[(&str, &str, &str)] = &[
    ("Container", "imagePullPolicy", "v1.PullPolicy"),
    ("ContainerPort", "protocol", "v1.Protocol"),
    ("DeviceConstraint", "distinctAttribute", "v1.FullyQualifiedName"),
    ("DeviceConstraint", "matchAttribute", "v1.FullyQualifiedName"),
    ("DeviceSubRequest", "allocationMode", "v1.DeviceAllocationMode"),
    ("DeviceTaint", "effect", "v1.DeviceTaintEffect"),
    ("DeviceToleration", "effect", "v1.DeviceTaintEffect"),
    ("DeviceToleration", "operator", "v1.DeviceTolerationOperator"),
    ("ExactDeviceRequest", "allocationMode", "v1.DeviceAllocationMode"),
    ("ObjectMeta", "uid", "types.UID"),
    ("OwnerReference", "uid", "types.UID"),
    ("PodSpec", "dnsPolicy", "v1.DNSPolicy"),
    ("PodSpec", "restartPolicy", "v1.RestartPolicy"),
    ("PodStatus", "phase", "v1.PodPhase"),
    ("ResourceRequirements", "limits", "v1.ResourceList"),
    ("ResourceRequirements", "requests", "v1.ResourceList"),
    ("Secret", "type", "v1.SecretType"),
    ("Taint", "effect", "v1.TaintEffect"),
    ("Toleration", "effect", "v1.TaintEffect"),
    ("Toleration", "operator", "v1.TolerationOperator"),
];

/// Go's name of the type of `owner.field`, where it is not a built-in one.
pub(crate) fn named_type(owner: &str, field: &str) -> Option<&'static str> {
    NAMED.iter().find(|(o, f, _)| *o == owner && *f == field).map(|(_, _, name)| *name)
}
