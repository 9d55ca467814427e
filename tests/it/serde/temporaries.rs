//! Values that lie in memory for a moment only: the next one may have the same place, and is another tensor nevertheless.
//! Formats that store tied tensors once find them by their place.

use std::collections::VecDeque;

use serde::Serialize;
use tensorfile::model::{FieldAttrs, Node, Sink, Store};
use tensorfile::{File, Result, TensorFile, ptd, pytorch};

/// An angle, stored in degrees.
struct Angle(f32);

impl TensorFile for Angle {
    const NODE: Node = f32::NODE;
}

impl Store for Angle {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        self.0.to_degrees().store(sink, attrs)
    }
}

#[derive(TensorFile)]
#[tensor(write_only)]
struct Computed {
    yaw: Angle,
    pitch: Angle,
    queues: Vec<VecDeque<i32>>,
}

/// Checks that no two tensors of a file share their bytes.
fn check<T: Serialize>(value: &T) {
    for file in [ptd::to_vec(value).unwrap(), pytorch::to_vec(value).unwrap()] {
        let file = File::from_bytes(file).unwrap();
        let mut starts: Vec<u64> = file.tensors().map(|tensor| tensor.range().start).collect();
        starts.sort_unstable();
        let tensors = starts.len();
        starts.dedup();
        assert_eq!(starts.len(), tensors, "{file:?}");
    }
}

#[test]
fn equal_values_in_one_place_are_not_tied() {
    check(&(1.0_f32, 1.0_f32, 1.0_f32));
    check(&(vec![4.0_f32], vec![5.0_f32], vec![4.0_f32], vec![4.0_f32]));
    let mut queue = VecDeque::from([2, 3]);
    queue.push_front(1);
    check(&Computed { yaw: Angle(0.0), pitch: Angle(0.0), queues: vec![queue.clone(), queue.clone(), queue] });
}
