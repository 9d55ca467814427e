use tensorfile::TensorFile;

struct Epochs(u32);

#[derive(TensorFile)]
struct Linear {
    #[tensor(metadata)]
    epochs: Epochs,
}

fn main() {}
