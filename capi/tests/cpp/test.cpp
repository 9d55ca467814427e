// Tests tensorfile.hpp: `test [FIXTURES [FOLDER]]`. FIXTURES has files of other software and may be missing or empty;
// files are written to FOLDER, by default below the folder for temporary files.

#include <tensorfile.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <numeric>
#include <regex>
#include <sstream>
#include <thread>

namespace fs = std::filesystem;
namespace tf = tensorfile;
using tf::text;

static std::atomic<int> checks{0};

[[noreturn]] static void fail(const char* file, int line, const std::string& what) {
    std::cerr << file << ':' << line << ": " << what << std::endl;
    std::exit(1);
}

#define CHECK(...) (++checks, (__VA_ARGS__) ? void() : fail(__FILE__, __LINE__, #__VA_ARGS__))

/// Checks that a statement throws an error of a status and a kind, whose message has a part.
#define CHECK_ERROR(STATUS, KIND, PART, ...)                                                                       \
    do {                                                                                                           \
        ++checks;                                                                                                  \
        bool thrown = false;                                                                                       \
        try {                                                                                                      \
            __VA_ARGS__;                                                                                           \
        } catch (const tf::error& error) {                                                                         \
            thrown = true;                                                                                         \
            const std::string message = error.what();                                                             \
            if (error.status() != STATUS || error.kind() != KIND || message.find(PART) == std::string::npos)       \
                fail(__FILE__, __LINE__, std::to_string(error.status()) + " " + std::string(error.kind()) + ": " + message); \
        }                                                                                                          \
        if (!thrown) fail(__FILE__, __LINE__, "no error: " #__VA_ARGS__);                                          \
    } while (false)

struct oops : std::exception {
    const char* what() const noexcept override { return "oops"; }
};

/// Checks that a statement throws the exception of a callback.
#define CHECK_OOPS(...)                                                     \
    do {                                                                    \
        ++checks;                                                           \
        bool thrown = false;                                                \
        try {                                                               \
            __VA_ARGS__;                                                    \
        } catch (const oops&) {                                             \
            thrown = true;                                                  \
        }                                                                   \
        if (!thrown) fail(__FILE__, __LINE__, "no exception: " #__VA_ARGS__); \
    } while (false)

template <class A, class B>
static bool same(const A& a, const B& b) {
    return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b));
}

