use std::path::Path;

use serde_json::{Value, json};
use tensorfile::{Dtype, Tensor, TensorInfo, TensorMap};

use super::Session;

#[test]
fn prints_a_table() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "stats model.ptd",
        "stats sparse.btf",
        "stats model.ptd mask steps #1",
        "stats --filter *.weight --filter !embed.* --sort max --reverse model.ptd",
        "stats --diffable --filter h* model.ptd",
        "stats --filter nothing model.ptd",
    ]));
}

#[test]
fn prints_details_of_one_tensor() {
    let session = Session::new();
    session.write("quantized.ptd", &quantized());
    insta::assert_snapshot!(session.transcript(&[
        "stats model.ptd embed.weight",
        "stats model.ptd halves --bins 3",
        "stats model.ptd mask",
        "stats model.ptd steps",
        "stats model.ptd none",
        "stats model.ptd packed",
        "stats sparse.btf 0 --bins 4",
        "stats --long --bins 4 quantized.ptd",
        "stats quantized.ptd",
    ]));
}

#[test]
fn prints_json() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "stats --json --filter h* model.ptd",
        "stats --json model.ptd packed",
        "stats --json sparse.btf 0 --bins 2",
    ]));
}

#[test]
fn fail_on_checks_elements() {
    let session = Session::new();
    let zeros: TensorMap = [("zeros", Tensor::from_slice(&[0.0_f32; 3], [3]).unwrap())].into_iter().collect();
    session.write("zeros.ptd", &zeros);
    insta::assert_snapshot!(session.transcript(&[
        "stats --fail-on nan,inf --filter h* model.ptd",
        "stats --fail-on nan,inf,zero --filter *.weight model.ptd",
        "stats --fail-on zero zeros.ptd",
        "stats --fail-on none model.ptd",
        "stats model.ptd hulves",
        "stats model.ptd halves --filter h*",
        "stats model.ptd --bins 0",
    ]));
}

fn quantized() -> TensorMap {
    let tensor = |dtype, bytes: &[u8]| Tensor::new(TensorInfo::new(dtype, [4]), bytes).unwrap();
    [("q", tensor(Dtype::QInt8, &[0, 1, 255, 128])), ("u", tensor(Dtype::QUint8, &[0, 1, 255, 128]))]
        .into_iter()
        .collect()
}

#[test]
fn integer_limits_are_exact() {
    let session = Session::new();
    let mut map = TensorMap::new();
    map.insert("i", Tensor::from_slice(&[i64::MIN, i64::MIN + 1, 1, i64::MAX], [4]).unwrap());
    map.insert("u", Tensor::from_slice(&[1, u64::MAX], [2]).unwrap());
    session.write("large.ptd", &map);
    let listed = json_of(&session, &["stats", "--json", "large.ptd"]);
    let limits = |at: usize| [&listed["tensors"][at]["stats"]["min"], &listed["tensors"][at]["stats"]["max"]];
    assert_eq!(limits(0), [&json!(i64::MIN), &json!(i64::MAX)]);
    assert_eq!(limits(1), [&json!(1), &json!(u64::MAX)]);
    for arguments in [&["stats", "large.ptd"][..], &["stats", "large.ptd", "i"], &["stats", "--diffable", "large.ptd"]]
    {
        let text = String::from_utf8(session.run(arguments).stdout).unwrap();
        assert!(text.contains(&i64::MIN.to_string()) && text.contains(&i64::MAX.to_string()), "{text}");
    }
}

fn json_of(session: &Session, arguments: &[&str]) -> Value {
    let output = session.run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].take()
}

#[test]
fn charts_have_a_panel_for_each_tensor() {
    let session = Session::new();
    let mut many = super::model();
    for layer in 0..30 {
        many.insert(format!("<layer & {layer}>"), super::weights(&[layer, 5]));
    }
    session.write("many.ptd", &many);
    let panels = |arguments: &[&str]| {
        let output = session.run(&[&["stats", "--plot", "plot.svg"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let picture = std::fs::read_to_string(session.path("plot.svg")).unwrap();
        assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
        picture.matches(", mean ").count()
    };
    assert_eq!(panels(&["model.ptd"]), 11);
    assert_eq!(panels(&["many.ptd"]), 24);
    assert_eq!(panels(&["many.ptd", "<layer & 3>"]), 1);
    assert_eq!(panels(&["sparse.btf"]), 2);
    let picture = std::fs::read_to_string(session.path("plot.svg")).unwrap();
    assert!(picture.contains("sparse.btf: 2 tensors"), "{picture}");
}

#[test]
fn extensions_choose_the_chart_format() {
    let session = Session::new();
    let output = session.run(&["stats", "--plot", "plot.PNG", "model.ptd"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, session.run(&["stats", "model.ptd"]).stdout);
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(session.path("plot.PNG")).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (4 * 480, 3 * 320 + 40));
    assert!(pixels.iter().any(|&byte| byte != u8::MAX));

    insta::assert_snapshot!(session.transcript(&[
        "stats --plot plot.gif model.ptd",
        "stats --plot nowhere/plot.png model.ptd",
        "stats --plot packed.png model.ptd packed",
    ]));
    assert!(!Path::new(&session.path("packed.png")).exists());
}

/// Ranges for which plotters cannot label an axis.
#[test]
fn draws_extreme_numbers() {
    let session = Session::new();
    let f64s = |numbers: &[f64]| Tensor::from_slice(numbers, [numbers.len()]).unwrap();
    let mut map = TensorMap::new();
    map.insert("widest", f64s(&[-f64::MAX, 0.0, f64::MAX]));
    map.insert("tiniest", f64s(&[0.0, 5e-324]));
    map.insert("next", f64s(&[1e16, 1e16 + 2.0]));
    map.insert("largest", f64s(&[f64::MAX]));
    map.insert("smallest", f64s(&[-f64::MAX]));
    map.insert("one", f64s(&[1e-300, 1e-300]));
    map.insert("none", f64s(&[f64::NAN, f64::INFINITY]));
    map.insert("name".repeat(1000), f64s(&[1.0, 2.0]));
    session.write("odd.ptd", &map);
    for name in ["odd.png", "odd.svg"] {
        let output = session.run(&["stats", "--long", "--plot", name, "odd.ptd"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn sorts_more_tensors_than_it_holds() {
    const TENSORS: u16 = 33_000;
    let session = Session::new();
    let number = |at: u16| (u32::from(at) * 7919 % u32::from(TENSORS)) as f32;
    let tensor = |at| (format!("t{at}"), Tensor::from_slice(&[number(at), 0.0], [2]).unwrap());
    session.write("many.safetensors", &(0..TENSORS).map(tensor).collect::<TensorMap>());
    let sorted = ["stats", "--json", "--sort", "max", "--reverse", "many.safetensors"];
    let maxima: Vec<f64> = json_of(&session, &sorted)["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tensor| tensor["stats"]["max"].as_f64().unwrap())
        .collect();
    assert!(maxima.into_iter().eq((0..TENSORS).rev().map(f64::from)));

    let drawn = session.run(&["stats", "--sort", "max", "--plot", "many.svg", "many.safetensors"]);
    assert!(drawn.status.success());
    let chart = std::fs::read_to_string(session.path("many.svg")).unwrap();
    assert!(chart.contains("of 33,000 tensors"), "the caption states how many there are");
}
