//! The unread tensors of an index, in file order and by name.

use smallvec::SmallVec;

use super::Index;

/// The unread tensors of an [`Index`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Unread {
    read: SmallVec<[bool; 16]>,
    /// All tensors before this one are read.
    first: usize,
    /// For each place in name order, a place at or after it, with only read tensors in between. Made on the first
    /// search for a prefix.
    next: Vec<usize>,
}

impl Unread {
    /// Nothing of an index has been read.
    pub(crate) fn new(index: &Index) -> Self {
        Self { read: SmallVec::from_elem(false, index.len()), ..Self::default() }
    }

    /// Adds the new tensors of the index, which has `tensors` now.
    pub(crate) fn grow(&mut self, tensors: usize) {
        self.read.resize(tensors, false);
        self.next.clear();
    }

    /// The names of the tensors have changed.
    pub(crate) fn renamed(&mut self) {
        self.next.clear();
    }

    // Inlined into the reader, which calls it for each tensor.
    #[inline(always)]
    pub(crate) fn mark_read(&mut self, index: &Index, i: usize) {
        self.read.as_mut_slice()[i] = true;
        if !self.next.is_empty() {
            let place = index.search().sorted().rank[i];
            self.next[place] = place + 1;
        }
    }

    #[inline]
    pub(crate) fn is_read(&self, i: usize) -> bool {
        self.read.as_slice()[i]
    }

    /// Returns the first unread tensor in file order.
    pub(crate) fn first(&mut self) -> Option<usize> {
        while self.read.get(self.first) == Some(&true) {
            self.first += 1;
        }
        (self.first < self.read.len()).then_some(self.first)
    }

    /// Returns the number of unread tensors.
    pub(crate) fn count(&self) -> usize {
        self.read.iter().filter(|read| !**read).count()
    }

    /// Returns the unread tensor called `name`.
    pub(crate) fn find(&self, index: &Index, name: &str) -> Option<usize> {
        index.position(name).filter(|i| !self.is_read(*i))
    }

    /// Returns the first unread tensor, in name order, at or below `prefix`, or of all tensors without a prefix.
    pub(crate) fn first_under(&mut self, index: &Index, prefix: Option<&str>) -> Option<usize> {
        let first = self.first();
        let (Some(prefix), Some(first)) = (prefix, first) else { return first };
        // At the end of each struct of a file in order.
        if index.search().ends_run(prefix, first) {
            return None;
        }
        if let Some(found) = self.find(index, prefix) {
            return Some(found);
        }
        // `has_none_below` finds the groups for `ends_run`.
        if index.search().has_none_below(prefix) || index.search().ends_run(prefix, first) {
            return None;
        }
        let sorted = index.search().sorted();
        if self.next.is_empty() {
            let next = sorted.order.iter().enumerate().map(|(place, &i)| place + usize::from(self.is_read(i)));
            self.next = next.collect();
        }
        let start = sorted.order.partition_point(|&i| sorts_before(index.name(i), prefix));
        let place = self.next_place(start);
        let i = *sorted.order.get(place)?;
        index.name(i).strip_prefix(prefix)?.starts_with('.').then_some(i)
    }

    /// Returns the first unread place from `place` on, or the number of places.
    ///
    /// Links are shortened as in a union-find, so a long run of read tensors is walked only once.
    fn next_place(&mut self, place: usize) -> usize {
        let mut end = place;
        while end < self.next.len() && self.next[end] != end {
            end = self.next[end];
        }
        let mut i = place;
        while i < end {
            i = std::mem::replace(&mut self.next[i], end);
        }
        end
    }

    /// Returns names for a message: of the unread tensors, or of all if there are none.
    pub(crate) fn labels(&self, index: &Index) -> Labels {
        const ENOUGH: usize = 1000;
        let any = self.count() > 0;
        let mut all = (0..index.len()).filter(|&i| !any || !self.is_read(i));
        let names = all.by_ref().take(ENOUGH).map(|i| index.label(i)).collect();
        Labels { names, others: all.count() }
    }
}

/// Names of tensors for a message, possibly shortened.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    pub(crate) names: Vec<String>,
    /// The number of omitted names.
    pub(crate) others: usize,
}

/// Returns whether a name sorts before all names below `prefix`, which begin with `prefix` and a dot.
fn sorts_before(name: &str, prefix: &str) -> bool {
    match name.strip_prefix(prefix) {
        Some(rest) => rest.as_bytes() < b".".as_slice(),
        None => name < prefix,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::index;
    use super::*;

    #[test]
    fn finds_tensors_under_a_prefix_until_they_are_read() {
        let index = index(&["b.x", "a-1", "a.y", "ab", "a.x"]);
        let mut unread = Unread::new(&index);
        assert_eq!(unread.first_under(&index, Some("a")), Some(4));
        unread.mark_read(&index, 4);
        assert_eq!(unread.first_under(&index, Some("a")), Some(2));
        unread.mark_read(&index, 2);
        assert_eq!(unread.first_under(&index, Some("a")), None);
        assert_eq!(unread.first_under(&index, Some("b")), Some(0));
    }

    #[test]
    fn finds_the_end_of_a_group_without_a_search() {
        for (names, are_runs) in [
            (&["a.b.x", "a.b.y", "a.x", "b.a", "c"][..], true),
            (&["a.b.x", "a.x", "a.b.y"], false),
            (&["a", "b", "a.x"], false),
            (&["a.x", "b", "a"], false),
        ] {
            let index = index(names);
            assert_eq!(index.search().groups().unwrap().are_runs, are_runs, "{names:?}");
            // The answer equals a linear search.
            for read in 0..1 << names.len() {
                let mut unread = Unread::new(&index);
                (0..names.len()).filter(|i| read >> i & 1 == 1).for_each(|i| unread.mark_read(&index, i));
                for prefix in ["a", "a.b", "a.b.x", "b", "c", "d"] {
                    let found = unread.first_under(&index, Some(prefix));
                    let is_under = |i: &usize| names[*i] == prefix || names[*i].starts_with(&format!("{prefix}."));
                    let any = (0..names.len()).filter(|i| read >> i & 1 == 0).find(is_under);
                    assert_eq!(found.is_some(), any.is_some(), "{prefix} of {names:?}");
                    assert!(found.is_none_or(|i| is_under(&i) && !unread.is_read(i)));
                }
            }
        }
    }
}
