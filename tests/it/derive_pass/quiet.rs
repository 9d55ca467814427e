//! The generated code causes no warnings.

#![deny(warnings, missing_docs, missing_debug_implementations, unreachable_pub, unused_qualifications)]
#![deny(single_use_lifetimes, trivial_casts, unused_lifetimes, unused_results, let_underscore)]

use ndarray::{Array1, ArrayView1};
use tensorfile::{Element, TensorFile};

#[derive(TensorFile)]
struct Private<A> {
    weight: Array1<A>,
}

/// A public struct of private parts.
#[derive(TensorFile)]
#[allow(missing_debug_implementations)]
pub struct Public<'a, A: Element> {
    private: Private<A>,
    view: ArrayView1<'a, A>,
}

#[deprecated]
#[derive(TensorFile)]
#[tensor(prefix = "old")]
struct Deprecated {
    #[deprecated]
    #[tensor(default)]
    weight: Array1<f32>,
}

#[derive(TensorFile)]
#[allow(non_snake_case, non_camel_case_types)]
struct odd_Name {
    Größe: Array1<f32>,
}

#[derive(TensorFile)]
struct Unit;

#[test]
fn causes_no_warnings() {
    let text = serde_json::to_string(&Public { private: Private { weight: Array1::ones(1) }, view: (&[1.0]).into() });
    assert!(text.is_ok());
    let _unit: Unit = serde_json::from_str("{}").unwrap();
    let _odd = odd_Name { Größe: Array1::ones(1) }.Größe;
    #[allow(deprecated)]
    let _old = Deprecated { weight: Array1::ones(1) }.weight;
}