static std::string sha256(tf::span<const std::byte> bytes) {
    // The constants are fractions of roots of primes.
    static const auto constants = [] {
        std::array<std::uint32_t, 72> made{};
        int count = 0;
        for (unsigned n = 2; count < 64; ++n) {
            bool prime = true;
            for (unsigned d = 2; d * d <= n; ++d) prime = prime && n % d;
            if (!prime) continue;
            const auto fraction = [](long double root) {
                return static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
            };
            if (count < 8) made[64 + count] = fraction(std::sqrt(static_cast<long double>(n)));
            made[count++] = fraction(std::cbrt(static_cast<long double>(n)));
        }
        return made;
    }();
    std::vector<std::uint8_t> padded;
    for (auto byte : bytes) padded.push_back(std::to_integer<std::uint8_t>(byte));
    padded.push_back(0x80);
    while (padded.size() % 64 != 56) padded.push_back(0);
    for (int i = 7; i >= 0; --i) padded.push_back(static_cast<std::uint8_t>(std::uint64_t(bytes.size()) * 8 >> (8 * i)));
    std::array<std::uint32_t, 8> state;
    std::copy_n(&constants[64], 8, state.begin());
    const auto turn = [](std::uint32_t x, int by) { return x >> by | x << (32 - by); };
    for (std::size_t block = 0; block < padded.size(); block += 64) {
        std::array<std::uint32_t, 64> w{};
        for (int i = 0; i < 64; ++i) w[i / 4] |= std::uint32_t(padded[block + i]) << (24 - i % 4 * 8);
        for (int i = 16; i < 64; ++i)
            w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
                   (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
        auto [a, b, c, d, e, f, g, h] = state;
        for (int i = 0; i < 64; ++i) {
            const auto t = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
            const auto u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t, d = c, c = b, b = a, a = t + u;
        }
        const std::array<std::uint32_t, 8> add{a, b, c, d, e, f, g, h};
        for (int i = 0; i < 8; ++i) state[i] += add[i];
    }
    std::ostringstream hex;
    for (auto word : state) hex << std::hex << std::setw(8) << std::setfill('0') << word;
    return hex.str();
}

static std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Tensors of the test: 2 × 3 × 4 floats that count up, and 5 integers.
struct sample {
    std::vector<float> floats = std::vector<float>(24);
    std::vector<std::int32_t> ints{-2, -1, 0, 1, 2};
    tf::writer writer;

    explicit sample(bool both = true) {
        std::iota(floats.begin(), floats.end(), 0.0F);
        writer.add("floats", floats, {2, 3, 4});
        if (both) writer.add("ints", ints, {5});
    }
};

static_assert(std::int32_t(tf::dtype::f32) == TF_DTYPE_F32 && std::int32_t(tf::dtype::q4_0) == TF_DTYPE_Q4_0);
static_assert(std::int32_t(tf::dtype::q2_0) == TF_DTYPE_Q2_0 && std::int32_t(tf::layout::unknown) == TF_LAYOUT_UNKNOWN);

static void dtypes() {
    tf_dtype_info info = {};
    info.size = sizeof info;
    const std::pair<tf::dtype, const char*> some[] = {
        {tf::dtype::boolean, "bool"}, {tf::dtype::i8, "i8"},         {tf::dtype::u64, "u64"},     {tf::dtype::f16, "f16"},
        {tf::dtype::f32, "f32"},      {tf::dtype::qint8, "qint8"},   {tf::dtype::f4, "f4"},       {tf::dtype::c128, "c128"},
        {tf::dtype::q8_k, "q8_k"},    {tf::dtype::iq1_m, "iq1_m"},   {tf::dtype::mxfp4, "mxfp4"}, {tf::dtype::q2_0, "q2_0"},
        {tf::dtype::bits16, "bits16"}, {tf::dtype::f8_e8m0, "f8_e8m0"},
    };
    for (const auto& [dtype, name] : some) {
        CHECK(tf_dtype_get_info(std::int32_t(dtype), &info, nullptr) == TF_OK);
        CHECK(text(info.name) == name);
    }
    CHECK(tf::dtype_of<std::int8_t> == tf::dtype::i8 && tf::dtype_of<std::int16_t> == tf::dtype::i16);
    CHECK(tf::dtype_of<int> == tf::dtype::i32 && tf::dtype_of<long long> == tf::dtype::i64);
    CHECK(tf::dtype_of<std::uint8_t> == tf::dtype::u8 && tf::dtype_of<std::uint64_t> == tf::dtype::u64);
    CHECK(tf::dtype_of<const double> == tf::dtype::f64 && tf::dtype_of<std::complex<float>> == tf::dtype::c64);
    CHECK(tf::abi_matches());
}

/// Writes a file of each format, and checks everything that can be read.
static void formats(const fs::path& folder) {
    for (const char* extension : {"btf", "ten", "ptd", "tbs", "safetensors", "npy", "npz", "gguf", "pt"}) {
        const std::string kind = extension;
        const bool one = kind == "npy" || kind == "tbs";
        sample sample(!one);
        const auto path = (folder / ("sample." + kind)).string();
        tf::save_options options;
        if (kind == "pt") options.format = text("pytorch");
        sample.writer.save(path, options);
        const auto file = tf::file::open(path);
        CHECK(file.size() == (one ? 1 : 2) && file.bytes() == fs::file_size(path));
        CHECK(file.format() == (kind == "pt" ? "pytorch" : kind == "tbs" ? "tensorbuffers" : kind));
        std::size_t seen = 0;
        for (auto tensor : file) {
            const bool ints = tensor.dtype() == tf::dtype::i32;
            CHECK(same(tensor.dims(), ints ? std::vector<std::size_t>{5} : std::vector<std::size_t>{2, 3, 4}));
            CHECK(tensor.bytes() == (ints ? 20 : 96) && tensor.unknown_dtype().empty());
            CHECK(tensor.layout() == tf::layout::row_major);
            CHECK(same(tensor.strides(), ints ? std::vector<std::ptrdiff_t>{4} : std::vector<std::ptrdiff_t>{48, 16, 4}));
            if (ints) CHECK(same(tensor.read<std::int32_t>(), sample.ints));
            if (ints) CHECK(tensor.read<double>()[0] == -2.0);
            if (!ints) CHECK(same(tensor.read<float>(), sample.floats));
            if (!ints) CHECK(tensor.read<std::uint8_t>()[23] == 23);
            CHECK(file.find(tensor.name()).name() == tensor.name());
            CHECK(tensor.read<std::byte>().size() == tensor.bytes());
            if (tensor.offset()) CHECK(*tensor.offset() % tensor.alignment() == 0);
            if (auto view = tensor.try_view()) {
                CHECK(view->size() == tensor.bytes());
                CHECK(!std::memcmp(view->data(), ints ? static_cast<void*>(sample.ints.data()) : sample.floats.data(), view->size()));
            }
            seen += 1;
        }
        CHECK(seen == file.size());
        const auto tensor = file[0].dtype() == tf::dtype::f32 ? file[0] : file[1];
        if (tensor.alignment() >= 4 && tensor.try_view()) CHECK(same(tensor.view<float>(), sample.floats));
        CHECK(same(tensor.slice<float>({{1, 2}, {0, 3}, {2, 3}}), std::vector<float>{14, 18, 22}));
        CHECK(same(tensor.slice<std::int64_t>({{0, 1}, {1, 2}, {1, 3}}), std::vector<int>{5, 6}));
        CHECK(tensor.slice<float>({{1, 1}, {0, 3}, {0, 4}}).empty());
        // The other order of the last two dims, cast, with gaps that stay.
        std::vector<double> apart(13, -1.0);
        tensor.read_into(apart, tf::dtype::f64, {{0, 1}, {0, 2}, {0, 4}}, {104, 8, 24});
        CHECK(same(apart, std::vector<double>{0, 4, -1, 1, 5, -1, 2, 6, -1, 3, 7, -1, -1}));
    }
}

static void plans(const fs::path& folder) {
    const auto path = (folder / "sample.safetensors").string();
    sample sample;
    auto file = tf::file::open(path);
    const auto all = file.plan_all();
    CHECK(all.size() == 2 && all.bytes_read() == 116);
    std::vector<std::byte> memory(all.bytes());
    all.read(memory);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto piece = all[i];
        CHECK(piece.offset % 64 == 0 && piece.offset + piece.bytes <= memory.size());
        const auto* expected = text(piece.name) == "ints" ? static_cast<void*>(sample.ints.data()) : sample.floats.data();
        CHECK(!std::memcmp(&memory[piece.offset], expected, piece.bytes));
    }
    std::array<float, 4> row{};
    std::array<std::int32_t, 5> ints{};
    std::uint64_t last = 0;
    tf::plan_options options;
    options.on_progress = [&](std::uint64_t bytes, std::uint64_t) { return last = bytes, true; };
    auto parts = file.plan({{"floats", {{1, 2}, {2, 3}, {0, 4}}}, {"ints", {}}}, options);
    file.close();
    CHECK(parts.size() == 2 && parts[0].rank == 3 && parts[0].dims[2] == 4);
    parts.read_each({row.data(), ints.data()});
    CHECK(same(row, std::array<float, 4>{20, 21, 22, 23}) && same(ints, sample.ints) && last == 36);
    const auto reopened = tf::file::open(path);
    CHECK(reopened.plan({}).size() == 0);
    CHECK_ERROR(TF_CALL, "argument", "2", parts.try_at(2).value());
    CHECK_ERROR(TF_CALL, "argument", "1 memories", parts.read_each({row.data()}));
    CHECK(!all.try_read({}).has_value());
    options.on_progress = [](auto, auto) -> bool { throw oops(); };
    CHECK_OOPS(reopened.plan_all(options).read(memory));
    options.on_progress = [](auto, auto) { return false; };
    CHECK_ERROR(TF_CANCELLED, "cancelled", "", reopened.plan_all(options).read(memory));
}

