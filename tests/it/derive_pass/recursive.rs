//! Types that contain themselves, by name or as `Self`.

use ndarray::Array1;
use tensorfile::TensorFile;

#[derive(TensorFile)]
struct Tree {
    value: Array1<f32>,
    children: Vec<Tree>,
}

#[derive(TensorFile)]
struct Generic<A> {
    value: Array1<A>,
    children: Vec<Generic<A>>,
    next: Option<Box<Self>>,
}

#[derive(TensorFile)]
struct Odd<A> {
    value: Array1<A>,
    even: Option<Box<Even>>,
}

#[derive(TensorFile)]
struct Even {
    odd: Vec<Odd<f32>>,
}

#[derive(TensorFile)]
#[tensor(prefix = "tree")]
struct Prefixed<A> {
    value: Array1<A>,
    children: Vec<Self>,
}

#[test]
fn derives_for_types_that_contain_themselves() {
    let tree: Tree = serde_json::from_str(&serde_json::to_string(&tree()).unwrap()).unwrap();
    assert_eq!(tree.children[0].value, tree.value);
}

fn tree() -> Tree {
    let value = Array1::ones(2);
    Tree { value: value.clone(), children: vec![Tree { value, children: Vec::new() }] }
}
