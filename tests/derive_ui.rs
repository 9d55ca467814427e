//! What the derive says about mistakes, and what it must compile.
//!
//! `TRYBUILD=overwrite cargo test --test derive_ui` writes the messages anew. They are those of the current stable
//! compiler.

#[test]
fn derive_ui() {
    let tests = trybuild::TestCases::new();
    tests.pass("tests/ui/pass/*.rs");
    for concern in ["attributes", "generics", "names", "shapes", "types"] {
        tests.compile_fail(format!("tests/ui/{concern}/*.rs"));
    }
}
