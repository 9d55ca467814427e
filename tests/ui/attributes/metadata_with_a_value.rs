use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear {
    #[tensor(metadata = "epochs")]
    epochs: u32,
}

fn main() {}
