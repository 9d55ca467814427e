use super::Session;

#[test]
fn describes_files() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "info model.ptd",
        "info --bytes sparse.btf",
        "info --json model.ptd"
    ]));
}
