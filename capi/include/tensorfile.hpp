/* tensorfile.hpp: a thin C++17 interface over tensorfile.h.
 *
 * Most functions that can fail come in two forms. `file.find(name)` returns the value or throws `tensorfile::error`;
 * `file.try_find(name)` returns a `result`, which holds the value or the error. Only running out of memory in the standard
 * library throws from both. If exceptions are off, a plain form that fails prints its error and aborts.
 *
 * Your callbacks may throw. The exception is kept until the call returns. The plain form throws it again, and `try_` stores
 * it in `error::cause`. If several threads read one source, either call may get the exception of the other.
 *
 * A tensor and a plan keep their file's bytes alive. Spans and texts own nothing; each function says how long they live. A
 * moved-from or closed object may only be assigned to or destroyed; its functions that can fail return errors. */

#ifndef TENSORFILE_HPP
#define TENSORFILE_HPP

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tensorfile.h"

namespace tensorfile {

/// Borrowed elements in a row. Converts from arrays, vectors and other containers, and to `std::span`.
template <class T>
class span {
    T* data_ = nullptr;
    std::size_t size_ = 0;

public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    constexpr span() noexcept = default;
    constexpr span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <class C, class E = std::remove_pointer_t<decltype(std::data(std::declval<C&>()))>,
              class = std::enable_if_t<std::is_convertible_v<E (*)[], T (*)[]>>>
    constexpr span(C&& elements) : data_(std::data(elements)), size_(std::size(elements)) {}
    /// Allows `{2, 3}` as an argument. The elements live until the end of the full expression.
    template <class U = T, class = std::enable_if_t<std::is_const_v<U>>>
    constexpr span(std::initializer_list<value_type> elements) : span(std::data(elements), elements.size()) {}

    constexpr T* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T* begin() const noexcept { return data_; }
    constexpr T* end() const noexcept { return data_ + size_; }
    constexpr T& operator[](std::size_t index) const { return data_[index]; } ///< The index is not checked.
};

/// The dtypes, with the numbers of `tf_dtype`. `stored` as an argument means the dtype of the file.
enum class dtype : std::int32_t {
    stored, boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, f8_e5m2, f8_e4m3fn, f8_e5m2fnuz,
    f8_e4m3fnuz, qint8, quint8, qint32, quint4x2, quint2x4, bits16, f8_e8m0, f4, f6_e2m3, f6_e3m2, c64, c128, q4_0, q4_1,
    q5_0, q5_1, q8_0, q8_1, q2_k, q3_k, q4_k, q5_k, q6_k, q8_k, iq2_xxs, iq2_xs, iq3_xxs, iq1_s, iq4_nl, iq3_s, iq2_s,
    iq4_xs, iq1_m, tq1_0, tq2_0, mxfp4, nvfp4, q1_0, q2_0,
};

/// The order of a tensor's elements in its file, with the numbers of `tf_layout`.
enum class layout : std::int32_t { row_major, dim_order, coo, blob, unknown };

/// The indices `start` to `end`, without `end`, along one dim.
using range = tf_range;

/// Returns false to end the call with `TF_CANCELLED`. Arguments: bytes so far, and in total. Another thread may call it.
using progress = std::function<bool(std::uint64_t bytes, std::uint64_t total)>;

/// Lends a text to C, or views a text of C. Nothing is copied.
inline tf_text text(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view text(tf_text text) { return {text.data, text.len}; }

namespace detail {
inline std::optional<std::uint64_t> known(std::uint64_t offset) {
    return offset == TF_NO_OFFSET ? std::nullopt : std::optional(offset);
}
template <class T>
constexpr dtype dtype_for() {
    using C = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<C, std::byte>) return dtype::stored;
    else if constexpr (std::is_same_v<C, bool>) return dtype::boolean;
    else if constexpr (std::is_integral_v<C> && sizeof(C) <= 8) {
        constexpr int log2 = sizeof(C) == 8 ? 3 : static_cast<int>(sizeof(C) / 2);
        return static_cast<dtype>(static_cast<int>(std::is_signed_v<C> ? dtype::i8 : dtype::u8) + log2);
    } else if constexpr (std::is_same_v<C, float>) return dtype::f32;
    else if constexpr (std::is_same_v<C, double>) return dtype::f64;
    else if constexpr (std::is_same_v<C, std::complex<float>>) return dtype::c64;
    else if constexpr (std::is_same_v<C, std::complex<double>>) return dtype::c128;
    else static_assert(sizeof(C) == 0, "no dtype has this element type; specialize tensorfile::dtype_of for it");
}
} // namespace detail

/// The dtype of a C++ type; `stored` for `std::byte`, which stands for any. Specialize it for your own type, such as a half.
template <class T>
inline constexpr dtype dtype_of = detail::dtype_for<T>();

/// The cause of a failed call. Copies share its texts, which live as long as any of them.
class error : public std::runtime_error {
    std::shared_ptr<tf_error> owner_;
    tf_error_info info_ = {};
    std::exception_ptr cause_;

