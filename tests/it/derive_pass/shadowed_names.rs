//! The generated code does not depend on names in scope.

#![no_implicit_prelude]
#![allow(dead_code, non_camel_case_types)]

mod core {}
mod serde {}
mod std {}

struct Box;
struct Err;
struct None;
struct Ok;
struct Option;
struct Result;
struct Self_;
struct Some;
struct String;
struct Vec;
trait Default {}
trait Into {}
trait Serialize {}
trait TensorFile {}

#[derive(::tensorfile::TensorFile)]
#[tensor(allow_unknown)]
struct Linear {
    weight: ::ndarray::Array2<f32>,
    #[tensor(default, shape = [2])]
    bias: ::ndarray::Array1<f32>,
}

#[derive(::tensorfile::TensorFile)]
#[tensor(prefix = "p")]
struct Prefixed<A: ::tensorfile::Element> {
    #[tensor(alias = "w")]
    weight: ::ndarray::Array2<A>,
}

#[derive(::tensorfile::TensorFile)]
struct Newtype(::ndarray::Array2<f32>);
