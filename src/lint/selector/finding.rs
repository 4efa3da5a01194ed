//! Findings as data.

use serde::Serialize;

use super::answers::Tally;
use crate::cel::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object is refused, or the scheduling attempt fails.
    Error,
    /// Legal, and most likely not what was meant.
    Warning,
    /// Worth knowing.
    Note,
}

macro_rules! traps {
    ($($(#[$doc:meta])* $name:ident $id:literal $text:literal,)*) => {
        /// A kind of trap. Its id never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Trap {
            $($(#[$doc])* $name,)*
        }

        impl Trap {
            /// All of them.
            pub const ALL: &'static [Trap] = &[$(Trap::$name),*];

            /// The stable id.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self { $(Trap::$name => concat!("DL-CEL-", $id)),* }
            }

            /// The id of its sentence in the text catalogue.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Trap::$name => concat!("cel.trap.", $text)),* }
            }
        }
    };
}

traps! {
    /// No device publishes anything under the domain.
    UnknownDomain "DOMAIN" "domain",
    /// No device publishes anything under the domain, and one with nearly that name is published.
    NearDomain "DOMAIN-NEAR" "domain-near",
    /// The domain in another letter case.
    DomainCase "DOMAIN-CASE" "domain-case",
    /// No device publishes the name under that domain.
    UnknownName "NAME" "name",
    /// No device publishes the name, and one with nearly that name is published.
    NearName "NAME-NEAR" "name-near",
    /// The name in another letter case.
    NameCase "NAME-CASE" "name-case",
    /// It is published under another domain.
    OtherDomain "NAME-DOMAIN" "name-domain",
    /// A capacity that is looked up among the attributes, or the reverse.
    OtherSpace "SPACE" "space",
    /// Only some devices publish the name.
    Missing "GUARD" "guard",
    /// A device before the first match fails.
    LuckOfOrder "ORDER" "order",
    /// Values of different types are never equal.
    Types "TYPES" "types",
    /// A version compared with a text.
    VersionText "VERSION-TEXT" "version-text",
    /// The value in another letter case.
    ValueCase "VALUE-CASE" "value-case",
    /// A value that no device has, and one with nearly that value.
    NearValue "VALUE-NEAR" "value-near",
    /// A value that no device has.
    UnknownValue "VALUE" "value",
    /// A part that is false on every device.
    NeverTrue "NEVER" "never",
    /// A part that is true on every device.
    AlwaysTrue "ALWAYS" "always",
    /// `80G` where devices have `80Gi`.
    DecimalSuffix "QUANTITY-SUFFIX" "quantity-suffix",
    /// A text that is no quantity.
    NotAQuantity "QUANTITY" "quantity",
    /// A text that is no version.
    NotAVersion "SEMVER" "semver",
    /// An attribute that is published with its driver's domain and without.
    Twice "TWICE" "twice",
    /// The result is no bool.
    NotBool "RESULT" "result",
    /// A device whose attributes cannot be read.
    BadDevice "DEVICE" "device",
    /// The cost limit was reached on a device.
    CostReached "COST" "cost",
    /// `device` has no such field.
    NoSuchField "FIELD" "field",
    /// `allowMultipleAllocations` needs a gate.
    GatedField "FIELD-GATE" "field-gate",
    /// A function that needs a gate.
    GatedFunction "FUNCTION-GATE" "function-gate",
    /// An attribute without the domain in front.
    NoDomain "NO-DOMAIN" "no-domain",
    /// `domain/name` as one key.
    SlashKey "SLASH-KEY" "slash-key",
    /// A quantity compared by an operator or with a text.
    QuantityOperator "QUANTITY-OPERATOR" "quantity-operator",
    /// A version compared by an operator.
    VersionOperator "VERSION-OPERATOR" "version-operator",
    /// `compareTo` gives a number.
    CompareResult "COMPARE-RESULT" "compare-result",
    /// `compareTo` wants a quantity or version and gets a text.
    CompareText "COMPARE-TEXT" "compare-text",
    /// The whole expression gives something that is no bool.
    StaticResult "STATIC-RESULT" "static-result",
    /// `=` where `==` is meant.
    Assignment "ASSIGNMENT" "assignment",
    /// `&` or `|` where `&&` or `||` is meant.
    SingleOperator "SINGLE-OPERATOR" "single-operator",
    /// Quotes are missing round a key or value.
    LostQuotes "QUOTES" "quotes",
    /// A name with a hyphen is a subtraction.
    Hyphen "HYPHEN" "hyphen",
    /// A library that Kubernetes does not have.
    NoSuchFunction "FUNCTION" "function",
    /// The estimate is over the limit.
    TooComplex "COMPLEX" "complex",
    /// The expression is too long.
    TooLong "LENGTH" "length",
}

impl Serialize for Trap {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// A rewrite that was tried on the devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// The expression.
    pub expression: String,
    /// What the devices answer to it.
    pub devices: Tally,
}

/// One trap that an expression is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which trap.
    #[serde(rename = "id")]
    pub trap: Trap,
    /// How bad it is.
    pub severity: Severity,
    /// Where in the expression, in characters.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "range")]
    pub span: Option<Span>,
    /// What the sentence is filled with.
    #[serde(serialize_with = "map")]
    pub values: Vec<(&'static str, String)>,
    /// A rewrite that does better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn range<S: serde::Serializer>(span: &Option<Span>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(|span| [span.start, span.end]).serialize(serializer)
}

fn map<S: serde::Serializer>(values: &[(&'static str, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().map(|(name, value)| (name, value)))
}

impl Finding {
    pub(super) fn new(trap: Trap, severity: Severity, span: Option<Span>) -> Self {
        Finding { trap, severity, span, values: Vec::new(), fix: None }
    }

    #[expect(clippy::needless_pass_by_value, reason = "numbers and texts are given as they are")]
    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.values.push((name, value.to_string()));
        self
    }

    pub(super) fn fixed(mut self, fix: Option<Fix>) -> Self {
        self.fix = fix;
        self
    }
}
