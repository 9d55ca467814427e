use ndarray::{ArrayView, Axis, Dimension};

/// Elements gathered before they are passed on: up to 64 KiB.
const BATCH: usize = 8192;

/// Calls `take` with the elements of an array of any memory order, in row-major order and in batches.
pub(super) fn in_row_major<A: Copy, D: Dimension, E>(
    array: &ArrayView<'_, A, D>,
    take: impl FnMut(&[A]) -> Result<(), E>,
) -> Result<(), E> {
    let mut batch = Batch { elements: Vec::with_capacity(BATCH.min(array.len())), take };
    let last = array.ndim().checked_sub(1).map(Axis);
    if last.is_some_and(|last| array.stride_of(last) == 1) {
        // Rows that lie in one run are copied as runs.
        array.rows().into_iter().try_for_each(|row| batch.run(row.to_slice().unwrap_or_default()))?;
    } else {
        array.iter().try_for_each(|element| batch.push(*element))?;
    }
    batch.pass_on()
}

/// Elements gathered before they are passed on.
struct Batch<A, F> {
    elements: Vec<A>,
    take: F,
}

impl<A: Copy, E, F: FnMut(&[A]) -> Result<(), E>> Batch<A, F> {
    fn push(&mut self, element: A) -> Result<(), E> {
        self.elements.push(element);
        if self.elements.len() == BATCH { self.pass_on() } else { Ok(()) }
    }

    fn run(&mut self, mut run: &[A]) -> Result<(), E> {
        while !run.is_empty() {
            let (now, later) = run.split_at(run.len().min(BATCH - self.elements.len()));
            self.elements.extend_from_slice(now);
            if self.elements.len() == BATCH {
                self.pass_on()?;
            }
            run = later;
        }
        Ok(())
    }

    fn pass_on(&mut self) -> Result<(), E> {
        if !self.elements.is_empty() {
            (self.take)(&self.elements)?;
            self.elements.clear();
        }
        Ok(())
    }
}
