//! The face that every format shows, written once: the functions, the two serde types and the methods of `Options`.

/// Makes the face of a format in its module, which has `Encode`, `Walk` and `Options { encode, limits }`.
macro_rules! face {
    ($format:literal, $module:literal) => {
        #[doc = concat!("A serde serializer that writes a ", $format, " file by its [`Plan`].")]
        ///
        /// ```
        /// use serde::Serialize;
        #[doc = concat!("use tensorfile::{TensorView, ", $module, "};")]
        ///
        /// let tensors = [TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
        #[doc = concat!("let plan = ", $module, "::plan(&tensors)?;")]
        #[doc = concat!("let mut serializer = ", $module, "::Serializer::new(Vec::new(), plan);")]
        /// tensors.serialize(&mut serializer)?;
        #[doc = concat!("assert_eq!(serializer.end()?, ", $module, "::to_vec(&tensors)?);")]
        /// # Ok::<(), tensorfile::Error>(())
        /// ```
        pub type Serializer<W> = crate::model::Serializer<crate::wire::Pour<W, Encode>>;

        #[doc = concat!("A serde deserializer that reads a ", $format, " file; `B` is where the bytes come from.")]
        ///
        /// ```
        /// use serde::Deserialize;
        #[doc = concat!("use tensorfile::{TensorMap, TensorView, ", $module, "};")]
        ///
        #[doc = concat!("let file = ", $module, "::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;")]
        #[doc = concat!("let mut deserializer = ", $module, "::Deserializer::from_slice(&file);")]
        /// let map = TensorMap::deserialize(&mut deserializer)?;
        /// deserializer.end()?;
        /// assert_eq!(map.len(), 1);
        /// # Ok::<(), tensorfile::Error>(())
        /// ```
        pub type Deserializer<'de, B> = crate::model::Deserializer<crate::wire::Reader<'de, B, Walk>>;

        /// The [`Deserializer`] of a file in memory, by a name that a struct can have in a field.
        pub type SliceDeserializer<'de> = Deserializer<'de, crate::source::Slice<'de>>;

        /// The [`Deserializer`] of a stream, by a name that a struct can have in a field.
        pub type StreamDeserializer<R> = Deserializer<'static, crate::source::Stream<R>>;

        /// What a file will be, known before it is written: how many tensors it has and how long it is.
        pub type Plan = crate::wire::Plan<Encode>;

        #[doc = concat!("Serializes a value into a ", $format, " file in memory.")]
        ///
        /// The file is allocated once, at its length, and each element is copied into it once.
        ///
        /// ```
        #[doc = concat!("use tensorfile::{TensorView, ", $module, "};")]
        ///
        #[doc = concat!("let file = ", $module, "::to_vec(&[TensorView::from_slice(&[1_i32, 2], [2])?])?;")]
        #[doc = concat!("let tensors: Vec<TensorView> = ", $module, "::from_slice(&file)?;")]
        /// assert_eq!(tensors[0].as_bytes(), [1, 0, 0, 0, 2, 0, 0, 0]);
        /// # Ok::<(), tensorfile::Error>(())
        /// ```
        ///
        /// # Errors
        ///
        /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): a tensor that the format cannot store.
        /// - [`ErrorKind::NotATensor`](crate::ErrorKind::NotATensor): a part of the value that is no tensor, such as a string.
        /// - [`ErrorKind::DuplicateName`](crate::ErrorKind::DuplicateName): two tensors of one name, where names are stored.
        /// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the value, which is serialized twice, was not the same the second time.
        pub fn to_vec<T: serde::Serialize + ?Sized>(value: &T) -> crate::Result<Vec<u8>> {
            Options::new().to_vec(value)
        }

        #[doc = concat!("Serializes a value into a writer as a ", $format, " file.")]
        ///
        /// The value is serialized twice: to know that, and where, everything can be stored, and for the elements. Nothing is held in memory
        /// but the heads of the tensors, and the writer need not seek. Small writes are gathered, large ones passed on as they are.
        ///
        /// # Errors
        ///
        /// As [`to_vec`]; then nothing has been written, but for `Changed`. [`ErrorKind::Io`](crate::ErrorKind::Io): the writer
        /// failed.
        pub fn to_writer<T: serde::Serialize + ?Sized>(writer: impl std::io::Write, value: &T) -> crate::Result<()> {
            Options::new().to_writer(writer, value)
        }

        #[doc = concat!("Deserializes a value from a ", $format, " file held in memory.")]
        ///
        /// Tensors of `T` may borrow from `file`: views do, owned arrays are copied once.
        ///
        /// ```
        #[doc = concat!("use tensorfile::{TensorView, ", $module, "};")]
        ///
        #[doc = concat!("let file = ", $module, "::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [1, 2])?])?;")]
        #[doc = concat!("let tensors: Vec<TensorView> = ", $module, "::from_slice(&file)?;")]
        /// assert_eq!(*tensors[0].shape(), [1, 2]);
        /// # Ok::<(), tensorfile::Error>(())
        /// ```
        ///
        /// # Errors
        ///
        /// By [`category`](crate::Error::category): `File` where the file is malformed, which is checked before the first value is
        /// made, `Mismatch` where it does not hold what `T` wants, and `Limit` where it passes the default
        /// [`Limits`](crate::Limits).
        pub fn from_slice<'de, T: serde::Deserialize<'de>>(file: &'de [u8]) -> crate::Result<T> {
            Options::new().from_slice(file)
        }

        #[doc = concat!("Deserializes a value from a reader that yields a ", $format, " file.")]
        ///
        /// Elements are copied from the reader's buffer into their arrays where the file is in the order of `T`, and held in between
        /// where it is not. The reader is read ahead, up to 256 KiB beyond the last tensor.
        ///
        /// # Errors
        ///
        /// As [`from_slice`], and [`ErrorKind::Io`](crate::ErrorKind::Io) where the reader fails.
        pub fn from_reader<T: for<'de> serde::Deserialize<'de>>(reader: impl std::io::Read) -> crate::Result<T> {
            Options::new().from_reader(reader)
        }

        /// What a file will be, for `Serializer::new`.
        ///
        /// # Errors
        ///
        /// As [`to_vec`].
        pub fn plan<T: serde::Serialize + ?Sized>(value: &T) -> crate::Result<Plan> {
            Options::new().plan(value)
        }

        impl Options {
            /// The defaults.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }

            /// How much a file may ask for when it is read.
            #[must_use]
            pub fn limits(mut self, limits: crate::Limits) -> Self {
                self.limits = limits;
                self
            }

            /// As [`plan`](fn@plan).
            ///
            /// # Errors
            ///
            /// The tensors of a value, for shards.
            #[cfg(feature = "shards")]
            pub(in crate::format) fn outline<T: serde::Serialize + ?Sized>(
                &self,
                value: &T,
            ) -> crate::Result<Vec<crate::wire::Outline>> {
                crate::wire::outline(value, self.encode.clone())
            }

            /// As [`to_vec`](fn@to_vec).
            pub fn plan<T: serde::Serialize + ?Sized>(&self, value: &T) -> crate::Result<Plan> {
                crate::wire::plan(value, self.encode.clone())
            }

            /// As [`to_vec`](fn@to_vec).
            ///
            /// # Errors
            ///
            /// As [`to_vec`](fn@to_vec).
            pub fn to_vec<T: serde::Serialize + ?Sized>(&self, value: &T) -> crate::Result<Vec<u8>> {
                crate::wire::to_vec(value, self.encode.clone())
            }

            /// As [`to_writer`](fn@to_writer).
            ///
            /// # Errors
            ///
            /// As [`to_writer`](fn@to_writer).
            pub fn to_writer<T: serde::Serialize + ?Sized>(
                &self,
                writer: impl std::io::Write,
                value: &T,
            ) -> crate::Result<()> {
                crate::wire::to_writer(writer, value, self.encode.clone())
            }

            /// A deserializer over a file in memory. Call `end` after the value.
            ///
            /// ```
            /// use serde::Deserialize;
            #[doc = concat!("use tensorfile::{Limits, TensorMap, TensorView, ", $module, "};")]
            ///
            #[doc = concat!("let file = ", $module, "::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;")]
            #[doc = concat!("let options = ", $module, "::Options::new().limits(Limits::new().tensors(10));")]
            /// let mut deserializer = options.slice_deserializer(&file);
            /// let map = TensorMap::deserialize(&mut deserializer)?;
            /// deserializer.end()?;
            /// assert_eq!(map.len(), 1);
            /// # Ok::<(), tensorfile::Error>(())
            /// ```
            #[must_use]
            pub fn slice_deserializer<'de>(&self, file: &'de [u8]) -> SliceDeserializer<'de> {
                crate::wire::slice_deserializer(file, Walk::default(), self.limits.clone())
            }

            /// A deserializer over a stream. Call `end` after the value.
            pub fn stream_deserializer<R: std::io::Read>(&self, reader: R) -> StreamDeserializer<R> {
                crate::wire::stream_deserializer(reader, Walk::default(), self.limits.clone())
            }

            /// As [`from_slice`](fn@from_slice).
            ///
            /// # Errors
            ///
            /// As [`from_slice`](fn@from_slice).
            pub fn from_slice<'de, T: serde::Deserialize<'de>>(&self, file: &'de [u8]) -> crate::Result<T> {
                crate::wire::from_slice(file, Walk::default(), self.limits.clone())
            }

            /// As [`from_reader`](fn@from_reader).
            ///
            /// # Errors
            ///
            /// As [`from_reader`](fn@from_reader).
            pub fn from_reader<T: for<'de> serde::Deserialize<'de>>(
                &self,
                reader: impl std::io::Read,
            ) -> crate::Result<T> {
                crate::wire::from_reader(reader, Walk::default(), self.limits.clone())
            }
        }
    };
}

pub(crate) use face;
