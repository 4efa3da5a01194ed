//! Quantities: what parses prints as something that parses to the same amount; arithmetic never panics.
#![no_main]

use dralab::model::quantity::Quantity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str)| {
    let (Ok(a), Ok(b)) = (Quantity::parse(texts.0), Quantity::parse(texts.1)) else { return };
    let printed = Quantity::parse(&a.to_string()).expect("what is printed parses");
    assert_eq!(printed.cmp(&a), std::cmp::Ordering::Equal, "{:?} prints as {a}", texts.0);
    assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
    let _ = (a.add(&b), a.sub(&b), a.as_i64(), a.approximate_f64(), a.value(), a.milli_value(), a.sign());
});
