use super::*;

#[test]
fn json_contains_dtype_shape_and_bytes() {
    let tensor = Tensor::from_slice(&[1_i16, -2], [1, 2]).unwrap();
    assert_eq!(
        serde_json::to_string(&tensor).unwrap(),
        r#"{"dtype":"i16","shape":[1,2],"layout":"row_major","data":[1,0,254,255]}"#
    );
    let sparse = CooTensor::new([300], vec![259], vec![7_u8]).unwrap();
    assert_eq!(
        serde_json::to_string(&sparse).unwrap(),
        r#"{"dtype":"u8","shape":[300],"layout":{"coo":1},"data":[3,1,0,0,0,0,0,0,1,0,0,0,0,0,0,0,7]}"#
    );
    let layout = Layout::from_dim_order(&[1, 0]).unwrap();
    let info = TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [1, 2]) };
    assert_eq!(
        serde_json::to_string(&Tensor::new(info, &[1, 2]).unwrap()).unwrap(),
        r#"{"dtype":"u8","shape":[1,2],"layout":{"dim_order":[1,0]},"data":[1,2]}"#
    );
}

#[test]
fn postcard_has_the_numbers_of_dtypes_and_layouts() {
    // Files of formats without field names hold these numbers, so they may not change.
    let dtypes = [
        "bool",
        "i8",
        "i16",
        "i32",
        "i64",
        "u8",
        "u16",
        "u32",
        "u64",
        "f16",
        "bf16",
        "f32",
        "f64",
        "f8_e5m2",
        "f8_e4m3fn",
        "f8_e5m2fnuz",
        "f8_e4m3fnuz",
        "qint8",
        "quint8",
        "qint32",
        "quint4x2",
        "quint2x4",
        "bits16",
        "f8_e8m0",
        "f4",
        "f6_e2m3",
        "f6_e3m2",
        "c64",
        "c128",
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q8_1",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "q8_k",
        "iq2_xxs",
        "iq2_xs",
        "iq3_xxs",
        "iq1_s",
        "iq4_nl",
        "iq3_s",
        "iq2_s",
        "iq4_xs",
        "iq1_m",
        "tq1_0",
        "tq2_0",
        "mxfp4",
        "nvfp4",
        "q1_0",
        "q2_0",
    ];
    assert_eq!(dtypes.len(), Dtype::ALL.len());
    for (number, name) in (0_u8..).zip(dtypes) {
        let tensor = Tensor::new(TensorInfo::new(name.parse().unwrap(), [0]), &[]).unwrap();
        assert_eq!(postcard::to_stdvec(&tensor).unwrap(), [number, 1, 0, 0, 0], "{name}");
    }
    let dense = Tensor::from_slice(&[1.0_f32], [1, 1]).unwrap();
    assert_eq!(postcard::to_stdvec(&dense).unwrap(), [11, 2, 1, 1, 0, 4, 0, 0, 128, 63]);
    let layout = Layout::from_dim_order(&[1, 0]).unwrap();
    let info = TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [1, 2]) };
    let turned = Tensor::new(info, &[8, 9]).unwrap();
    assert_eq!(postcard::to_stdvec(&turned).unwrap(), [5, 2, 1, 2, 1, 2, 1, 0, 2, 8, 9]);
    let sparse = CooTensor::new([3], vec![2], vec![7_u8]).unwrap();
    let expected = [5, 1, 3, 2, 1, 17, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7];
    assert_eq!(postcard::to_stdvec(&sparse).unwrap(), expected);
}

#[test]
fn every_dtype_and_layout_round_trips() {
    for &dtype in Dtype::ALL {
        for shape in [&[][..], &[3], &[2, 0], &[1, 2, 3]] {
            let info = info(dtype, shape);
            let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| (at % 2) as u8).collect();
            assert_others_round_trip(&Tensor::new(info, &bytes).unwrap());
        }
    }
    assert_others_round_trip(&CooTensor::new([3, 300], vec![0, 1, 2, 299], vec![1.5_f32, -2.0]).unwrap());
    assert_others_round_trip(&CooTensor::new([3], vec![0], vec![true]).unwrap());
    let layout = Layout::from_dim_order(&[0, 2, 3, 1]).unwrap();
    let info = TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [1, 2, 3, 2]) };
    assert_others_round_trip(&Tensor::new(info, &[7; 12]).unwrap());
    let map: TensorMap =
            // In the order in which a JSON tree has its keys.
            [("", Tensor::from_slice(&[2.0], [1]).unwrap()), ("ä.b", Tensor::from_slice(&[1_u8], []).unwrap())]
                .into_iter()
                .collect();
    assert_others_round_trip(&map);
    assert_others_round_trip(&TensorMap::new());
}

