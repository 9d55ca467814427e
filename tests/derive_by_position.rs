//! Derived structs in files without names.
use ndarray::{Array1, Array2, array};
use tensorfile::{Arrays, TensorFile, btf};

#[derive(TensorFile, Debug, PartialEq, Clone)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}
#[derive(TensorFile, Debug, PartialEq)]
struct Mlp {
    embed: Linear,
    layers: Vec<Linear>,
    head: Array2<f64>,
}

#[test]
fn comes_back_the_same() {
    let l = |b: bool| Linear { weight: array![[1.0, 2.0]], bias: b.then(|| array![3.0]) };
    for m in [
        Mlp { embed: l(true), layers: vec![l(false), l(true)], head: array![[1.0]] },
        Mlp { embed: l(false), layers: vec![], head: array![[1.0]] },
    ] {
        let f = btf::to_vec(&m).unwrap();
        assert_eq!(btf::from_slice::<Mlp>(&f).unwrap(), m);
        assert_eq!(btf::from_reader::<Mlp>(&f[..]).unwrap(), m);
        let f = btf::Options::new().embed_names(true).to_vec(&m).unwrap();
        assert_eq!(btf::from_reader::<Mlp>(&f[..]).unwrap(), m);
    }
    let two = (l(true), vec![l(false)]);
    let f = btf::to_vec(&Arrays(&two)).unwrap();
    let Arrays(back): Arrays<(Linear, Vec<Linear>)> = btf::from_slice(&f).unwrap();
    assert_eq!(back, two);
}