    static tf_error_info info(const tf_error* raw) {
        tf_error_info info = {};
        info.size = sizeof info;
        return tf_error_get_info(raw, &info), info;
    }

public:
    /// Takes an error of C, and the exception of a callback or null.
    error(tf_error* raw, std::exception_ptr cause)
        : std::runtime_error(std::string(text(info(raw).message))), owner_(raw, tf_error_free), info_(info(raw)),
          cause_(std::move(cause)) {}
    /// An error of this header: the call is wrong.
    explicit error(const std::string& message) : std::runtime_error(message) {
        info_.status = TF_CALL, info_.kind = text("argument"), info_.offset = TF_NO_OFFSET;
    }
    tf_status status() const noexcept { return tf_status(info_.status); }
    std::string_view kind() const noexcept { return text(info_.kind); }     ///< Such as `truncated` or `missing`.
    std::string_view tensor() const noexcept { return text(info_.tensor); } ///< Empty if it is not about a tensor.
    std::optional<std::uint64_t> offset() const noexcept { return detail::known(info_.offset); } ///< In bytes, in the file.
    int os_error() const noexcept { return info_.os_error; }                ///< As in `errno`, or 0.
    std::exception_ptr cause() const noexcept { return cause_; }            ///< The exception of your callback, or null.
};

/// A value or an error. `result<>` has no value.
template <class T = std::monostate>
class [[nodiscard]] result {
    std::variant<T, tensorfile::error> value_;

public:
    result(T value = {}) : value_(std::in_place_index<0>, std::move(value)) {}
    result(tensorfile::error error) : value_(std::in_place_index<1>, std::move(error)) {}
    bool has_value() const noexcept { return value_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    /// Returns the value, which is moved out of the result, or throws the error.
    T value() {
        if (has_value()) return std::move(**this);
#ifdef __cpp_exceptions
        if (error().cause()) std::rethrow_exception(error().cause());
        throw error();
#else
        std::fprintf(stderr, "tensorfile: %s\n", error().what());
        std::abort();
#endif
    }
    T& operator*() noexcept { return *std::get_if<0>(&value_); }  ///< There must be a value.
    T* operator->() noexcept { return std::get_if<0>(&value_); } ///< There must be a value.
    const tensorfile::error& error() const noexcept { return *std::get_if<1>(&value_); } ///< There must be an error.
};

namespace detail {
template <class C> using element = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(std::declval<C&>()))>>;
/// Whether memory that a call borrows for longer outlives the call.
template <class C> inline constexpr bool outlives = std::is_lvalue_reference_v<C>;
template <class T> inline constexpr bool outlives<span<T>> = true;

/// Callbacks of an object or a call. C has their address.
struct callbacks {
    std::shared_ptr<callbacks> parent; // callbacks of the file, for a plan
    tensorfile::progress progress;
    std::mutex mutex;
    std::exception_ptr kept;

