use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Epochs(#[tensor(metadata)] u32);

fn main() {}