static void ownership(const fs::path& folder) {
    const auto path = (folder / "sample.safetensors").string();
    sample sample;
    auto file = tf::file::open(path);
    auto copy = file;
    auto tensor = file.find("floats");
    auto second = tensor;
    const auto view = tensor.view<float>();
    file.close();
    CHECK(file.size() == 0 && !file.try_at(0) && copy.size() == 2);
    copy.close();
    CHECK_ERROR(TF_CALL, "argument", "NULL", file.find("floats"));
    CHECK(same(view, sample.floats) && tensor.name() == "floats");
    tensor = second;
    CHECK(same(second.read<float>(), sample.floats) && view.data() == second.view<float>().data());

    const auto bytes = contents(path);
    auto borrowed = tf::file::open_borrowed(bytes);
    const auto lent = borrowed.find("floats");
    const auto* start = reinterpret_cast<const std::byte*>(bytes.data());
    CHECK(lent.view().data() >= start && lent.view().data() < start + bytes.size());
    auto owned = tf::file::open_owned(std::vector<char>(bytes.begin(), bytes.end()));
    const auto kept = owned.find("ints");
    owned.close();
    CHECK(same(kept.read<std::int32_t>(), sample.ints));
    CHECK_ERROR(TF_FILE, "not-tensors", "no tensors", tf::file::open_owned(std::string("no tensors")));

    // A source of the user, which is destroyed after its last tensor.
    auto gone = std::make_shared<bool>(true);
    std::weak_ptr<bool> is_gone = gone;
    auto reads = std::make_shared<std::atomic<int>>(0);
    auto source = tf::file::open_source("memory", bytes.size(), [bytes, gone = std::move(gone), reads](auto offset, auto into) {
        *reads += 1;
        std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, into.size(), into.begin());
    });
    auto from_source = source.find("floats");
    source.close();
    CHECK(same(from_source.read<float>(), sample.floats) && *reads > 0 && !is_gone.expired());
    from_source = lent;
    CHECK(is_gone.expired());

    auto threw = std::make_shared<std::atomic<bool>>(false);
    const auto reader = [bytes, threw](std::uint64_t offset, tf::span<std::byte> into) {
        if (*threw) throw oops();
        std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, into.size(), into.begin());
    };
    auto throws = tf::file::open_source("memory", bytes.size(), reader);
    *threw = true;
    CHECK_OOPS(throws[0].read<float>());
    CHECK_OOPS(throws.plan_all().read(std::vector<std::byte>(throws.plan_all().bytes())));
    CHECK_OOPS(tf::file::open_source("memory", bytes.size(), reader));
    const auto value = throws[0].try_read<float>();
    CHECK(!value && value.error().status() == TF_IO && value.error().cause() && value.error().os_error() == 5);
    *threw = false;
    CHECK(same(throws.find("floats").read<float>(), sample.floats));
    auto refuses = [](std::uint64_t, tf::span<std::byte>) { return 13; };
    const auto refused = tf::file::try_open_source("memory", 100, refuses);
    CHECK(!refused && refused.error().os_error() == 13 && !refused.error().cause());
}