    /// Calls a callback that returns nothing or an error number, and keeps its exception.
    template <class F>
    int run(F&& call) noexcept {
#ifdef __cpp_exceptions
        try {
#endif
            if constexpr (std::is_void_v<decltype(call())>) return call(), 0;
            else return call();
#ifdef __cpp_exceptions
        } catch (...) {
            const std::lock_guard lock(mutex);
            return kept = std::current_exception(), 5; // EIO
        }
#endif
    }
    static int on_progress(void* context, std::uint64_t bytes, std::uint64_t total) {
        auto& self = *static_cast<callbacks*>(context);
        return self.run([&] { return self.progress(bytes, total) ? 0 : 1; });
    }
    std::exception_ptr take() {
        std::unique_lock lock(mutex);
        if (auto taken = std::exchange(kept, nullptr)) return taken;
        return lock.unlock(), parent ? parent->take() : nullptr;
    }
};

/// Calls a function of C with a place for its error.
template <class F>
result<> call(callbacks* callbacks, F&& function) {
    tf_error* raw = nullptr;
    const tf_status status = function(&raw);
    if (status == TF_OK) return {};
    // Other errors do not come from callbacks. An exception is that of a call in another thread then.
    return error(raw, callbacks && (status == TF_IO || status == TF_CANCELLED) ? callbacks->take() : nullptr);
}

/// A shared handle, which is closed before its callbacks go.
template <class T>
class object {
protected:
    std::shared_ptr<callbacks> callbacks_;
    std::shared_ptr<T> raw_;
    object() = default;
    object(T* raw, void (*close)(T*), std::shared_ptr<callbacks> callbacks)
        : callbacks_(std::move(callbacks)), raw_(raw, [close, kept = callbacks_](T* handle) { close(handle); }) {}
    template <class F>
    result<> call(F&& function) const {
        return detail::call(callbacks_.get(), [&](tf_error** error) { return function(get(), error); });
    }
    /// Returns a struct that C fills.
    template <class V, class F>
    result<V> fetch(F&& function) const {
        V value = {};
        if constexpr (std::is_same_v<decltype(sizeof value), decltype(value.size)>) value.size = sizeof value;
        auto done = call([&](auto* raw, auto error) { return function(raw, &value, error); });
        return done ? result<V>(value) : done.error();
    }
    template <class V, class F>
    result<span<const V>> array(F&& function) const {
        const V* items = nullptr;
        std::size_t count = 0;
        auto done = call([&](auto* raw, auto error) { return function(raw, &items, &count, error); });
        return done ? result(span<const V>(items, count)) : done.error();
    }

public:
    T* get() const noexcept { return raw_.get(); } ///< The handle of C, which this object owns.
};

/// Options of C, and a callback that takes the place of their `progress`.
template <class C, C (*Default)()>
struct options : C {
    tensorfile::progress on_progress;
    options() : C(Default()) {}
    C with(callbacks& callbacks) const {
        C made = *this;
        if ((callbacks.progress = on_progress)) made.progress = callbacks::on_progress, made.progress_context = &callbacks;
        return made;
    }
};
} // namespace detail

/// Returns whether the library fits to this header.
inline bool abi_matches() { return tf_abi_version() == TF_ABI_VERSION; }

/// Fields of `tf_open_options`, and `on_progress`, which is kept with the file. Set texts with `text("npz")`.
using open_options = detail::options<tf_open_options, tf_open_options_default>;
/// Fields of `tf_plan_options`, and `on_progress`, which is kept with the plan.
using plan_options = detail::options<tf_plan_options, tf_plan_options_default>;
/// Fields of `tf_save_options`, and `on_progress`, which is called during the save only.
using save_options = detail::options<tf_save_options, tf_save_options_default>;

/// A tensor of an open file. It keeps the file's bytes alive. A copy is cheap: both share the handle. Texts, dims, strides
/// and views live as long as any copy. Any number of threads may use a tensor at once.
class tensor : public detail::object<tf_tensor> {
    tf_tensor_info info_ = {};
    friend class file;
    tensor(tf_tensor* raw, const std::shared_ptr<detail::callbacks>& callbacks) : object(raw, tf_tensor_close, callbacks) {
        info_ = fetch<tf_tensor_info>(tf_tensor_get_info).value();
    }
    tensorfile::error fault(const char* what) const { return error("tensor `" + std::string(name()) + "`: " + what); }

public:
    std::string_view name() const noexcept { return text(info_.name); } ///< Its position in digits if it has no name.
    tensorfile::dtype dtype() const noexcept { return tensorfile::dtype(info_.dtype); }
    tensorfile::layout layout() const noexcept { return tensorfile::layout(info_.layout); }
    span<const std::size_t> dims() const noexcept { return {info_.dims, info_.rank}; }
    /// Returns the distance of neighbours in a view, in bytes. Empty for sparse tensors, unknown dtypes and blocks.
    span<const std::ptrdiff_t> strides() const noexcept { return {info_.strides, info_.strides ? info_.rank : 0}; }
    std::size_t bytes() const noexcept { return info_.bytes; } ///< The length of the elements, decoded.
    std::optional<std::uint64_t> offset() const noexcept { return detail::known(info_.offset); } ///< In the file.
    std::size_t alignment() const noexcept { return info_.alignment; } ///< Of the offset: a power of two up to 4096.
    std::string_view unknown_dtype() const noexcept { return text(info_.unknown_dtype); } ///< Its name; mostly empty.

