use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear<'a> {
    #[tensor(metadata)]
    author: &'a str,
}

fn main() {}
