//! The derive's messages about mistakes, of the current stable compiler.
//!
//! `TRYBUILD=overwrite cargo test -p tensorfile-ui-tests` writes them anew.

#[test]
fn derive_ui() {
    let tests = trybuild::TestCases::new();
    for concern in ["attributes", "generics", "names", "shapes", "types"] {
        tests.compile_fail(format!("{concern}/*.rs"));
    }
}
