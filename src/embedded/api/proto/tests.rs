use super::*;

/// Where two values differ. What Go writes though it is nothing (null, zero, an empty text) may be missing.
fn differences(got: &Value, wanted: &Value, path: &str, out: &mut Vec<String>) {
    let nothing = |value: &Value| matches!(value, Value::Null | Value::Bool(false)) || *value == json!("") || *value == json!(0);
    match (got, wanted) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                differences(&got[key], &wanted[key], &format!("{path}/{key}"), out);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                differences(one, other, &format!("{path}/{at}"), out);
            }
        }
        _ if got == wanted || (got.is_null() && nothing(wanted)) => {}
        _ => out.push(format!("{path}: {got} is not {wanted}")),
    }
}

/// Objects that Go's serializer wrote, with the JSON that Go makes of them.
#[test]
fn reads_what_go_writes() {
    let mut read = 0;
    for line in include_str!("../../../../tests/cases/proto/objects.jsonl").lines() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let bytes = BASE64_STANDARD.decode(case["proto"].as_str().expect("a text")).expect("base64");
        let mut found = Vec::new();
        differences(&decode(&bytes).expect("readable"), &case["json"], "", &mut found);
        assert_eq!(found, Vec::<String>::new(), "{}", case["json"]["kind"]);
        read += 1;
    }
    assert!(read >= 20, "{read} objects");
}

/// A pointer to zero is a value.
#[test]
fn zero_behind_a_pointer_is_kept() {
    let options = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x02\x08\x00";
    let wanted = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    assert_eq!(decode(options).expect("options"), wanted);
}

#[test]
fn refuses_what_it_cannot_read() {
    let code = |body: &[u8]| decode(body).expect_err("refused").code;
    assert_eq!(code(b""), 400);
    assert_eq!(code(b"{}"), 400);
    assert_eq!(code(b"k8s\0\x0a\xff"), 400);
    let deployment = b"k8s\0\x0a\x15\x0a\x07apps/v1\x12\x0aDeployment";
    let status = decode(deployment).expect_err("refused");
    assert_eq!(status.code, 415);
    assert!(status.message.contains("Deployment"), "{status}");
    // A namespace whose metadata breaks off.
    assert_eq!(code(b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x03\x0a\x05a"), 400);
}

#[test]
fn every_field_of_every_message_is_in_the_schema() {
    let schema = schema::table();
    let mut unknown = Vec::new();
    for (name, fields) in messages() {
        let (package, message) = name.split_once('.').expect("a package");
        let full = if package == "meta" {
            format!("io.k8s.apimachinery.pkg.apis.meta.v1.{message}")
        } else {
            format!("io.k8s.api.{package}.v1.{message}")
        };
        let Some(node) = schema.named(&full) else { continue };
        let missing = fields.iter().filter(|field| **field != "-" && !field.starts_with('*'));
        unknown.extend(
            missing.filter(|field| node.child(schema, field.trim_start_matches('?')).is_none()).map(|field| format!("{name}.{field}")),
        );
    }
    assert_eq!(unknown, Vec::<String>::new());
}
