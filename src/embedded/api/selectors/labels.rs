//! `labelSelector`: equality and set-based requirements, with the grammar and the complaints of
//! `k8s.io/apimachinery/pkg/labels`.

use serde_json::Value;

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In,
    NotIn,
    GreaterThan,
    LessThan,
}

impl Requirement {
    pub(super) fn matches(&self, labels: &Value) -> bool {
        let value = labels.get(&self.key).and_then(Value::as_str);
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = || self.values.first().and_then(|text| number(text));
        match self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::In => value.is_some_and(|value| self.values.iter().any(|wanted| wanted == value)),
            Operator::NotIn => value.is_none_or(|value| self.values.iter().all(|wanted| wanted != value)),
            Operator::GreaterThan => value.and_then(number).zip(bound()).is_some_and(|(value, bound)| value > bound),
            Operator::LessThan => value.and_then(number).zip(bound()).is_some_and(|(value, bound)| value < bound),
        }
    }
}

/// Reads a selector; empty selects everything.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut tokens = Tokens { tokens: scan(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match tokens.peek(Context::Values) {
            Token::Word(_) | Token::Sign("!") => {}
            Token::End => return Ok(requirements),
            other @ Token::Sign(_) => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
        }
        let requirement = requirement(&mut tokens).map_err(|error| format!("unable to parse requirement: {error}"))?;
        requirements.push(requirement);
        match tokens.next(Context::Values) {
            Token::End => return Ok(requirements),
            Token::Sign(",") => {}
            other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
        }
        let next = tokens.peek(Context::Values);
        if !matches!(next, Token::Word(_) | Token::Sign("!")) {
            return Err(format!("found '{}', expected: identifier after ','", next.text()));
        }
    }
}

fn requirement(tokens: &mut Tokens) -> Result<Requirement, String> {
    let negated = tokens.peek(Context::Values) == Token::Sign("!");
    if negated {
        tokens.next(Context::Values);
    }
    let key = match tokens.next(Context::Values) {
        Token::Word(key) => key,
        other => return Err(format!("found '{}', expected: identifier", other.text())),
    };
    let ends = matches!(tokens.peek(Context::Values), Token::End | Token::Sign(","));
    check_key(&key)?;
    if negated || ends {
        let operator = if negated { Operator::DoesNotExist } else { Operator::Exists };
        return Ok(Requirement { key, operator, values: Vec::new() });
    }
    let (operator, set) = match tokens.next(Context::Operators) {
        Token::Sign("=" | "==") => (Operator::In, false),
        Token::Sign("!=") => (Operator::NotIn, false),
        Token::Sign(">") => (Operator::GreaterThan, false),
        Token::Sign("<") => (Operator::LessThan, false),
        Token::Sign("in") => (Operator::In, true),
        Token::Sign("notin") => (Operator::NotIn, true),
        other => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
    };
    let mut values = if set { value_set(tokens)? } else { vec![exact_value(tokens)?] };
    values.sort();
    values.dedup();
    if matches!(operator, Operator::GreaterThan | Operator::LessThan)
        && let Some(value) = values.iter().find(|value| value.parse::<i64>().is_err())
    {
        return Err(format!("values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"));
    }
    for (at, value) in values.iter().enumerate() {
        check_value(&key, at, value)?;
    }
    Ok(Requirement { key, operator, values })
}

fn value_set(tokens: &mut Tokens) -> Result<Vec<String>, String> {
    match tokens.next(Context::Values) {
        Token::Sign("(") => {}
        other => return Err(format!("found '{}' expected: '('", other.text())),
    }
    let mut values = Vec::new();
    match tokens.peek(Context::Values) {
        Token::Word(_) | Token::Sign(",") => {}
        Token::Sign(")") => {
            tokens.next(Context::Values);
            return Ok(vec![String::new()]);
        }
        other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
    }
    loop {
        match tokens.next(Context::Values) {
            Token::Word(value) => {
                values.push(value);
                match tokens.next(Context::Values) {
                    Token::Sign(",") => {
                        if tokens.peek(Context::Values) == Token::Sign(")") {
                            values.push(String::new());
                            tokens.next(Context::Values);
                            return Ok(values);
                        }
                    }
                    Token::Sign(")") => return Ok(values),
                    other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                }
            }
            // An empty value stands before, between or after commas.
            Token::Sign(",") => values.push(String::new()),
            Token::Sign(")") => return Ok(values),
            other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
        }
    }
}