static void writing(const fs::path& folder) {
    sample sample;
    sample.writer.set_metadata("author", "nobody");
    sample.writer.set_metadata("author", "somebody");
    sample.writer.set_metadata("empty", "");
    const auto path = (folder / "metadata.safetensors").string();
    sample.writer.save(path);
    const auto file = tf::file::open(path);
    std::map<std::string, std::string> entries;
    for (const auto& entry : file.metadata()) entries.emplace(text(entry.key), text(entry.value));
    CHECK(entries == std::map<std::string, std::string>{{"author", "somebody"}, {"empty", ""}});
    CHECK(file.warnings().empty());

    const auto fits = file.report({{"floats", tf::dtype::f32, {2, 3, 4}}, {"ints", tf::dtype::i32, {5}}});
    CHECK(fits.differences == 0);
    const auto differs = file.report({{"floats", tf::dtype::f16, {2, 3, 4}}, {"bias", tf::dtype::i32, {5}}});
    CHECK(differs.differences >= 2 && differs.text.find("bias") != std::string::npos && differs.json.front() == '{');

    std::string streamed;
    tf::save_options options;
    options.format = text("safetensors");
    const auto sink = [&](auto bytes) { streamed.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); };
    sample.writer.write(sink, options);
    CHECK(streamed == contents(path));
    CHECK_OOPS(sample.writer.write([](auto) { throw oops(); }, options));
    const auto full = sample.writer.try_write([](auto) { return 28; }, options);
    CHECK(!full && full.error().os_error() == 28 && full.error().status() == TF_IO);

    // Negative strides, a stride of 0, a cast and bools of any byte.
    tf::writer writer;
    const float values[] = {1, 2, 3};
    const std::uint8_t bools[] = {0, 7};
    writer.add("backwards", tf::dtype::f32, {3}, &values[2], {-4});
    writer.add("repeated", tf::dtype::f32, {2, 3}, values, {0, 4});
    writer.add("bools", tf::dtype::boolean, {2}, bools);
    writer.add("scalar", tf::span(values, 1), {});
    const auto strided = (folder / "strided.npz").string();
    options = {};
    options.flags = TF_SAVE_NOT_DURABLE | TF_SAVE_NO_REPLACE;
    options.floats = std::int32_t(tf::dtype::f64);
    writer.save(strided, options);
    const auto read = tf::file::open(strided);
    CHECK(read.find("backwards").dtype() == tf::dtype::f64);
    CHECK(same(read.find("backwards").read<float>(), std::vector<float>{3, 2, 1}));
    CHECK(same(read.find("repeated").read<float>(), std::vector<float>{1, 2, 3, 1, 2, 3}));
    CHECK(same(read.find("bools").read<std::byte>(), std::vector<std::byte>{std::byte{0}, std::byte{1}}));
    CHECK(read.find("scalar").dims().empty() && read.find("scalar").read<double>()[0] == 1.0);
    std::array<bool, 2> into{};
    read.find("bools").read_into(into);
    CHECK(!into[0] && into[1]);
    CHECK_ERROR(TF_IO, "io", "strided.npz", writer.save(strided, options));

    const auto converted = (folder / "converted.gguf").string();
    tf::convert(path, converted);
    const auto gguf = tf::file::open(converted);
    CHECK(gguf.format() == "gguf" && same(gguf.find("floats").read<float>(), sample.floats));
    CHECK(tf::file::open((folder / "sample.npz").string()).size() == 2);
    CHECK(!tf::try_convert(path, (folder / "converted.npz").string()));
    options = {};
    options.flags = TF_SAVE_WITHOUT_METADATA;
    tf::convert(path, (folder / "converted.npz").string(), options);
    options = {};
    options.on_progress = [](auto, auto) -> bool { throw oops(); };
    CHECK_OOPS(tf::convert((folder / "sample.npz").string(), (folder / "never.ten").string(), options));
    CHECK_OOPS(sample.writer.save((folder / "never.safetensors").string(), options));
    CHECK(!fs::exists(folder / "never.safetensors") && !fs::exists(folder / "never.ten"));
    tf::open_options open;
    open.on_progress = [](auto, auto) -> bool { throw oops(); };
    CHECK_OOPS(tf::file::open(path, open).find("floats").read<float>());
}

