use tensorfile::TensorFile;

#[derive(TensorFile)]
union Number {
    float: f32,
    bits: u32,
}

fn main() {}