fn exact_value(tokens: &mut Tokens) -> Result<String, String> {
    match tokens.peek(Context::Values) {
        Token::End | Token::Sign(",") => return Ok(String::new()),
        _ => {}
    }
    match tokens.next(Context::Values) {
        Token::Word(value) => Ok(value),
        other => Err(format!("found '{}', expected: identifier", other.text())),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(word) => word,
            Token::Sign(sign) => sign,
            Token::End => "",
        }
    }
}

/// `in` and `notin` are operators after a key and words elsewhere.
#[derive(Clone, Copy)]
enum Context {
    Operators,
    Values,
}

struct Tokens {
    tokens: Vec<Token>,
    at: usize,
}

impl Tokens {
    fn peek(&self, context: Context) -> Token {
        match (self.tokens.get(self.at), context) {
            (None, _) => Token::End,
            (Some(Token::Word(word)), Context::Operators) if word == "in" => Token::Sign("in"),
            (Some(Token::Word(word)), Context::Operators) if word == "notin" => Token::Sign("notin"),
            (Some(token), _) => token.clone(),
        }
    }

    fn next(&mut self, context: Context) -> Token {
        let token = self.peek(context);
        self.at += 1;
        token
    }
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn scan(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
    while !rest.is_empty() {
        let length = match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => {
                tokens.push(Token::Sign(sign));
                sign.len()
            }
            None => {
                let end = rest.find(|c: char| "=!(),>< \t\r\n".contains(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].to_owned()));
                end
            }
        };
        rest = rest[length..].trim_start_matches([' ', '\t', '\r', '\n']);
    }
    tokens
}

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        }
        _ => false,
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let complain = |fault: &str| Err(format!("key: Invalid value: {}: {fault}", Value::from(key)));
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        return complain(&format!(
            "a qualified name {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ));
    }
    if prefix == Some("") {
        return complain("prefix part must be non-empty");
    }
    if let Some(fault) = prefix.and_then(|prefix| crate::embedded::api::names::subdomain_faults(prefix).into_iter().next()) {
        return complain(&format!("prefix part {fault}"));
    }
    if name.len() > 63 {
        return complain("name part must be no more than 63 characters");
    }
    if is_name(name) { Ok(()) } else { complain(&format!("name part {NAME_RULE}")) }
}

fn check_value(key: &str, at: usize, value: &str) -> Result<(), String> {
    let complain = |fault: &str| Err(format!("values[{at}][{key}]: Invalid value: {}: {fault}", Value::from(value)));
    if value.len() > 63 {
        return complain("must be no more than 63 characters");
    }
    if value.is_empty() || is_name(value) { Ok(()) } else { complain(VALUE_RULE) }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use serde_json::json;

    #[test]
    fn what_is_selected() {
        let labels = json!({"a": "b", "n": "5", "e": "", "x.y/z": "w"});
        let table = [
            ("", true),
            ("a", true),
            ("!a", false),
            ("! q", true),
            ("a=b", true),
            ("a==b", true),
            ("a = c", false),
            ("a!=c", true),
            ("q!=c", true),
            ("a in (b, c)", true),
            ("a in (c)", false),
            ("a notin (b)", false),
            ("q notin (b)", true),
            ("e=", true),
            ("e in (,a)", true),
            ("e in ()", true),
            ("n>4,n<6", true),
            ("n>5", false),
            ("a>1", false),
            ("x.y/z=w,a", true),
            ("in=b", false),
            ("a=b,q", false),
        ];
        for (selector, selected) in table {
            let requirements = parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
            assert_eq!(requirements.iter().all(|requirement| requirement.matches(&labels)), selected, "{selector}");
        }
    }

    #[test]
    fn complaints() {
        let table = [
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a>b", "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ];
        for (selector, complaint) in table {
            assert_eq!(parse(selector), Err(complaint.to_owned()), "{selector}");
        }
        assert!(parse("a=-b").unwrap_err().contains("a valid label must be an empty string or consist of"));
        assert!(parse("-a=b").unwrap_err().contains("key: Invalid value: \"-a\": name part must consist of"));
    }
}