static void errors(const fs::path& folder) {
    const auto path = (folder / "sample.safetensors").string();
    const auto file = tf::file::open(path);
    const auto floats = file.find("floats");
    const auto ints = file.find("ints");
    const auto missing = tf::file::try_open((folder / "missing.npz").string());
    CHECK(!missing && missing.error().status() == TF_IO && missing.error().os_error() == ENOENT);
    CHECK_ERROR(TF_MISMATCH, "missing", "floats", file.find("float"));
    CHECK_ERROR(TF_CALL, "argument", "9", file[9]);
    CHECK_ERROR(TF_CALL, "argument", "dtype", ints.view<float>());
    std::vector<float> few(3);
    CHECK_ERROR(TF_CALL, "argument", "12 bytes", floats.read_into(few));
    CHECK_ERROR(TF_CALL, "argument", "a range exceeds", floats.slice<float>({{0, 3}, {0, 3}, {0, 4}}));
    CHECK_ERROR(TF_CALL, "argument", "a range exceeds", floats.slice<float>({{1, 0}, {0, 3}, {0, 4}}));
    CHECK_ERROR(TF_CALL, "argument", "one range for each dim", floats.slice<float>({{0, 1}}));
    std::vector<float> twelve(12);
    CHECK_ERROR(TF_CALL, "argument", "over others",
                floats.read_into(twelve, tf::dtype::f32, {{0, 1}, {0, 3}, {0, 4}}, {16, 4, 4}));
    CHECK_ERROR(TF_CALL, "argument", "stride", floats.read_into(twelve, tf::dtype::f32, {{0, 1}, {0, 3}, {0, 4}}, {16}));
    CHECK_ERROR(TF_CALL, "argument", "negative",
                floats.read_into(twelve, tf::dtype::f32, {{0, 1}, {0, 3}, {0, 4}}, {48, -16, 4}));
    CHECK_ERROR(TF_CALL, "argument", "not a dtype", floats.read_into(few, tf::dtype(99)));
    tf::open_options open;
    open.format = text("word");
    CHECK_ERROR(TF_CALL, "argument", "unknown format `word`", tf::file::open(path, open));
    open = {};
    open.flags = 1U << 20;
    CHECK_ERROR(TF_CALL, "argument", "flags", tf::file::open(path, open));
    open = {};
    open.max_tensors = 1;
    CHECK(tf::file::try_open(path, open).error().status() == TF_LIMIT);
    open = {};
    open.deny_warnings = text("no-such-kind");
    CHECK_ERROR(TF_CALL, "argument", "no-such-kind", tf::file::open(path, open));
    open = {};
    open.flags = TF_OPEN_POSITIONED;
    const auto positioned = tf::file::open(path, open);
    const auto at_positions = positioned.find("floats");
    CHECK(at_positions.try_view().error().status() == TF_CALL && at_positions.read<float>()[5] == 5);
    auto cut = contents(path);
    cut.resize(cut.size() - 1);
    const auto truncated = tf::file::try_open_borrowed(cut);
    CHECK(!truncated && truncated.error().status() == TF_FILE && truncated.error().kind() == "truncated");
    CHECK(std::string(truncated.error().what()).find("byte") != std::string::npos);
    tf::error copy = truncated.error();
    CHECK(copy.kind() == "truncated" && copy.tensor() == truncated.error().tensor() && copy.offset() == truncated.error().offset());
    tf::writer writer;
    const std::vector<float> values(6);
    CHECK_ERROR(TF_CALL, "argument", "product", writer.add("x", values, {2, 2}));
    CHECK_ERROR(TF_CALL, "argument", "dtype", writer.add("x", tf::dtype::stored, {6}, values.data()));
    CHECK_ERROR(TF_CALL, "argument", "NULL", writer.add("x", tf::dtype::f32, {6}, nullptr));
    CHECK_ERROR(TF_CALL, "argument", "UTF-8", writer.set_metadata("\xff", "x"));
    writer.add("x", values, {6});
    CHECK_ERROR(TF_CALL, "argument", "format", writer.write([](auto) {}, {}));
    writer.add("x", values, {2, 3});
    CHECK(!writer.try_save((folder / "twice.safetensors").string()));
    CHECK(!writer.try_save((folder / "no-extension").string()));
    CHECK(!writer.try_save((folder / "no-folder" / "x.ten").string()));

    // Elements of a file in memory at an odd address.
    const auto whole = contents(path);
    std::vector<std::uint64_t> aligned(whole.size() / 8 + 2);
    auto* odd = reinterpret_cast<char*>(aligned.data()) + 1;
    std::copy(whole.begin(), whole.end(), odd);
    const tf::span<const char> shifted(odd, whole.size());
    const auto unaligned = tf::file::open_borrowed(shifted).find("floats");
    CHECK_ERROR(TF_CALL, "argument", "aligned", unaligned.view<float>());
    CHECK(unaligned.read<float>()[23] == 23 && unaligned.view().size() == 96);
}

