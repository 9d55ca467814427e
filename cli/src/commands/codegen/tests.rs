use tensorfile::quant::Verdict;
use tensorfile::{Dtype, TensorInfo};

use super::{Leaf, Node, Style, generate};

const STYLE: Style<'_> =
    Style { root: "Model", views: false, owned: &[], cast: None, shapes: false, allow_unknown: false, docs: &[] };

/// Parses lines of name, dtype and dims, such as `a.weight f32 2,3`.
fn tensors(lines: &str) -> Vec<(&str, TensorInfo)> {
    lines
        .lines()
        .map(|line| {
            let mut words = line.trim().splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (name, dtype, dims) = (word(), word().parse::<Dtype>().unwrap(), word());
            let dims = dims.split(',').filter(|dim| !dim.is_empty()).map(|dim| dim.parse().unwrap());
            (name, TensorInfo::new(dtype, dims.collect::<Vec<usize>>()))
        })
        .collect()
}

fn code(lines: &str, style: &Style<'_>) -> String {
    let mut tree = Node::default();
    for (name, info) in tensors(lines.trim()) {
        tree.insert(name, Leaf::new(&info, Verdict::Plain, style.cast));
    }
    generate(tree, style)
}

/// Returns the structs without imports and derives.
fn structs(lines: &str) -> String {
    let code = code(lines, &STYLE);
    let lines =
        code.lines().filter(|line| !line.starts_with("use ") && !line.starts_with("#[derive") && !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn generates_readable_code_for_a_real_model() {
    let expected = include_str!("../../../tests/fixtures/codegen/minilm.rs");
    let docs = ["The tensors of MiniLM.".to_owned()];
    let style = Style { root: "Bert", docs: &docs, ..STYLE };
    let code = code(include_str!("../../../tests/fixtures/codegen/minilm.txt"), &style);
    assert!(code == expected, "{code}");
}

#[test]
fn fields_that_some_items_lack_are_optional() {
    let structs = structs("l.0.w f32 2\nl.0.x f32 1\nl.1.w f32 3\nl.1.y.z i8 1\nl.2.w f32 2");
    insta::assert_snapshot!(structs, @r#"
    pub struct Model {
        pub l: Vec<L>,
    }
    pub struct L {
        /// `f32[_]`
        pub w: Array1<f32>,
        /// `f32[1]`
        pub x: Option<Array1<f32>>,
        pub y: Option<Y>,
    }
    pub struct Y {
        /// `i8[1]`
        pub z: Array1<i8>,
    }
    "#);
}

#[test]
fn generalizes_the_types_of_different_items() {
    insta::assert_snapshot!(structs("a.0 f32 2\na.1 f32 2,3\nb.0 f32 2\nb.1 f16 2\nc.0 f32 2\nc.1 f32 3"), @r#"
    pub struct Model {
        /// `f32[..]`
        pub a: Vec<ArrayD<f32>>,
        /// `any[2]`: dtypes or layouts differ
        pub b: Vec<Tensor>,
        /// `f32[_]`
        pub c: Vec<Array1<f32>>,
    }
    "#);
}

#[test]
fn numbers_with_gaps_are_map_keys_if_types_are_equal() {
    insta::assert_snapshot!(structs("a.0.w f32 2\na.3.w f32 2\nb.1 f32 2\nb.3.w f32 2"), @r#"
    pub struct Model {
        pub a: BTreeMap<usize, A>,
        pub b: B,
    }
    pub struct A {
        /// `f32[2]`
        pub w: Array1<f32>,
    }
    pub struct B {
        /// `f32[2]`
        #[tensor(rename = "1")]
        pub _1: Array1<f32>,
        #[tensor(rename = "3")]
        pub _3: A,
    }
    "#);
}

#[test]
fn tensors_below_a_tensor_are_fields_of_its_parent() {
    insta::assert_snapshot!(structs("a f32 2\na.b f32 2\na.0.c f32 2"), @r#"
    pub struct Model {
        /// `f32[2]`
        pub a: Array1<f32>,
        /// `f32[2]`
        #[tensor(rename = "a.b")]
        pub a_b: Array1<f32>,
        #[tensor(rename = "a.0")]
        pub a_0: Item,
    }
    pub struct Item {
        /// `f32[2]`
        pub c: Array1<f32>,
    }
    "#);
}

#[test]
fn converts_names_to_identifiers() {
    insta::assert_snapshot!(structs("type i8 1\nself.Self i8 1\na-b i8 1\na_b i8 1\n7.größe i8 1\nVec.w i8 2\nx..y i8 1"), @r#"
    pub struct Model {
        /// `i8[1]`
        pub r#type: Array1<i8>,
        #[tensor(rename = "self")]
        pub self_: ModelSelf,
        /// `i8[1]`
        #[tensor(rename = "a-b")]
        pub a_b: Array1<i8>,
        /// `i8[1]`
        #[tensor(rename = "a_b")]
        pub a_b_2: Array1<i8>,
        #[tensor(rename = "7")]
        pub _7: Item,
        #[tensor(rename = "Vec")]
        pub vec: ModelVec,
        pub x: X,
    }
    pub struct ModelSelf {
        /// `i8[1]`
        #[tensor(rename = "Self")]
        pub self_: Array1<i8>,
    }
    pub struct Item {
        /// `i8[1]`
        pub größe: Array1<i8>,
    }
    pub struct ModelVec {
        /// `i8[2]`
        pub w: Array1<i8>,
    }
    pub struct X {
        /// Tensors whose names no field can have.
        #[tensor(flatten)]
        pub others: TensorMap,
    }
    "#);
}

#[test]
fn views_borrow_and_shapes_are_checked() {
    let style = Style { views: true, shapes: true, ..STYLE };
    insta::assert_snapshot!(code("a.0.w f32 2,3\na.1.w f32 2,4\nb.s bf16 ", &style), @r#"
    use tensorfile::TensorFile;
    use tensorfile::ndarray::{ArrayView0, ArrayView2};

    #[derive(Debug, TensorFile)]
    pub struct Model<'a> {
        pub a: Vec<A<'a>>,
        pub b: B<'a>,
    }

    #[derive(Debug, TensorFile)]
    pub struct A<'a> {
        /// `f32[2, _]`
        #[tensor(shape = [2, _])]
        pub w: ArrayView2<'a, f32>,
    }

    #[derive(Debug, TensorFile)]
    pub struct B<'a> {
        /// `bf16[]`
        pub s: ArrayView0<'a, tensorfile::half::bf16>,
    }
    "#);
}

#[test]
fn keys_that_are_addresses_are_those_of_a_map() {
    let lines =
        "state.140204938483712.exp_avg f32 2,3\nstate.140204938483712.step i64\nstate.140204938483856.exp_avg f32 3";
    insta::assert_snapshot!(structs(lines), @r#"
    pub struct Model {
        pub state: BTreeMap<usize, State>,
    }
    pub struct State {
        /// `f32[..]`
        pub exp_avg: ArrayD<f32>,
        /// `i64[]`
        pub step: Option<Array0<i64>>,
    }
    "#);
    insta::assert_snapshot!(structs("buffers.140204938483712 f32 2\nsmall.31 f32 2"), @r#"
    pub struct Model {
        /// `f32[2]`
        pub buffers: BTreeMap<usize, Array1<f32>>,
        pub small: Small,
    }
    pub struct Small {
        /// `f32[2]`
        #[tensor(rename = "31")]
        pub _31: Array1<f32>,
    }
    "#);
}

#[test]
fn floats_are_cast() {
    let style = Style { cast: Some(Dtype::F32), shapes: true, views: true, ..STYLE };
    insta::assert_snapshot!(code("a bf16 2\nb.0 f16 2\nb.1 f32 2\nc f32 2\nd i64 2\ne f64 2", &style), @r#"
    use tensorfile::TensorFile;
    use tensorfile::ndarray::{Array1, ArrayView1};

    #[derive(Debug, TensorFile)]
    pub struct Model<'a> {
        /// `bf16[2]`, cast
        #[tensor(cast, shape = [2])]
        pub a: Array1<f32>,
        /// `f32[2]`, cast from several dtypes
        #[tensor(cast, shape = [2])]
        pub b: Vec<Array1<f32>>,
        /// `f32[2]`, or another float
        #[tensor(cast, shape = [2])]
        pub c: Array1<f32>,
        /// `i64[2]`
        #[tensor(shape = [2])]
        pub d: ArrayView1<'a, i64>,
        /// `f64[2]`, cast
        #[tensor(cast, shape = [2])]
        pub e: Array1<f32>,
    }
    "#);
}

#[test]
fn arrays_that_the_file_cannot_lend_are_owned() {
    let style = Style { views: true, owned: &[Dtype::F32], ..STYLE };
    insta::assert_snapshot!(code("a f32 2\nb f16 2", &style), @r#"
    use tensorfile::TensorFile;
    use tensorfile::ndarray::{Array1, ArrayView1};

    #[derive(Debug, TensorFile)]
    pub struct Model<'a> {
        /// `f32[2]`
        pub a: Array1<f32>,
        /// `f16[2]`
        pub b: ArrayView1<'a, tensorfile::half::f16>,
    }
    "#);
}

#[test]
fn a_list_of_which_an_item_is_left_out_has_fields() {
    let mut tree = Node::default();
    for (name, info) in tensors("l.0.w f32 2\nl.1.w f32 2\nm.0.w f32 2\nm.1.w f32 2") {
        tree.insert(name, Leaf::new(&info, Verdict::Plain, None));
    }
    ["l.2.w", "m.0.x.y", "n.w"].iter().for_each(|name| tree.leave_out(name));
    insta::assert_snapshot!(generate(tree, &Style { allow_unknown: true, ..STYLE }), @r#"
    use tensorfile::TensorFile;
    use tensorfile::ndarray::Array1;

    #[derive(Debug, TensorFile)]
    #[tensor(allow_unknown)]
    pub struct Model {
        pub l: L,
        pub m: Vec<M>,
    }

    #[derive(Debug, TensorFile)]
    #[tensor(allow_unknown)]
    pub struct L {
        #[tensor(rename = "0")]
        pub _0: M,
        #[tensor(rename = "1")]
        pub _1: M,
    }

    #[derive(Debug, TensorFile)]
    #[tensor(allow_unknown)]
    pub struct M {
        /// `f32[2]`
        pub w: Array1<f32>,
    }
    "#);
}

/// A field cannot be found by a name if a tensor has the same name.
#[test]
fn tensors_below_the_name_of_one_that_is_left_out_are_in_no_struct() {
    let mut tree = Node::default();
    for (name, info) in tensors("a.sizes i64 2\na.cache.low f32 2\nl.0.b.w f32 2\nl.1.b.w f32 2") {
        tree.insert(name, Leaf::new(&info, Verdict::Plain, None));
    }
    ["a", "l.0.b", "l.1.b"].iter().for_each(|name| tree.leave_out(name));
    insta::assert_snapshot!(generate(tree, &Style { allow_unknown: true, ..STYLE }), @r#"
    use tensorfile::TensorFile;
    use tensorfile::ndarray::Array1;

    #[derive(Debug, TensorFile)]
    #[tensor(allow_unknown)]
    pub struct Model {
        /// `i64[2]`
        #[tensor(rename = "a.sizes")]
        pub a_sizes: Array1<i64>,
        #[tensor(rename = "a.cache")]
        pub a_cache: Cache,
        pub l: Vec<L>,
    }

    #[derive(Debug, TensorFile)]
    #[tensor(allow_unknown)]
    pub struct Cache {
        /// `f32[2]`
        pub low: Array1<f32>,
    }

    #[derive(Debug, TensorFile)]
    #[tensor(allow_unknown)]
    pub struct L {
        /// `f32[2]`
        #[tensor(rename = "b.w")]
        pub b_w: Array1<f32>,
    }
    "#);
}
