//! The derive's messages about mistakes, as printed by the current stable compiler.
//!
//! Run `TRYBUILD=overwrite cargo test -p tensorfile-ui-tests` to update them.

#[test]
fn derive_ui() {
    let tests = trybuild::TestCases::new();
    for concern in ["attributes", "generics", "names", "shapes", "types"] {
        tests.compile_fail(format!("{concern}/*.rs"));
    }
}
