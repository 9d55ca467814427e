use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Linear<'a> {
    weight: &'a [f32],
}

fn main() {}