#[test]
fn arrays_round_trip() {
    assert_round_trips(&linear(1.0));
    assert_round_trips(&vec![linear(1.0), linear(2.0)]);
    assert_others_round_trip(&Arrays(array![[true, false]]));
    assert_others_round_trip(&Arrays((array![f16::ONE, f16::NEG_INFINITY], array![bf16::EPSILON])));
    assert_others_round_trip(&Arrays((1.5_f32, vec![1_u64, u64::MAX], [1_i8; 3])));
    assert_others_round_trip(&Arrays(array![[1, 2, 3], [4, 5, 6]].reversed_axes()));
    assert_others_round_trip(&Arrays(ArrayD::<f64>::zeros(IxDyn(&[2, 0, 3]))));
    assert_round_trips(&Arrays(BTreeMap::from([("a.b".to_owned(), array![1.0]), ("c".to_owned(), array![])])));
    assert_round_trips(&Arrays(vec![Array1::<f32>::ones(3), Array1::zeros(0)]));
}

#[cfg(target_pointer_width = "64")]
#[test]
fn json_that_contradicts_itself_is_an_error() {
    for (json, expected) in [
        (
            r#"{"dtype":"i9","shape":[1],"layout":"row_major","data":[1]}"#,
            "unknown variant `i9`, expected one of `bool`, `i8`, `i16`, `i32`, `i64`, `u8`, `u16`, `u32`, `u64`, `f16`, `bf16`, \
                 `f32`, `f64`, `f8_e5m2`, `f8_e4m3fn`, `f8_e5m2fnuz`, `f8_e4m3fnuz`, `qint8`, `quint8`, `qint32`, `quint4x2`, \
                 `quint2x4`, `bits16`, `f8_e8m0`, `f4`, `f6_e2m3`, `f6_e3m2`, `c64`, `c128`, \
                 `q4_0`, `q4_1`, `q5_0`, `q5_1`, `q8_0`, `q8_1`, `q2_k`, `q3_k`, `q4_k`, `q5_k`, `q6_k`, \
                 `q8_k`, `iq2_xxs`, `iq2_xs`, `iq3_xxs`, `iq1_s`, `iq4_nl`, `iq3_s`, `iq2_s`, `iq4_xs`, `iq1_m`, `tq1_0`, \
                 `tq2_0`, `mxfp4`, `nvfp4`, `q1_0`, `q2_0`",
        ),
        (r#"{"dtype":"u8","shape":[2],"layout":"row_major","data":[1]}"#, "payload is 1 bytes, but u8[2] takes 2"),
        (
            r#"{"dtype":"f6_e2m3","shape":[3],"layout":"row_major","data":[1,2,3]}"#,
            "f6_e2m3[3] has 3 elements, but f6_e2m3 stores blocks of 4",
        ),
        (
            r#"{"dtype":"f4","shape":[2,1],"layout":{"dim_order":[1,0]},"data":[1]}"#,
            "blocks of several elements are row-major, but expected f4[2, 1] in dim order [1, 0]",
        ),
        (r#"{"dtype":"u8","shape":[0],"layout":"row_major","data":[1]}"#, "payload is longer than 0 bytes"),
        (r#"{"data":[1],"dtype":"u8","shape":[2],"layout":"row_major"}"#, "payload is 1 bytes, but u8[2] takes 2"),
        (r#"{"dtype":"u8","shape":[1],"layout":"row_major","data":[256]}"#, "256 is not a byte"),
        (r#"{"dtype":"u8","shape":[1],"layout":"row_major","data":[-1]}"#, "-1 is not a byte"),
        (
            r#"{"dtype":"u8","shape":[-1],"layout":"row_major","data":[]}"#,
            "invalid value: integer `-1`, expected usize",
        ),
        (
            r#"{"dtype":"u8","shape":[4294967296,4294967296],"layout":"row_major","data":[]}"#,
            "u8[4294967296, 4294967296] takes more bytes than can be addressed",
        ),
        (
            r#"{"dtype":"u8","shape":[1],"layout":"col_major","data":[1]}"#,
            "unknown variant `col_major`, expected one of `row_major`, `dim_order`, `coo`, `blob`",
        ),
        (
            r#"{"dtype":"u8","shape":[1,1],"layout":{"dim_order":[1,1]},"data":[1]}"#,
            "dim order [1, 1] is not a permutation of 0..2",
        ),
        (
            r#"{"dtype":"u8","shape":[1,1],"layout":{"dim_order":[0]},"data":[1]}"#,
            "dim order has 1 dims, but the tensor has rank 2",
        ),
        (
            r#"{"dtype":"u8","shape":[3],"layout":{"coo":1},"data":[3,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,7]}"#,
            "index 3 of coordinate 0 is outside dim 0, which is 3",
        ),
        (
            r#"{"dtype":"u8","shape":[3],"layout":{"coo":18446744073709551615},"data":[]}"#,
            "u8[3] takes more bytes than can be addressed",
        ),
        (r#"{"dtype":"u8","shape":[1],"layout":"row_major"}"#, "missing field `data`"),
        (r#"{"shape":[1],"layout":"row_major","data":[1]}"#, "missing field `dtype`"),
        (r#"{"dtype":"u8","shape":[1],"layout":"row_major","data":[1],"dtype":"u8"}"#, "a tensor has a field twice"),
        (
            r#"{"dtype":"u8","shape":[1],"layout":"row_major","date":[1]}"#,
            "unknown variant `date`, expected one of `dtype`, `shape`, `layout`, `data`",
        ),
        ("7", "invalid type: integer `7`, expected a tensor"),
    ] {
        let error = serde_json::from_str::<Tensor>(json).unwrap_err().to_string();
        assert_eq!(error.split(" at line").next(), Some(expected), "{json}");
    }
    let error =
        serde_json::from_str::<Arrays<Array2<f32>>>(r#"{"dtype":"u8","shape":[1],"layout":"row_major","data":[1]}"#);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("the file has u8[1], but expected f32; `#[tensor(cast)]` converts it at line")
    );
    let error =
        serde_json::from_str::<Arrays<Array1<bool>>>(r#"{"dtype":"bool","shape":[1],"layout":"row_major","data":[2]}"#);
    assert!(error.unwrap_err().to_string().starts_with("element 0 is the byte 2, which is not a bool"));
}

#[test]
fn postcard_borrows_and_json_cannot() {
    let tensor = Tensor::from_slice(&[1_u8, 2, 3], [3]).unwrap();
    let bytes = postcard::to_stdvec(&tensor).unwrap();
    let view: TensorView<'_> = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(view, tensor.as_view());
    assert!(bytes.as_ptr_range().contains(&view.as_bytes().as_ptr()));
    let json = serde_json::to_string(&tensor).unwrap();
    assert!(serde_json::from_str::<TensorView<'_>>(&json).is_err());
    let Arrays(cow): Arrays<CowArray<'_, u8, ndarray::Ix1>> = serde_json::from_str(&json).unwrap();
    assert!(!cow.is_view());
}

#[test]
fn wrappers_around_our_deserializer_work() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Model {
        encoder: Vec<Linear>,
        head: Linear,
        rest: TensorMap,
    }

    let rest: TensorMap = [("a.b", Tensor::from_slice(&[1_u8], []).unwrap())].into_iter().collect();
    let mut model = Model { encoder: vec![linear(1.0), without_bias()], head: linear(2.0), rest };
    let file = ten_file(&model);
    let mut deserializer = Deserializer::from_slice(&ten::FORMAT, &file);
    let read: Model = serde_path_to_error::deserialize(&mut deserializer).unwrap();
    deserializer.end().unwrap();
    assert_eq!(read, model);
    let mut deserializer = Deserializer::from_reader(&ten::FORMAT, &file[..]);
    assert_eq!(serde_path_to_error::deserialize::<_, Model>(&mut deserializer).unwrap(), model);
    deserializer.end().unwrap();

    model.encoder[1].weight = array![[]];
    let mut file = ten_file(&model);
    // The dtype of `encoder.0.bias`, in the header of the second tensor, at 80 + 16 + 64 + 16.
    assert_eq!(&file[176..178], b"f4");
    file[176..178].copy_from_slice(b"i4");
    let mut deserializer = Deserializer::from_slice(&ten::FORMAT, &file);
    let error = serde_path_to_error::deserialize::<_, Model>(&mut deserializer).unwrap_err();
    assert_eq!(error.path().to_string(), "encoder[0].bias");
    assert_eq!(
        error.inner().to_string(),
        "tensor `encoder.0.bias`: the file has i32[1], but expected f32; `#[tensor(cast)]` converts it (at byte 256)"
    );
}