    /// Returns the elements without a copy, in the order of the file: see `strides`. `T` is the element type, whose dtype
    /// and alignment are checked, or `std::byte`. A temporary tensor has no view, because the view would outlive it.
    template <class T = std::byte> span<const T> view() const& { return try_view<T>().value(); }
    template <class T = std::byte> void view() const&& = delete;
    template <class T = std::byte> void try_view() const&& = delete;
    template <class T = std::byte>
    result<span<const T>> try_view() const& {
        constexpr bool typed = dtype_of<T> != tensorfile::dtype::stored;
        const void* data = nullptr;
        std::size_t size = 0;
        auto done = call([&](auto* raw, auto error) { return tf_view(raw, &data, &size, error); });
        if (!done) return done.error();
        if (typed && (!info_.strides || dtype() != dtype_of<T>)) return fault("the dtype of the view is wrong; read it");
        if (size && reinterpret_cast<std::uintptr_t>(data) % alignof(T)) return fault("it is not aligned; read it");
        return span<const T>(static_cast<const T*>(data), size / sizeof(T));
    }
    /// Reads the elements in row-major order, cast to `T`; or those in `ranges`, one for each dim.
    /// `read<std::byte>()` reads the bytes as they are stored.
    template <class T> std::vector<T> read(span<const range> ranges = {}) const { return try_read<T>(ranges).value(); }
    template <class T>
    result<std::vector<T>> try_read(span<const range> ranges = {}) const {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> is no array; read std::uint8_t");
        constexpr bool typed = dtype_of<T> != tensorfile::dtype::stored;
        if (typed && !info_.strides) return fault("it has no single elements; read std::byte");
        if (!ranges.empty() && ranges.size() != dims().size()) return fault("one range for each dim");
        std::size_t count = typed || !ranges.empty() ? 1 : bytes();
        for (std::size_t i = 0; (typed || !ranges.empty()) && i < dims().size(); ++i) {
            const range part = ranges.empty() ? range{0, dims()[i]} : ranges[i];
            if (part.start > part.end || part.end > dims()[i]) return fault("a range exceeds its dim");
            count *= part.end - part.start;
        }
        std::vector<T> elements(count);
        auto done = try_read_into(elements, dtype_of<T>, ranges);
        return done ? result(std::move(elements)) : done.error();
    }
    /// Reads elements, cast to `to`, into a container or a span of exactly their number. With `ranges` and `strides` in
    /// bytes, one for each dim, it may be larger, and bytes between the elements stay as they are.
    template <class M>
    void read_into(M&& memory, tensorfile::dtype to = dtype_of<detail::element<M>>, span<const range> ranges = {},
                   span<const std::ptrdiff_t> strides = {}) const {
        try_read_into(memory, to, ranges, strides).value();
    }
    template <class M>
    result<> try_read_into(M&& memory, tensorfile::dtype to = dtype_of<detail::element<M>>, span<const range> ranges = {},
                           span<const std::ptrdiff_t> strides = {}) const {
        if (!strides.empty() && strides.size() != ranges.size()) return fault("one range and one stride for each dim");
        auto* data = std::data(memory);
        const std::size_t size = std::size(memory) * sizeof *data;
        return call([&](auto* raw, auto error) {
            if (ranges.empty()) return tf_read(raw, std::int32_t(to), data, size, error);
            return tf_slice(raw, ranges.data(), ranges.size(), std::int32_t(to), data, size,
                            strides.empty() ? nullptr : strides.data(), error);
        });
    }
    /// Reads a part: `slice<float>({{0, 2}, {4, 8}})`.
    template <class T> std::vector<T> slice(span<const range> ranges) const { return try_read<T>(ranges).value(); }
};

/// A tensor, or a part of it: a range for each dim. Without ranges, it is the whole tensor.
struct part {
    std::string_view name;
    std::vector<range> ranges;
};

/// Tensors and parts that are read together, with several threads. It keeps the file's bytes alive. Copies share it.
class plan : public detail::object<tf_plan> {
    tf_plan_info info_ = {};
    friend class file;
    plan(tf_plan* raw, std::shared_ptr<detail::callbacks> callbacks) : object(raw, tf_plan_free, std::move(callbacks)) {
        info_ = fetch<tf_plan_info>(tf_plan_get_info).value();
    }

public:
    std::size_t size() const noexcept { return info_.pieces; }             ///< The number of pieces.
    std::size_t bytes() const noexcept { return info_.bytes; }             ///< The length of the memory for all pieces.
    std::uint64_t bytes_read() const noexcept { return info_.bytes_read; } ///< The number of bytes read from the file.
    /// Returns a piece. Its name and dims live as long as the plan.
    tf_piece operator[](std::size_t index) const { return try_at(index).value(); }
    result<tf_piece> try_at(std::size_t index) const {
        return fetch<tf_piece>([&](auto* raw, auto* piece, auto error) { return tf_plan_piece(raw, index, piece, error); });
    }
    /// Reads all pieces into one memory, each at its offset.
    void read(span<std::byte> memory) const { try_read(memory).value(); }
    result<> try_read(span<std::byte> memory) const {
        return call([&](auto* raw, auto error) { return tf_plan_read(raw, memory.data(), memory.size(), error); });
    }
    /// Reads each piece into a memory of its own, which has its length.
    void read_each(span<void* const> each) const { try_read_each(each).value(); }
    result<> try_read_each(span<void* const> each) const {
        return call([&](auto* raw, auto error) { return tf_plan_read_each(raw, each.data(), each.size(), error); });
    }
};

/// A tensor that a file should have.
struct expected {
    std::string_view name;
    tensorfile::dtype dtype;
    std::vector<std::size_t> dims;
};

/// A comparison of a file with expected tensors. It owns its texts.
struct report {
    std::size_t differences; ///< 0 if the file fits.
    std::string text, json;
};

/// An open file. A copy is cheap: both share the handle. Any number of threads may use it at once. Only the index is read
/// when it is opened. Its tensors and plans keep its bytes when it is closed.
class file : public detail::object<tf_file> {
    tf_file_info info_ = {};
    file() = default;
    file(tf_file* raw, std::shared_ptr<detail::callbacks> callbacks) : object(raw, tf_file_close, std::move(callbacks)) {
        info_ = fetch<tf_file_info>(tf_file_get_info).value();
    }
    template <class F>
    static result<file> make(const open_options& options, F&& open, std::shared_ptr<detail::callbacks> callbacks = {}) {
        if (!callbacks) callbacks = std::make_shared<detail::callbacks>();
        const auto with = options.with(*callbacks);
        tf_file* raw = nullptr;
        auto done = detail::call(callbacks.get(), [&](auto error) { return open(&with, &raw, error); });
        return done ? result(file(raw, std::move(callbacks))) : done.error();
    }
    template <class F>
    result<tensor> tensor_of(F&& get) const {
        tf_tensor* raw = nullptr;
        auto done = call([&](auto* self, auto error) { return get(self, &raw, error); });
        return done ? result(tensor(raw, callbacks_)) : done.error();
    }
    result<tensorfile::plan> plan_of(const tf_part* parts, std::size_t count, const plan_options& options) const {
        auto callbacks = std::make_shared<detail::callbacks>();
        callbacks->parent = callbacks_;
        const auto with = options.with(*callbacks);
        tf_plan* raw = nullptr;
        auto done = detail::call(
            callbacks.get(), [&](auto error) { return tf_plan_new(get(), parts, count, &with, &raw, error); });
        return done ? result(tensorfile::plan(raw, std::move(callbacks))) : done.error();
    }

public:
    /// Opens a file, an index of shards or a folder of a trainer. The path is UTF-8 on Windows.
    static file open(std::string_view path, const open_options& with = {}) { return try_open(path, with).value(); }
    static result<file> try_open(std::string_view path, const open_options& with = {}) {
        return make(with, [&](auto... rest) { return tf_open(text(path), rest...); });
    }
    /// Opens the bytes of a container or a span without a copy. They must outlive the file, its tensors and its plans.
    template <class C> static file open_borrowed(C&& bytes, const open_options& with = {}) {
        return try_open_borrowed(std::forward<C>(bytes), with).value();
    }
    template <class C> static result<file> try_open_borrowed(C&& bytes, const open_options& with = {}) {
        static_assert(detail::outlives<C>, "the bytes of a temporary would be gone; use open_owned");
        const std::size_t size = std::size(bytes) * sizeof *std::data(bytes);
        return make(with, [&](auto... rest) { return tf_open_memory(std::data(bytes), size, nullptr, nullptr, rest...); });
    }
    /// Opens the bytes of a container that is moved in. It is destroyed after the file, its tensors and its plans.
    template <class C> static file open_owned(C bytes, const open_options& with = {}) {
        return try_open_owned(std::move(bytes), with).value();
    }
    template <class C> static result<file> try_open_owned(C bytes, const open_options& with = {}) {
        auto* kept = new C(std::move(bytes));
        const std::size_t size = std::size(*kept) * sizeof *std::data(*kept);
        const auto free = [](void* context) { delete static_cast<C*>(context); };
        return make(with, [&](auto... rest) { return tf_open_memory(std::data(*kept), size, free, kept, rest...); });
    }
    /// Opens `len` bytes that `read(offset, span<std::byte>)` fills. It returns nothing, or an error number. It is moved in,
    /// called by several threads at once, and destroyed after the file. The extension of `name` may decide the format.
    template <class R>
    static file open_source(std::string_view name, std::uint64_t len, R read, const open_options& with = {}) {
        return try_open_source(name, len, std::move(read), with).value();
    }
    template <class R>
    static result<file> try_open_source(std::string_view name, std::uint64_t len, R read, const open_options& with = {}) {
        struct reader { R read; std::shared_ptr<detail::callbacks> callbacks; };
        auto* kept = new reader{std::move(read), std::make_shared<detail::callbacks>()};
        const auto read_at = [](void* context, std::uint64_t offset, void* bytes, std::size_t size) {
            auto& self = *static_cast<reader*>(context);
            const span<std::byte> fill(static_cast<std::byte*>(bytes), size);
            return self.callbacks->run([&] { return self.read(offset, fill); });
        };
        const auto free = [](void* context) { delete static_cast<reader*>(context); };
        const tf_source source = {sizeof source, text(name), len, read_at, free, kept};
        return make(with, [&](auto... rest) { return tf_open_source(&source, rest...); }, kept->callbacks);
    }
    std::string_view format() const noexcept { return text(info_.format); } ///< Such as `gguf`. It lives forever.
    std::size_t size() const noexcept { return info_.tensors; }             ///< The number of tensors.
    std::uint64_t bytes() const noexcept { return info_.bytes; }            ///< The length of the file or its shards.
    void close() { *this = file(); } ///< Gives this handle back. Tensors, plans and copies stay.
    /// Returns the tensor at a position, from 0, in the order of the file.
    tensor operator[](std::size_t position) const { return try_at(position).value(); }
    result<tensor> try_at(std::size_t position) const {
        return tensor_of([&](auto* self, auto... rest) { return tf_file_tensor(self, position, rest...); });
    }
    /// Finds a tensor by name; one without a name by its position in digits.
    tensor find(std::string_view name) const { return try_find(name).value(); }
    result<tensor> try_find(std::string_view name) const {
        return tensor_of([&](auto* self, auto... rest) { return tf_file_find(self, text(name), rest...); });
    }
    /// Passes over the tensors, by value: `for (auto tensor : file)`. Iterators borrow the file.
    struct iterator {
        const file* of;
        std::size_t position;
        tensor operator*() const { return (*of)[position]; }
        iterator& operator++() { return ++position, *this; }
        bool operator!=(const iterator& other) const { return position != other.position; }
    };
    iterator begin() const { return {this, 0}; }
    iterator end() const { return {this, size()}; }
    /// Returns the metadata. It lives as long as the file; read texts with `text(entry.key)`.
    span<const tf_entry> metadata() const { return try_metadata().value(); }
    result<span<const tf_entry>> try_metadata() const { return array<tf_entry>(tf_file_metadata); }
    /// Returns the warnings about the file. They live as long as it.
    span<const tf_warning> warnings() const { return try_warnings().value(); }
    result<span<const tf_warning>> try_warnings() const { return array<tf_warning>(tf_file_warnings); }
    /// Compares names, dtypes and shapes with those you expect. Differences are not an error.
    tensorfile::report report(const std::vector<expected>& tensors) const { return try_report(tensors).value(); }
    result<tensorfile::report> try_report(const std::vector<expected>& tensors) const {
        std::vector<tf_expected> all;
        for (auto& each : tensors)
            all.push_back({text(each.name), std::int32_t(each.dtype), each.dims.size(), each.dims.data()});
        tf_report* raw = nullptr;
        auto done = call([&](auto* self, auto error) { return tf_file_report(self, all.data(), all.size(), &raw, error); });
        if (!done) return done.error();
        const std::unique_ptr<tf_report, void (*)(tf_report*)> owner(raw, tf_report_free);
        tf_report_info info = {};
        info.size = sizeof info;
        tf_report_get_info(raw, &info, nullptr);
        return tensorfile::report{info.differences, std::string(text(info.text)), std::string(text(info.json))};
    }
    /// Plans to read parts, or all tensors. No element is read yet.
    tensorfile::plan plan(const std::vector<part>& parts, const plan_options& with = {}) const {
        return try_plan(parts, with).value();
    }
    result<tensorfile::plan> try_plan(const std::vector<part>& parts, const plan_options& with = {}) const {
        std::vector<tf_part> all;
        for (auto& part : parts)
            all.push_back({text(part.name), part.ranges.empty() ? nullptr : part.ranges.data(), part.ranges.size()});
        const tf_part none = {};
        return plan_of(all.empty() ? &none : all.data(), all.size(), with);
    }
    tensorfile::plan plan_all(const plan_options& with = {}) const { return try_plan_all(with).value(); }
    result<tensorfile::plan> try_plan_all(const plan_options& with = {}) const { return plan_of(nullptr, 0, with); }
};

/// Named tensors in your memory, and metadata, to be written. Use it from one thread at a time.
class writer {
    std::unique_ptr<tf_writer, void (*)(tf_writer*)> raw_{nullptr, tf_writer_free};

public:
    writer() {
        tf_writer* raw = nullptr;
        detail::call(nullptr, [&](auto error) { return tf_writer_new(&raw, error); }).value();
        raw_.reset(raw);
    }
    /// Adds a tensor. The elements are not copied: they must stay as they are until the last save. The name and the dims are
    /// copied. Their number must be the product of the dims.
    template <class C> void add(std::string_view name, C&& elements, span<const std::size_t> dims) {
        try_add(name, std::forward<C>(elements), dims).value();
    }
    template <class C> result<> try_add(std::string_view name, C&& elements, span<const std::size_t> dims) {
        static_assert(detail::outlives<C>, "the elements of a temporary would be gone before they are saved");
        std::size_t count = 1;
        for (auto dim : dims) count *= dim;
        if (count != std::size(elements)) return error("the number of elements is not the product of the dims");
        return try_add(name, dtype_of<detail::element<C>>, dims, std::data(elements));
    }
    /// Adds a tensor of any dtype. `data` is the element at index 0 of each dim. Strides are in bytes, and may be negative or
    /// 0; without them, elements are in row-major order. The memory is not checked.
    void add(std::string_view name, dtype dtype, span<const std::size_t> dims, const void* data,
             span<const std::ptrdiff_t> strides = {}) {
        try_add(name, dtype, dims, data, strides).value();
    }
    result<> try_add(std::string_view name, dtype dtype, span<const std::size_t> dims, const void* data,
                     span<const std::ptrdiff_t> strides = {}) {
        if (!strides.empty() && strides.size() != dims.size()) return error("one stride for each dim");
        const tf_array array = {sizeof array, text(name), std::int32_t(dtype), dims.size(), dims.data(),
                                strides.empty() ? nullptr : strides.data(), data};
        return detail::call(nullptr, [&](auto error) { return tf_writer_add(raw_.get(), &array, error); });
    }
    /// Sets an entry of the metadata, which is copied. A later one with the same key replaces it.
    void set_metadata(std::string_view key, std::string_view value) { try_set_metadata(key, value).value(); }
    result<> try_set_metadata(std::string_view key, std::string_view value) {
        return detail::call(
            nullptr, [&](auto error) { return tf_writer_metadata(raw_.get(), text(key), text(value), error); });
    }
    /// Saves a file. An existing one is replaced only by a complete one.
    void save(std::string_view path, const save_options& with = {}) const { try_save(path, with).value(); }
    result<> try_save(std::string_view path, const save_options& with = {}) const {
        detail::callbacks callbacks;
        const auto options = with.with(callbacks);
        return detail::call(&callbacks, [&](auto error) { return tf_save(raw_.get(), text(path), &options, error); });
    }
    /// Passes the file to `sink(span<const std::byte>)` in pieces, in order. It returns nothing, or an error number.
    template <class S> void write(S&& sink, const save_options& with) const { try_write(sink, with).value(); }
    template <class S> result<> try_write(S&& sink, const save_options& with) const {
        detail::callbacks callbacks;
        const auto options = with.with(callbacks);
        auto take = [&](const void* bytes, std::size_t size) {
            return callbacks.run([&] { return sink(span(static_cast<const std::byte*>(bytes), size)); });
        };
        const auto pass = [](void* context, const void* bytes, std::size_t size) {
            return (*static_cast<decltype(take)*>(context))(bytes, size);
        };
        return detail::call(&callbacks, [&](auto error) { return tf_write(raw_.get(), pass, &take, &options, error); });
    }
};

/// Copies the tensors and the metadata of a file to another file, which may be the same and of another format.
inline result<> try_convert(std::string_view from, std::string_view to, const save_options& save = {},
                            const open_options& open = {}) {
    detail::callbacks callbacks;
    callbacks.parent = std::make_shared<detail::callbacks>();
    const auto opened = open.with(*callbacks.parent);
    const auto saved = save.with(callbacks);
    return detail::call(
        &callbacks, [&](auto error) { return tf_convert(text(from), &opened, text(to), &saved, error); });
}
inline void convert(std::string_view from, std::string_view to, const save_options& save = {},
                    const open_options& open = {}) {
    try_convert(from, to, save, open).value();
}

} // namespace tensorfile

#endif // TENSORFILE_HPP