static void threads(const fs::path& folder) {
    const auto file = tf::file::open((folder / "sample.safetensors").string());
    const sample sample;
    std::vector<std::thread> running;
    for (int i = 0; i < 8; ++i)
        running.emplace_back([&file, &sample] {
            for (int round = 0; round < 50; ++round) {
                auto floats = file.find("floats");
                auto copy = floats;
                CHECK(same(copy.view<float>(), sample.floats) && same(floats.read<float>(), sample.floats));
                CHECK(floats.slice<float>({{1, 2}, {1, 2}, {1, 2}})[0] == 17);
                CHECK(!file.try_find("missing") && file.metadata().empty());
            }
        });
    for (auto& thread : running) thread.join();
}

/// Opens each file of a folder. Some of them are broken on purpose, so errors are fine.
static void open_all(const fs::path& fixtures) {
    std::size_t opened = 0, refused = 0;
    std::map<std::string, int> formats;
    for (const auto& entry : fs::recursive_directory_iterator(fixtures)) {
        static const std::regex known(R"(\.(btf|ten|ptd|tbs|safetensors|npy|npz|gguf|pt|pth|bin|pte|ptn)$)");
        const auto path = entry.path().string();
        if (!entry.is_regular_file() || !std::regex_search(path, known)) continue;
        const auto file = tf::file::try_open(path);
        if (!file) {
            CHECK(*file.error().what() && file.error().status() != TF_INTERNAL);
            refused += 1;
            continue;
        }
        opened += 1;
        auto copy = file;
        formats[std::string(copy->format())] += 1;
        for (auto tensor : *copy) {
            const auto bytes = tensor.try_read<std::byte>();
            CHECK(bytes || bytes.error().status() != TF_INTERNAL);
            const auto cast = tensor.try_read<float>();
            CHECK(cast || cast.error().status() != TF_INTERNAL);
            const auto view = tensor.try_view();
            CHECK(view || view.error().status() != TF_INTERNAL);
        }
    }
    CHECK(opened > 0);
    std::cout << "cpp: " << opened << " fixtures opened, " << refused << " refused:";
    for (const auto& [format, count] : formats) std::cout << ' ' << format << ' ' << count;
    std::cout << '\n';
}

