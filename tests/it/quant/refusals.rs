//! Codes and scales are never cast in silence, by any of the ways to cast.

use ndarray::{Array, Array2, IxDyn};
use std::collections::BTreeMap;
use tensorfile::view::{CastView, FileView, Joined, Renamed, Subset};
use tensorfile::{Dtype, ErrorKind, Tensor, TensorFile, TensorInfo, TensorMap, Tensors, WriteOptions, btf};

use super::cases;

/// The target of the cast that `--dtype bf16 --cast-integers` asks for.
fn to_bf16(_: &str, info: &TensorInfo) -> Dtype {
    if info.dtype.is_float() || info.dtype.is_integer() { Dtype::Bf16 } else { info.dtype }
}

fn refused(tensors: &dyn Tensors) -> Option<String> {
    let error = CastView::new(tensors, to_bf16).send(&mut Nothing).err()?;
    assert!(matches!(error.kind(), ErrorKind::Codes { .. }), "{error}");
    Some(error.to_string())
}

struct Nothing;

impl tensorfile::model::TensorSink for Nothing {
    fn tensor(&mut self, _: &tensorfile::model::TensorRecord<'_>) -> tensorfile::Result<()> {
        Ok(())
    }
}

#[test]
fn casts_of_codes_are_refused_whole() {
    for case in cases() {
        let file = case.open();
        if file.format().name == "gguf" {
            // Blocks cannot be cast at all.
            assert!(CastView::new(&file, |_, _| Dtype::Bf16).send(&mut Nothing).is_err(), "{}", case.name);
            continue;
        }
        let is_decoy = case.kind == "decoy";
        let map: TensorMap = file.load().unwrap();
        let by_position = Renamed::by_position(&file);
        let joined = Joined::new(&[&file]).unwrap();
        let path = case.path();
        let view = FileView::new(&file, &path);
        for (what, tensors) in [
            ("the file", &file as &dyn Tensors),
            ("a map", &map),
            ("a view", &view),
            ("other names", &by_position),
            ("joined files", &joined),
        ] {
            assert_eq!(refused(tensors).is_none(), is_decoy, "{}: {what}: {:?}", case.name, refused(tensors));
        }
        CastView::new(&file, |_, info| info.dtype).send(&mut Nothing).unwrap();
        CastView::new(&file, to_bf16).as_stored().send(&mut Nothing).unwrap();
    }
}

/// A file knows its codes, whatever a filter leaves of them.
#[test]
fn a_filter_does_not_make_codes_numbers() {
    let case = cases().into_iter().find(|case| case.name == "fp8-block").unwrap();
    let file = case.open();
    let codes = Subset::new(&file, |name| !name.ends_with("_scale_inv"));
    assert_eq!(
        refused(&codes).unwrap(),
        "`model.layers.0.mlp.down_proj.weight` holds fp8 codes; `model.layers.0.mlp.down_proj.weight_scale_inv` has their \
         scales. `OpenOptions::dequantize` decodes them, `CastView::as_stored` casts the stored numbers"
    );
    let scales = Subset::new(&file, |name| name.ends_with("_scale_inv"));
    assert!(
        refused(&scales).unwrap().contains("is the scale of the fp8 codes of `model.layers.0.mlp.down_proj.weight`")
    );
    let others = Subset::new(&file, |name| !name.contains("down_proj"));
    assert_eq!(refused(&others), None);
}

#[derive(TensorFile)]
struct Casting {
    #[tensor(cast)]
    weight: Array2<f32>,
    weight_scale: Array2<f32>,
}

#[derive(TensorFile, Debug)]
struct Plain {
    weight: Array2<f32>,
    weight_scale: Array2<f32>,
}

fn codes() -> TensorMap {
    let mut map = TensorMap::new();
    map.insert("weight", Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [2, 2]), &[0x38, 0x40, 0xb8, 0]).unwrap());
    map.insert("weight_scale", ndarray::array![[0.5_f32], [2.0]]);
    map
}

#[test]
fn the_attribute_cast_refuses_codes() {
    let file = tensorfile::safetensors::to_vec(&codes()).unwrap();
    let opened = tensorfile::File::from_bytes(file.clone()).unwrap();
    let expected = "1 tensor of codes; 1 of 2 tensors fit\n\
        codes of quantized weights, which `#[tensor(dequantize)]` decodes from an open `File`:\n  \
        `weight`  f8_e4m3fn[2, 2], but expected f32";
    assert_eq!(opened.report::<Casting>().to_string(), expected);
    assert!(opened.load::<Casting>().err().unwrap().to_string().contains(expected));
    // Without an open file, the names decide.
    assert!(tensorfile::safetensors::from_slice::<Casting>(&file).err().unwrap().to_string().contains(expected));
    assert!(codes().load::<Casting>().err().unwrap().to_string().contains(expected));
    // The advice of a field without the attribute does not lead there.
    let error = opened.load::<Plain>().unwrap_err().to_string();
    assert!(error.contains("which `#[tensor(dequantize)]` decodes") && !error.contains("converts numbers"), "{error}");
}

#[test]
fn alone_in_a_file_codes_are_numbers() {
    let mut map = codes();
    map.remove("weight_scale");
    map.insert("scale_of_another", ndarray::array![[0.5_f32], [2.0]]);
    assert_eq!(refused(&map), None);
    let arrays: BTreeMap<String, Array<f32, IxDyn>> = {
        let view = CastView::new(&map, |_, _| Dtype::F32);
        view.load().unwrap()
    };
    assert_eq!(arrays["weight"], ndarray::array![[1.0, 2.0], [-1.0, 0.0]].into_dyn());
    btf::FORMAT.to_vec(&CastView::new(&map, |_, _| Dtype::F32), &WriteOptions::new().embed_names(true)).unwrap();
}

/// The scales of a shard that is opened alone may be in another. The configuration says that there are some.
#[test]
fn a_shard_alone_is_no_file_of_plain_numbers() {
    let case = cases().into_iter().find(|case| case.name == "fp8-block-shards").unwrap();
    for (shard, expected) in [
        (1, "the configuration states a quantization, and its scales are not in the file"),
        (2, "there is no `model.layers.0.mlp.down_proj.weight`, whose scales it has"),
    ] {
        let path = case.path().join(format!("model-0000{shard}-of-00002.safetensors"));
        let file = tensorfile::File::open(path).unwrap();
        let unknown = &file.quantized().unwrap().unknown()[0];
        assert_eq!((unknown.name(), unknown.reason()), ("model.layers.0.mlp.down_proj.weight", expected));
        assert!(refused(&file).unwrap().contains(expected));
    }
}
