//! Writes and reads files with the crate TensorBuffers. The crate is not published, and its reader and writer are
//! private, so this program must be inside of its repository.
//!
//! In a clone of <https://github.com/russellwmy/tensorbuffers> at 2422de1, copy this file to `src/main.rs`, delete
//! `build.rs` (the bindings are there already), and add `io-util` to the features of tokio. Then, by hand:
//!
//! ```sh
//! cargo run -- write FOLDER                                          # a file for each dtype
//! tensorfile convert FOLDER/f64.tbs ours.tbs                         # ours, of the same tensors
//! cargo run -- read ours.tbs layers.0.weight scalar
//! ```
#![allow(dead_code)]

mod constants;
mod generated;
mod num_trait;
mod tensor;
mod tensor_buffers;
mod tensor_buffers_file;
mod tensor_buffers_reader;
mod tensor_buffers_writer;
mod tensor_operation;
mod utils;
pub use generated::tensor_buffers::Operation;
pub use num_trait::{DataType, Num, Zero};
pub use tensor::Tensor;
pub use tensor_buffers::TensorBuffers;
pub use tensor_buffers_file::RemoteFile;
pub use tensor_buffers_writer::TensorBuffersWriter;
pub use tensor_operation::TensorOperation;
pub type TensorId = u64;
pub type TensorOperationId = u64;
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

use generated::tensor_buffers::{DataType as D, TensorBuffersMetadata};
use tensor_buffers_reader::{TensorBuffersRead, TensorBuffersReader};
use tensor_buffers_writer::TensorBuffersWrite;

async fn read(path: &str, names: &[String]) -> Result<()> {
    let mut reader = TensorBuffersReader::new(tokio::fs::File::open(path).await?);
    let mut metadata = vec![0; reader.get_metadata_size().await?];
    reader.read_metadata(&mut metadata).await?;
    let root = flatbuffers::root::<TensorBuffersMetadata>(&metadata)?;
    let tensors = root.tensors().unwrap();
    for name in names {
        let key = utils::hash_key(name);
        let tensor = tensors.lookup_by_key(key, |field, key| field.key_compare_with_value(*key)).ok_or("not found")?;
        let mut bytes = vec![0; tensor.data_size() as usize];
        reader.read_data_with_metadata(tensor, &mut bytes).await?;
        let shape: Vec<u32> = tensor.shape().unwrap().iter().collect();
        macro_rules! show {
            ($($dtype:ident $t:ty),*) => {
                match tensor.data_type() {
                    $(D::$dtype => {
                        let t = Tensor::<$t>::new_with_metadata_and_data(tensor, bytes)?;
                        println!("{} {:?} {shape:?} {:?}", t.name(), t.data_type(), t.data());
                    })*
                    other => return Err(format!("{other:?}").into()),
                }
            };
        }
        show!(Int8 i8, Int16 i16, Int32 i32, Int64 i64, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Float32 f32, Float64 f64);
    }
    Ok(())
}

/// Writes a file for each dtype, and one whose only tensor has no elements.
async fn write(folder: &str) -> Result<()> {
    macro_rules! put {
        ($($t:ident),*) => {$({
            let (data, scalar) = ((0..6).map(|i| i as $t).collect::<Vec<_>>(), [7 as $t]);
            let weight = Tensor::new("layers.0.weight", &data, vec![2, 3]);
            let operation = TensorOperation::new(1, Operation::None, vec![], weight.id());
            let tensors =
                vec![weight, Tensor::new("scalar", &scalar, vec![]), Tensor::new("empty", &data[..0], vec![0, 4])];
            let file = tokio::fs::File::create(format!("{folder}/{}.tbs", stringify!($t))).await?;
            TensorBuffersWriter::new(file).write(tensors, vec![operation]).await?;
        })*};
    }
    put!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);
    let file = tokio::fs::File::create(format!("{folder}/empty.tbs")).await?;
    TensorBuffersWriter::new(file).write(vec![Tensor::new("empty", &[0_f32; 0], vec![0, 4])], vec![]).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args[0] == "write" {
        write(&args[1]).await
    } else {
        read(&args[1], &args[2..]).await
    }
}
