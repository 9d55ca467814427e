//! Loads layers of candle from tensor files of any format: a `VarBuilder` over a `File`.

use candle_core::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, Module, VarBuilder};
use tensorfile::{Dtype, File, Layout, TensorInfo, TensorMap};

/// The tensors of a file. Each is read when a layer asks for it.
struct Variables(File);

impl SimpleBackend for Variables {
    fn get(&self, expected: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, device)?;
        if *tensor.shape() == expected {
            return Ok(tensor);
        }
        let (msg, got) = (format!("tensor `{name}` has another shape"), tensor.shape().clone());
        Err(Error::UnexpectedShape { msg, expected, got }.bt())
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        let tensor = self.0.get(name).map_err(Error::wrap)?;
        let found = dtype_of(tensor.info())
            .ok_or_else(|| Error::msg(format!("tensor `{name}` is {}, which candle does not have", tensor.info())))?;
        let mut bytes = Vec::new();
        tensor.write_row_major_to(&mut bytes)?;
        Tensor::from_raw_buffer(&bytes, found, tensor.shape().dims(), device)?.to_dtype(dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.get(name).is_ok()
    }
}

/// Returns candle's dtype of the same elements, if the tensor is dense and candle has one.
fn dtype_of(info: &TensorInfo) -> Option<DType> {
    let is_dense = matches!(info.layout, Layout::RowMajor | Layout::DimOrder(_));
    Some(match info.dtype {
        _ if !is_dense => return None,
        Dtype::U8 => DType::U8,
        Dtype::U32 => DType::U32,
        Dtype::I16 => DType::I16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::Bf16 => DType::BF16,
        Dtype::F16 => DType::F16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::F8E4M3Fn => DType::F8E4M3,
        Dtype::F8E8M0 => DType::F8E8M0,
        Dtype::F6E2M3 => DType::F6E2M3,
        Dtype::F6E3M2 => DType::F6E3M2,
        Dtype::F4 => DType::F4,
        _ => return None,
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.ptd");
    let mut map = TensorMap::new();
    map.insert("head.weight", ndarray::array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    map.insert("head.bias", ndarray::array![0.5_f32, -0.5]);
    tensorfile::save(&path, &map)?;

    let device = Device::Cpu;
    let variables = Variables(File::open(&path)?);
    let builder = VarBuilder::from_backend(Box::new(variables), DType::F32, device.clone());
    let head = candle_nn::linear(3, 2, builder.pp("head"))?;
    let answer = head.forward(&Tensor::new(&[[1.0_f32, 0.0, -1.0]], &device)?)?;
    println!("{answer}");
    assert_eq!(answer.to_vec2::<f32>()?, [[-1.5, -2.5]]);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}

#[test]
fn every_dtype_of_candle_is_loaded() {
    let mut map = TensorMap::new();
    for dtype in tensorfile::safetensors::DTYPES {
        let info = TensorInfo::new(*dtype, [256, 2]);
        let bytes = vec![0; info.payload_bytes().unwrap()];
        map.insert(dtype.name(), tensorfile::Tensor::new(info, &bytes).unwrap());
    }
    let file = tensorfile::safetensors::to_vec(&map).unwrap();
    let variables = Variables(File::from_bytes(file).unwrap());
    let mut loaded = Vec::new();
    for tensor in variables.0.tensors() {
        match dtype_of(tensor.info()) {
            Some(dtype) => {
                let read = variables.get_unchecked(tensor.name(), dtype, &Device::Cpu).unwrap();
                assert_eq!((read.dtype(), read.dims()), (dtype, &[256, 2][..]));
                loaded.push(dtype.as_str());
            }
            None => {
                let error = variables.get_unchecked(tensor.name(), DType::F32, &Device::Cpu).unwrap_err();
                assert!(error.to_string().contains("which candle does not have"), "{error}");
            }
        }
    }
    assert_eq!(loaded.len(), 14, "{loaded:?}");
}

#[test]
fn errors_name_the_tensor() {
    let map = TensorMap::from_iter([("weight", ndarray::array![1.0_f32, 2.0])]);
    let file = File::from_bytes(tensorfile::ten::to_vec(&map).unwrap()).unwrap();
    let builder = VarBuilder::from_backend(Box::new(Variables(file)), DType::F32, Device::Cpu);
    let message = |result: Result<Tensor>| result.unwrap_err().to_string();
    let missing = message(builder.get(2, "wieght"));
    assert!(missing.contains("missing tensor `wieght`; the file has `weight`"), "{missing}");
    let shape = message(builder.get((1, 2), "weight"));
    assert!(shape.contains("tensor `weight` has another shape"), "{shape}");
    assert_eq!(builder.get_with_hints_dtype(2, "weight", Init::Const(0.0), DType::F64).unwrap().dtype(), DType::F64);
}
