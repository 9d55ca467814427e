use tensorfile::TensorFile;

#[derive(TensorFile)]
#[tensor(cast, dequantize)]
struct Settings {
    #[tensor(skip)]
    name: String,
    #[tensor(metadata)]
    epochs: u32,
}

fn main() {}