/// Compares files of other software with the hashes in `others/manifest.json`.
static void compare(const fs::path& fixtures) {
    const auto folder = fixtures / "others";
    const auto json = contents(folder / "manifest.json");
    if (json.empty()) {
        std::cout << "cpp: no manifest of other software's files; they are not compared\n";
        return;
    }
    static const std::regex fields(R"re("(file|name|dtype|shape|ne|sha256)":\s*(?:"([^"]*)"|\[([^\]]*)\]))re");
    std::optional<tf::file> file;
    std::string dtype, name, dims;
    bool reversed = false;
    std::size_t position = 0;
    for (std::sregex_iterator it(json.begin(), json.end(), fields), end; it != end; ++it) {
        const auto key = (*it)[1].str();
        if (key == "file") file = tf::file::open((folder / (*it)[2].str()).string()), position = 0;
        if (key == "name") name = (*it)[2].str();
        if (key == "dtype") dtype = (*it)[2].str();
        if (key == "shape" || key == "ne") dims = (*it)[3].str(), reversed = key == "ne";
        if (key != "sha256") continue;
        const auto tensor = name.empty() ? (*file)[position] : file->find(name);
        position += 1;
        tf_dtype_info info = {};
        info.size = sizeof info;
        CHECK(tf_dtype_get_info(std::int32_t(tensor.dtype()), &info, nullptr) == TF_OK && text(info.name) == dtype);
        std::vector<std::size_t> expected;
        static const std::regex number("\\d+");
        for (std::sregex_iterator n(dims.begin(), dims.end(), number), last; n != last; ++n)
            expected.push_back(std::stoul(n->str()));
        if (reversed) {
            // ggml always has four dims; ours may leave trailing ones out.
            std::reverse(expected.begin(), expected.end());
            while (expected.size() > tensor.dims().size() && expected.front() == 1) expected.erase(expected.begin());
        }
        CHECK(same(tensor.dims(), expected));
        CHECK(sha256(tensor.read<std::byte>()) == (*it)[2].str());
    }
    CHECK(position > 0);
}

int main(int argc, char** argv) try {
    const fs::path fixtures = argc > 1 ? argv[1] : "";
    const fs::path folder = argc > 2 ? fs::path(argv[2]) : fs::temp_directory_path() / "tensorfile-cpp-test";
    fs::remove_all(folder / "cpp");
    fs::create_directories(folder / "cpp");
    const auto files = folder / "cpp";
    CHECK(sha256({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    dtypes();
    formats(files);
    plans(files);
    ownership(files);
    writing(files);
    errors(files);
    threads(files);
    if (fs::is_directory(fixtures)) {
        open_all(fixtures);
        compare(fixtures);
    } else {
        std::cout << "cpp: no folder of fixtures; files of other software are not opened\n";
    }
    fs::remove_all(files);
    std::cout << "cpp: " << checks << " checks" << std::endl;
} catch (const std::exception& error) {
    std::cerr << "cpp: " << error.what() << std::endl;
    return 1;
}
