use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Name(String);

fn main() {}
