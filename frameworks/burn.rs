//! Fills the parameters of a burn module from a tensor file of any format.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Bool, BoolStore, DType, Device, Float, Int, Shape, Tensor, TensorData};
use tensorfile::{Dtype, ErrorKind, File, Layout, Result, TensorInfo, TensorMap};

/// Loads each parameter from the tensor of its name. The first error stays here, as parameters cannot fail.
struct Loader<'f> {
    file: &'f File,
    path: Vec<String>,
    loaded: Result<()>,
}

/// Returns a module with the parameters of a file.
fn load<M: Module>(module: M, file: &File) -> Result<M> {
    let mut loader = Loader { file, path: Vec::new(), loaded: Ok(()) };
    let module = module.map(&mut loader);
    loader.loaded.map(|()| module)
}

impl Loader<'_> {
    fn read(&self, shape: &Shape) -> Result<TensorData> {
        let name = self.path.join(".");
        let tensor = self.file.get(&name)?;
        let message = |expected: &str| {
            ErrorKind::Message(format!("tensor `{name}` is {}, but expected {expected}", tensor.info()))
        };
        let dtype = dtype_of(tensor.info()).ok_or_else(|| message("a dtype that burn has"))?;
        if tensor.shape().dims() != &shape[..] {
            return Err(message(&format!("the shape {:?}", &shape[..])).into());
        }
        let mut bytes = Vec::new();
        tensor.write_row_major_to(&mut bytes)?;
        Ok(TensorData::from_bytes_vec(bytes, shape.clone(), dtype))
    }

    fn next(&mut self, shape: &Shape) -> Option<TensorData> {
        let read = self.loaded.is_ok().then(|| self.read(shape))?;
        read.map_err(|error| self.loaded = Err(error)).ok()
    }
}

macro_rules! map_parameters {
    ($($method:ident of $kind:ty;)*) => {$(
        fn $method<const D: usize>(&mut self, parameter: Param<Tensor<D, $kind>>) -> Param<Tensor<D, $kind>> {
            let Some(data) = self.next(&parameter.lazy_shape()) else { return parameter };
            let (id, dtype) = (parameter.id, data.dtype());
            let tensor = Tensor::from_data(data, (&parameter.lazy_device(), dtype));
            parameter.transform_for_load(tensor, id)
        }
    )*};
}

impl ModuleMapper for Loader<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    map_parameters! { map_float of Float; map_int of Int; map_bool of Bool; }
}

/// Returns burn's dtype of the same elements, if the tensor is dense and burn has one.
fn dtype_of(info: &TensorInfo) -> Option<DType> {
    let is_dense = matches!(info.layout, Layout::RowMajor | Layout::DimOrder(_));
    Some(match info.dtype {
        _ if !is_dense => return None,
        Dtype::Bool => DType::Bool(BoolStore::Native),
        Dtype::I8 => DType::I8,
        Dtype::I16 => DType::I16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::U8 => DType::U8,
        Dtype::U16 => DType::U16,
        Dtype::U32 => DType::U32,
        Dtype::U64 => DType::U64,
        Dtype::F16 => DType::F16,
        Dtype::Bf16 => DType::BF16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        _ => return None,
    })
}

#[derive(Module, Debug)]
struct Model {
    layers: Vec<Linear>,
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.ptd");
    let mut map = TensorMap::new();
    // Burn's rows are inputs; those of PyTorch are outputs.
    map.insert("layers.0.weight", ndarray::array![[1.0_f32, 4.0], [2.0, 5.0], [3.0, 6.0]]);
    map.insert("layers.0.bias", ndarray::array![0.5_f32, -0.5]);
    tensorfile::save(&path, &map)?;

    let device = Device::default();
    let model = Model { layers: vec![LinearConfig::new(3, 2).init(&device)] };
    let model = load(model, &File::open(&path)?)?;
    let answer = model.layers[0].forward(Tensor::<2>::from_data([[1.0_f32, 0.0, -1.0]], &device));
    println!("{answer}");
    assert_eq!(answer.into_data().as_slice::<f32>()?, [-1.5, -2.5]);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}

#[test]
fn errors_name_the_tensor() {
    let load_from = |map: &TensorMap| {
        let file = File::from_bytes(tensorfile::ten::to_vec(map).unwrap()).unwrap();
        let layer = LinearConfig::new(2, 1).init(&Device::default());
        load(layer, &file).unwrap_err().to_string()
    };
    let mut map = TensorMap::from_iter([("weight", ndarray::array![[1.0_f32, 2.0]])]);
    assert_eq!(load_from(&map), "tensor `weight` is f32[1, 2], but expected the shape [2, 1]");
    map.insert("weight", ndarray::array![[1.0_f32], [2.0]]);
    assert_eq!(load_from(&map), "ten: missing tensor `bias`; the file has `weight`");
}
