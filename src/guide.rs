//! The guide, chapter by chapter: [getting started](getting_started), [answers], [choosing a format](formats), [typed
//! loading](typed), [untyped tensors](untyped), [quantized weights](quantized), [another layout](layouts), [files at URLs](remote), [from a trainer to inference](trainers),
//! [datasets], [jobs on many machines](scale), [the program](program), [python], [c], [migrating],
//! [untrusted files](untrusted_files), [security], [errors], [compatibility] with other software, and [who maintains this](maintenance).
//!
//! It is here for docs.rs only. In a clone of the repository, `docs/src` has it in the layout of mdBook.

// Definitions of links that come first win: they lead to modules here, and to files where a chapter is read as a file.
macro_rules! chapters {
    ($(#[$text:meta] $chapter:ident)*) => {$(
        #[doc = "[compatibility]: crate::guide::compatibility\n[errors]: crate::guide::errors\n[quantized]: crate::guide::quantized\n[errors warnings]: crate::guide::errors#warnings"]
        #[doc = "[formats]: crate::guide::formats\n[layouts]: crate::guide::layouts\n[migrating]: crate::guide::migrating\n[remote]: crate::guide::remote\n[security]: crate::guide::security"]
        #[doc = "[trainers]: crate::guide::trainers\n[typed]: crate::guide::typed\n[untrusted_files]: crate::guide::untrusted_files\n[untyped]: crate::guide::untyped\n\n"]
        #[$text]
        pub mod $chapter {}
    )*};
}

// `tests/it/guide.rs` checks that no chapter is left out.
chapters! {
    #[doc = include_str!("../docs/src/getting_started.md")] getting_started
    #[doc = include_str!("../docs/src/answers.md")] answers
    #[doc = include_str!("../docs/src/formats.md")] formats
    #[doc = include_str!("../docs/src/typed.md")] typed
    #[doc = include_str!("../docs/src/untyped.md")] untyped
    #[doc = include_str!("../docs/src/quantized.md")] quantized
    #[doc = include_str!("../docs/src/layouts.md")] layouts
    #[doc = include_str!("../docs/src/remote.md")] remote
    #[doc = include_str!("../docs/src/trainers.md")] trainers
    #[doc = include_str!("../docs/src/datasets.md")] datasets
    #[doc = include_str!("../docs/src/scale.md")] scale
    #[doc = include_str!("../docs/src/program.md")] program
    #[doc = include_str!("../docs/src/python.md")] python
    #[doc = include_str!("../docs/src/c.md")] c
    #[doc = include_str!("../docs/src/migrating.md")] migrating
    #[doc = include_str!("../docs/src/untrusted_files.md")] untrusted_files
    #[doc = include_str!("../SECURITY.md")] security
    #[doc = include_str!("../docs/src/errors.md")] errors
    #[doc = include_str!("../docs/compatibility.md")] compatibility
    #[doc = include_str!("../docs/src/maintenance.md")] maintenance
}
