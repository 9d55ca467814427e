//! Structs that the derive must accept, one module per concern. Mistakes are in `tests/ui`.

#[allow(dead_code, reason = "the structs only have to compile")]
mod attributes;
#[allow(dead_code, reason = "the structs only have to compile")]
mod generics;
#[allow(dead_code, reason = "the structs only have to compile")]
mod macros;
// Public, as lints for public items spare what cannot be reached.
pub mod quiet;
#[allow(dead_code, reason = "the structs only have to compile")]
mod recursive;
mod shadowed_names;
#[allow(dead_code, reason = "the structs only have to compile")]
mod shapes;
