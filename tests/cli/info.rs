use super::Session;

#[test]
fn tells_what_a_file_is() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "info model.ptd",
        "info --bytes sparse.btf",
        "info --json model.ptd"
    ]));
}
