package tensorfile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tf "tensorfile"
)

// formats are those that are written, with an extension of each.
var formats = []struct {
	name, extension          string
	names, metadata, several bool
}{
	{"btf", "btf", true, false, true},
	{"ten", "ten", true, false, true},
	{"ptd", "ptd", true, false, true},
	{"tensorbuffers", "tbs", false, false, true},
	{"safetensors", "safetensors", true, true, true},
	{"npy", "npy", false, false, false},
	{"npz", "npz", true, false, true},
	{"pytorch", "pt", true, false, true},
	{"gguf", "gguf", true, true, true},
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, found, expected any) {
	t.Helper()
	if !reflect.DeepEqual(found, expected) {
		t.Fatalf("found %#v, but expected %#v", found, expected)
	}
}

// failed returns an error of the package, which has to be of a status and a kind.
func failed(t *testing.T, err error, status tf.Status, kind string) *tf.Error {
	t.Helper()
	var found *tf.Error
	if !errors.As(err, &found) {
		t.Fatalf("found %v, but expected an *Error", err)
	}
	if found.Status != status || found.Kind != kind {
		t.Fatalf("found %v (%v, %s), but expected %v, %s", err, found.Status, found.Kind, status, kind)
	}
	return found
}

var grid = []float32{1, -2, 3.5, 4, 5, 6}

// model returns a writer with a few tensors.
func model(options ...tf.SaveOption) *tf.Writer {
	w := tf.NewWriter(options...)
	for _, err := range []error{
		tf.Add(w, "grid", grid, 2, 3),
		tf.Add(w, "counts", []int32{7, -8, 9}),
		tf.Add(w, "empty", []float32{}, 0, 4),
	} {
		if err != nil {
			panic(err)
		}
	}
	return w
}

func encode(w *tf.Writer) []byte {
	var out bytes.Buffer
	must(w.WriteTo(&out))
	return out.Bytes()
}

// large returns a file of one tensor of a million float32.
func large() []byte {
	w := tf.NewWriter(tf.SaveFormat("safetensors"))
	if err := tf.Add(w, "x", make([]float32, 1<<20)); err != nil {
		panic(err)
	}
	return encode(w)
}

func TestEveryFormat(t *testing.T) {
	for _, format := range formats {
		t.Run(format.name, func(t *testing.T) {
			w := tf.NewWriter(tf.SaveFormat(format.name), tf.SaveNotDurable())
			check(t, tf.Add(w, "grid", grid, 2, 3))
			if format.several {
				check(t, tf.Add(w, "counts", []int32{7, -8, 9}))
			}
			if format.metadata {
				w.SetMetadata("author", "nobody")
				w.SetMetadata("author", "me")
			}
			path := filepath.Join(t.TempDir(), "x."+format.extension)
			check(t, w.Save(path))
			written := encode(w)
			equal(t, must(os.ReadFile(path)), written)

			copied := append([]byte{}, written...)
			open := map[string]func() (*tf.File, error){
				"path":       func() (*tf.File, error) { return tf.Open(path) },
				"positioned": func() (*tf.File, error) { return tf.Open(path, tf.WithPositioned()) },
				"bytes": func() (*tf.File, error) {
					defer func() { copy(copied, make([]byte, len(copied))); copy(copied, written) }()
					return tf.OpenBytes(copied)
				},
				"reader": func() (*tf.File, error) {
					return tf.OpenReaderAt(bytes.NewReader(written), int64(len(written)), "x."+format.extension)
				},
			}
			for how, open := range open {
				file, err := open()
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				equal(t, file.Format(), format.name)
				equal(t, file.ByteLen(), uint64(len(written)))
				equal(t, file.Len(), len(must(file.Names())))
				if format.names {
					equal(t, must(file.Names())[0], "grid")
				}
				if format.metadata {
					value, _ := must(file.Metadata()).Get("author")
					equal(t, value, "me")
					equal(t, must(file.Metadata()).Map()["author"], "me")
				}
				tensor := must(file.Tensor(0))
				check(t, file.Close())
				check(t, file.Close())
				equal(t, tensor.DType(), tf.F32)
				equal(t, tensor.Shape(), []int{2, 3})
				equal(t, tensor.ByteLen(), 24)
				equal(t, tensor.Layout(), tf.RowMajor)
				equal(t, must(tf.ReadAll[float32](tensor)), grid)
				if how == "path" || how == "bytes" {
					equal(t, must(tf.ViewAll[float32](tensor)), grid)
					equal(t, tensor.Strides(), []int{12, 4})
					at := tensor.Offset()
					equal(t, must(tensor.View()), written[at:at+24])
				} else if _, err := tensor.View(); err == nil {
					t.Fatalf("%s: it was viewed", how)
				}
				check(t, tensor.Close())
			}
		})
	}
}

func TestCastsAndTypes(t *testing.T) {
	type celsius float64
	w := tf.NewWriter(tf.SaveFormat("safetensors"))
	check(t, tf.Add(w, "bool", []bool{true, false}))
	check(t, tf.Add(w, "i8", []int8{-1, 2}))
	check(t, tf.Add(w, "u16", []uint16{1, 65535}))
	check(t, tf.Add(w, "u64", []uint64{1, math.MaxUint64}))
	check(t, tf.Add(w, "bf16", []tf.BFloat16{0x3f80, 0xc000}))
	check(t, tf.Add(w, "f16", []tf.Float16{0x3c00, 0xc000}))
	check(t, tf.Add(w, "celsius", []celsius{20.5, -1}))
	check(t, tf.Add(w, "c64", []complex64{1 + 2i}))
	check(t, tf.AddScalar(w, "one", int64(1)))
	file := must(tf.OpenBytes(encode(w)))
	defer file.Close()
	find := func(name string) *tf.Tensor { return must(file.Find(name)) }
	equal(t, must(tf.ReadAll[bool](find("bool"))), []bool{true, false})
	equal(t, must(tf.ReadAll[int64](find("i8"))), []int64{-1, 2})
	equal(t, must(tf.ReadAll[uint16](find("u16"))), []uint16{1, 65535})
	equal(t, must(tf.ReadAll[float64](find("u16"))), []float64{1, 65535})
	equal(t, must(tf.ReadAll[uint64](find("u64"))), []uint64{1, math.MaxUint64})
	equal(t, must(tf.ReadAll[float32](find("bf16"))), []float32{1, -2})
	equal(t, must(tf.ReadAll[float32](find("f16"))), []float32{1, -2})
	equal(t, must(tf.ReadAll[tf.Float16](find("bf16"))), []tf.Float16{0x3c00, 0xc000})
	equal(t, must(tf.ReadAll[celsius](find("celsius"))), []celsius{20.5, -1})
	equal(t, must(tf.ReadAll[complex64](find("c64"))), []complex64{1 + 2i})
	equal(t, must(tf.ReadAll[int32](find("one"))), []int32{1})
	equal(t, find("one").Shape(), []int{})
	equal(t, must(tf.ReadSlice[int8](find("one"))), []int8{1})

	half := make([]byte, 4)
	check(t, find("celsius").ReadInto(half, tf.F16))
	equal(t, binary.LittleEndian.Uint16(half), uint16(0x4d20))

	_, err := tf.ViewAll[float32](find("u16"))
	equal(t, failed(t, err, tf.StatusCall, "argument").Tensor, "u16")
	equal(t, tf.DTypeOf[celsius](), tf.F64)
	equal(t, tf.DTypeOf[tf.BFloat16](), tf.BF16)
	equal(t, tf.Q4_0.String(), "q4_0")
	equal(t, tf.Q4_0.BlockElements(), 32)
	equal(t, tf.Q4_0.BlockBytes(), 18)
	equal(t, tf.Stored.String(), "stored")
	equal(t, tf.DType(999).String(), "DType(999)")
	equal(t, must(tf.ParseDType("bf16")), tf.BF16)
	for dtype := tf.Bool; dtype <= tf.Q2_0; dtype++ {
		equal(t, must(tf.ParseDType(dtype.String())), dtype)
	}
}

func TestBlocks(t *testing.T) {
	w := tf.NewWriter(tf.SaveFormat("gguf"))
	blocks := bytes.Repeat([]byte{1}, 36)
	check(t, w.AddBytes("q", tf.Q4_0, []int{2, 32}, blocks))
	failed(t, w.AddBytes("q", tf.Q4_0, []int{31}, blocks), tf.StatusCall, "argument")
	file := must(tf.OpenBytes(encode(w)))
	tensor := must(file.Tensor(0))
	equal(t, tensor.Strides(), []int(nil))
	equal(t, must(tensor.View()), blocks)
	memory := make([]byte, 36)
	check(t, tensor.ReadInto(memory, tf.Stored))
	equal(t, memory, blocks)
	_, err := tf.ReadAll[float32](tensor)
	failed(t, err, tf.StatusCall, "argument")
	failed(t, tensor.ReadInto(make([]byte, 256), tf.F32), tf.StatusCall, "codes")
	check(t, tensor.Close())
}

func TestSlices(t *testing.T) {
	w := tf.NewWriter(tf.SaveFormat("npz"))
	values := make([]int16, 4*5*6)
	for i := range values {
		values[i] = int16(i)
	}
	check(t, tf.Add(w, "x", values, 4, 5, 6))
	file := must(tf.OpenBytes(encode(w)))
	tensor := must(file.Find("x"))
	ranges := []tf.Range{{1, 3}, {0, 5}, {2, 4}}
	var expected []int16
	for i := 1; i < 3; i++ {
		for j := 0; j < 5; j++ {
			expected = append(expected, values[i*30+j*6+2:i*30+j*6+4]...)
		}
	}
	equal(t, must(tf.ReadSlice[int16](tensor, ranges...)), expected)
	equal(t, must(tf.ReadSlice[int64](tensor, tf.Range{3, 4}, tf.Range{4, 5}, tf.Range{5, 6})), []int64{119})
	equal(t, must(tf.ReadSlice[int64](tensor, tf.Range{2, 2}, tf.Range{4, 5}, tf.Range{5, 6})), []int64{})
	equal(t, len(must(tensor.Slice(ranges...))), 40)
	// Every second element of the memory.
	memory := bytes.Repeat([]byte{9}, 8)
	check(t, tensor.SliceInto(memory, tf.U8, []int{8, 8, 2}, tf.Range{0, 1}, tf.Range{0, 1}, tf.Range{1, 5}))
	equal(t, memory, []byte{1, 9, 2, 9, 3, 9, 4, 9})
	for _, wrong := range [][]tf.Range{nil, {{0, 1}}, {{0, 5}, {0, 5}, {0, 6}}, {{-1, 1}, {0, 1}, {0, 1}}, {{2, 1}, {0, 1}, {0, 1}}} {
		_, err := tensor.Slice(wrong...)
		equal(t, failed(t, err, tf.StatusCall, "argument").Tensor, "x")
		var failure *tf.Error
		if err := tensor.SliceInto(nil, tf.Stored, nil, wrong...); !errors.As(err, &failure) {
			t.Fatalf("%v: %v", wrong, err)
		}
	}
}

func TestPlans(t *testing.T) {
	file := must(tf.OpenBytes(encode(model(tf.SaveFormat("safetensors")))))
	var last uint64
	plan := must(file.Plan(nil, tf.PlanAlign(128), tf.PlanProgress(func(bytes, total uint64) error {
		last = total
		return nil
	})))
	check(t, file.Close())
	memory := must(plan.Read(context.Background()))
	equal(t, last, plan.BytesRead())
	equal(t, len(plan.Pieces()), 3)
	for _, piece := range plan.Pieces() {
		equal(t, piece.Offset%128, 0)
		if piece.Name == "counts" {
			equal(t, piece.Shape, []int{3})
			equal(t, piece.DType, tf.I32)
			equal(t, int32(binary.LittleEndian.Uint32(piece.Of(memory)[4:])), int32(-8))
		}
	}
	if err := plan.ReadInto(context.Background(), memory[:plan.ByteLen()-1]); err == nil {
		t.Fatal("the memory is too short")
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := plan.Read(cancelled)
	failed(t, err, tf.StatusCancelled, "cancelled")
	equal(t, errors.Is(err, context.Canceled), true)
	check(t, plan.Close())
	_, err = plan.Read(context.Background())
	equal(t, errors.Is(err, fs.ErrClosed), true)

	file = must(tf.OpenBytes(encode(model(tf.SaveFormat("safetensors")))))
	plan = must(file.Plan([]tf.Part{{"grid", []tf.Range{{1, 2}, {0, 3}}}, {"counts", nil}}))
	equal(t, plan.Pieces()[0].Shape, []int{1, 3})
	equal(t, plan.BytesRead(), uint64(24))
	memory = must(plan.Read(context.Background()))
	equal(t, math.Float32frombits(binary.LittleEndian.Uint32(plan.Pieces()[0].Of(memory))), float32(4))
	equal(t, must(file.Plan([]tf.Part{})).ByteLen(), 0)
	_, err = file.Plan([]tf.Part{{"gird", nil}})
	failed(t, err, tf.StatusMismatch, "missing")
}

func TestContextEndsAPlan(t *testing.T) {
	file := must(tf.OpenBytes(large()))
	ctx, cancel := context.WithCancel(context.Background())
	plan := must(file.Plan(nil, tf.PlanProgress(func(bytes, total uint64) error {
		cancel()
		return ctx.Err()
	})))
	_, err := plan.Read(ctx)
	failed(t, err, tf.StatusCancelled, "cancelled")
	equal(t, errors.Is(err, context.Canceled), true)
}

func TestConvert(t *testing.T) {
	folder := t.TempDir()
	from, to := filepath.Join(folder, "x.safetensors"), filepath.Join(folder, "x.npz")
	w := model(tf.SaveNotDurable())
	w.SetMetadata("author", "me")
	check(t, w.Save(from))
	err := tf.Convert(from, to, nil, nil)
	failed(t, err, tf.StatusCall, "unsupported")
	var total uint64
	check(t, tf.Convert(from, to, []tf.Option{tf.WithFormat("safetensors")}, []tf.SaveOption{
		tf.SaveWithoutMetadata(), tf.SaveFloats(tf.F16), tf.SaveNotDurable(), tf.SaveContext(context.Background()),
		tf.SaveProgress(func(bytes, all uint64) error { total = all; return nil }),
	}))
	if total == 0 {
		t.Fatal("there was no progress")
	}
	file := must(tf.Open(to))
	tensor := must(file.Find("grid"))
	equal(t, tensor.DType(), tf.F16)
	equal(t, must(tf.ReadAll[float32](tensor)), grid)
	equal(t, must(file.Find("counts")).DType(), tf.I32)
	file.Close()

	err = tf.Convert(from, to, nil, []tf.SaveOption{tf.SaveNoReplace(), tf.SaveWithoutMetadata()})
	equal(t, errors.Is(err, fs.ErrExist), true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before := must(os.ReadFile(to))
	err = tf.Convert(from, to, nil, []tf.SaveOption{tf.SaveContext(ctx), tf.SaveWithoutMetadata()})
	equal(t, errors.Is(err, context.Canceled), true)
	equal(t, must(os.ReadFile(to)), before)
}

func TestReport(t *testing.T) {
	file := must(tf.OpenBytes(encode(model(tf.SaveFormat("safetensors")))))
	expected := []tf.Expected{
		{"grid", tf.F32, []int{2, 3}}, {"counts", tf.I32, []int{3}}, {"empty", tf.F32, []int{0, 4}},
	}
	report := must(file.Report(expected))
	equal(t, report.Differences, 0)
	expected[0].Shape = []int{3, 2}
	expected[1].DType = tf.F64
	expected[2].Name = "emty"
	report = must(file.Report(expected))
	equal(t, report.Differences, 4)
	for _, word := range []string{"`emty`", "f64", "[3, 2]"} {
		if !strings.Contains(report.Text, word) {
			t.Fatalf("%s is not in the report:\n%s", word, report.Text)
		}
	}
	equal(t, json.Valid([]byte(report.JSON)), true)
	equal(t, must(file.Report(nil)).Differences, 3)
	_, err := file.Report([]tf.Expected{{"x", tf.F32, []int{-1}}})
	failed(t, err, tf.StatusCall, "argument")
}

func TestStrides(t *testing.T) {
	w := tf.NewWriter(tf.SaveFormat("safetensors"))
	data := []byte{0, 1, 2, 3, 4, 5}
	check(t, w.AddStrided("transposed", tf.U8, []int{3, 2}, []int{1, 3}, data, 0))
	check(t, w.AddStrided("reversed", tf.U8, []int{6}, []int{-1}, data, 5))
	check(t, w.AddStrided("repeated", tf.U8, []int{4}, []int{0}, data, 2))
	check(t, w.AddStrided("none", tf.U8, []int{0, 3}, []int{100, 100}, data, 0))
	check(t, w.AddStrided("scalar", tf.U8, nil, nil, data, 5))
	for _, wrong := range []struct{ shape, strides []int }{
		{[]int{7}, []int{1}}, {[]int{2}, []int{6}}, {[]int{2}, []int{-1}}, {[]int{math.MaxInt}, []int{math.MaxInt}},
		{[]int{2, 2}, []int{1}}, {[]int{-1}, []int{1}},
	} {
		failed(t, w.AddStrided("x", tf.U8, wrong.shape, wrong.strides, data, 0), tf.StatusCall, "argument")
	}
	file := must(tf.OpenBytes(encode(w)))
	for name, expected := range map[string][]byte{
		"transposed": {0, 3, 1, 4, 2, 5}, "reversed": {5, 4, 3, 2, 1, 0}, "repeated": {2, 2, 2, 2}, "none": {}, "scalar": {5},
	} {
		equal(t, must(tf.ReadAll[uint8](must(file.Find(name)))), expected)
	}
}

func TestErrors(t *testing.T) {
	good := encode(model(tf.SaveFormat("safetensors")))
	gguf := encode(model(tf.SaveFormat("gguf")))
	open := func(bytes []byte, options ...tf.Option) error {
		_, err := tf.OpenBytes(bytes, options...)
		return err
	}
	file := must(tf.OpenBytes(good))
	grid := must(file.Find("grid"))
	limited := must(must(tf.OpenBytes(large(), tf.WithLimits(tf.Limits{Memory: 1 << 20}))).Find("x"))
	folder := t.TempDir()
	cases := []struct {
		name   string
		err    error
		status tf.Status
		kind   string
	}{
		{"no file", second(tf.Open(filepath.Join(folder, "none.npy"))), tf.StatusIO, "io"},
		{"unknown format", open([]byte{1, 2, 3, 4, 5, 6, 7, 200}), tf.StatusFile, "unknown-format"},
		{"a web page", open([]byte("<!DOCTYPE html><html>")), tf.StatusFile, "not-tensors"},
		{"truncated", open(gguf[:40]), tf.StatusFile, "truncated"},
		{"format of another name", open(good, tf.WithFormat("nope")), tf.StatusCall, "argument"},
		{"wrong magic", open(good, tf.WithFormat("gguf")), tf.StatusFile, "bad-magic"},
		{"too many tensors", open(good, tf.WithLimits(tf.Limits{Tensors: 2})), tf.StatusLimit, "limit"},
		{"too much memory", second(tf.ReadAll[float64](limited)), tf.StatusLimit, "limit"},
		{"too much memory of mine", limited.ReadInto(make([]byte, 4<<20), tf.Stored), tf.StatusLimit, "limit"},
		{"no tensor", second(file.Find("gird")), tf.StatusMismatch, "missing"},
		{"no position", second(file.Tensor(3)), tf.StatusCall, "argument"},
		{"negative position", second(file.Tensor(-1)), tf.StatusCall, "argument"},
		{"memory of another length", grid.ReadInto(make([]byte, 23), tf.Stored), tf.StatusCall, "argument"},
		{"unknown dtype", grid.ReadInto(make([]byte, 24), 999), tf.StatusCall, "argument"},
		{"floats as complex numbers", second(tf.ReadAll[complex64](grid)), tf.StatusCall, "unsupported"},
		{"unknown warnings", open(good, tf.WithDenyWarnings("nope")), tf.StatusCall, "argument"},
		{"no format", second(tf.NewWriter().WriteTo(io.Discard)), tf.StatusCall, "argument"},
		{"unknown extension", model().Save(filepath.Join(folder, "x.nope")), tf.StatusCall, "unsupported"},
		{"no folder", model().Save(filepath.Join(folder, "none", "x.npz")), tf.StatusIO, "io"},
		{"several in an .npy", model().Save(filepath.Join(folder, "x.npy")), tf.StatusCall, "unsupported"},
		{"unknown name", second(tf.ParseDType("float33")), tf.StatusCall, "argument"},
		{"threads", tf.SetMaxThreads(0), tf.StatusCall, "argument"},
		{"wrong number", tf.Add(tf.NewWriter(), "x", []int8{1, 2}, 3), tf.StatusCall, "argument"},
		{"negative dim", tf.Add(tf.NewWriter(), "x", []int8{1, 2}, -2), tf.StatusCall, "argument"},
		{"negative size", second(tf.OpenReaderAt(bytes.NewReader(good), -1, "")), tf.StatusCall, "argument"},
		{"invalid UTF-8", second(file.Find("\xff")), tf.StatusCall, "argument"},
	}
	for _, each := range cases {
		t.Run(each.name, func(t *testing.T) { failed(t, each.err, each.status, each.kind) })
	}
	equal(t, errors.Is(cases[0].err, fs.ErrNotExist), true)
	equal(t, errors.Is(cases[0].err, syscall.ENOENT), true)
	equal(t, errors.Is(cases[1].err, fs.ErrNotExist), false)
	equal(t, cases[9].err.Error(), "safetensors: missing tensor `gird`; the file has `grid`, `empty`, `counts`")
	equal(t, len(must(os.ReadDir(folder))), 0)
	equal(t, tf.StatusLimit.String(), "limit")
	equal(t, tf.COO.String(), "coo")
}

func second[T any](_ T, err error) error { return err }

func TestWarnings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npz")
	check(t, model(tf.SaveNotDurable(), tf.SaveFormat("safetensors")).Save(path))
	file := must(tf.Open(path))
	warnings := must(file.Warnings())
	equal(t, len(warnings), 1)
	equal(t, warnings[0].Kind, "extension")
	equal(t, warnings[0].Offset, int64(-1))
	_, err := tf.Open(path, tf.WithDenyWarnings("all"))
	failed(t, err, tf.StatusFile, "warning")
}

func TestShards(t *testing.T) {
	folder := t.TempDir()
	w := model(tf.SaveNotDurable(), tf.SaveMaxShardBytes(24))
	check(t, w.Save(filepath.Join(folder, "model.safetensors")))
	entries := must(os.ReadDir(folder))
	if len(entries) < 3 {
		t.Fatalf("found %v, but expected shards and an index", entries)
	}
	file := must(tf.Open(filepath.Join(folder, "model.safetensors.index.json")))
	equal(t, must(tf.ReadAll[float32](must(file.Find("grid")))), grid)
}

func TestClosedObjects(t *testing.T) {
	file := must(tf.OpenBytes(encode(model(tf.SaveFormat("safetensors")))))
	tensor := must(file.Find("grid"))
	other := must(file.Find("counts"))
	view := must(tensor.View())
	check(t, file.Close())
	_, err := file.Find("grid")
	failed(t, err, tf.StatusCall, "closed")
	equal(t, errors.Is(err, fs.ErrClosed), true)
	equal(t, second(file.Names()) != nil, true)
	equal(t, file.Len(), 3)
	// The view stays when another tensor and the file are gone.
	check(t, other.Close())
	equal(t, must(tf.ReadAll[float32](tensor)), grid)
	equal(t, len(view), 24)
	check(t, tensor.Close())
	check(t, tensor.Close())
	_, err = tensor.View()
	equal(t, errors.Is(err, fs.ErrClosed), true)
	equal(t, tensor.Name(), "grid")
	equal(t, tensor.Shape(), []int{2, 3})
}

func TestCollectorFreesNoView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	check(t, model(tf.SaveNotDurable()).Save(path))
	for name, open := range map[string]func() (*tf.File, error){
		"path":  func() (*tf.File, error) { return tf.Open(path) },
		"bytes": func() (*tf.File, error) { return tf.OpenBytes(must(os.ReadFile(path))) },
	} {
		var views [][]float32
		for i := 0; i < 100; i++ {
			views = append(views, must(tf.ViewAll[float32](must(must(open()).Find("grid")))))
		}
		for i := 0; i < 3; i++ {
			runtime.GC()
		}
		for _, view := range views {
			if !reflect.DeepEqual(view, grid) {
				t.Fatalf("%s: a view changed", name)
			}
		}
	}
}

func TestCollectorClosesFiles(t *testing.T) {
	released := make(chan string, 3)
	// watch returns a progress function whose memory is collected when the library lets go of it.
	watch := func(name string) tf.Progress {
		owned := &struct{ name string }{name}
		runtime.SetFinalizer(owned, func(owned *struct{ name string }) { released <- owned.name[:1] })
		return func(bytes, total uint64) error {
			runtime.KeepAlive(owned)
			return nil
		}
	}
	func() {
		content := encode(model(tf.SaveFormat("safetensors")))
		reader := &failingReader{ReaderAt: bytes.NewReader(content)}
		runtime.SetFinalizer(reader, func(*failingReader) { released <- "r" })
		file := must(tf.OpenReaderAt(reader, int64(len(content)), "", tf.WithProgress(watch("file"))))
		must(tf.ReadAll[float32](must(file.Find("grid"))))
		must(must(file.Plan(nil, tf.PlanProgress(watch("plan")))).Read(context.Background()))
	}()
	found := map[string]bool{}
	for i := 0; i < 500 && len(found) < 3; i++ {
		runtime.GC()
		select {
		case name := <-released:
			found[name] = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	equal(t, found, map[string]bool{"f": true, "p": true, "r": true})
}

func TestGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	check(t, model(tf.SaveNotDurable()).Save(path))
	file := must(tf.Open(path))
	shared := must(file.Find("grid"))
	plan := must(file.Plan(nil))
	var group sync.WaitGroup
	failures := make(chan error, 1000)
	for i := 0; i < 16; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for round := 0; round < 20; round++ {
				values, err := tf.ReadAll[float32](shared)
				if err == nil && !reflect.DeepEqual(values, grid) {
					err = fmt.Errorf("found %v", values)
				}
				if err != nil && !errors.Is(err, fs.ErrClosed) {
					failures <- err
				}
				if _, err := plan.Read(context.Background()); err != nil && !errors.Is(err, fs.ErrClosed) {
					failures <- err
				}
				tensor, err := file.Find("counts")
				if err == nil {
					_, err = tf.ReadAll[int64](tensor)
					tensor.Close()
				}
				if err != nil && !errors.Is(err, fs.ErrClosed) {
					failures <- err
				}
				if round == 15 && i == 7 {
					// While others use them.
					file.Close()
					shared.Close()
					plan.Close()
				}
			}
		}(i)
	}
	group.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
}

// failingReader fails or panics after a number of reads.
type failingReader struct {
	io.ReaderAt
	mutex sync.Mutex
	left  int
	fail  func() error
}

func (r *failingReader) ReadAt(bytes []byte, offset int64) (int, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.left--; r.left <= 0 && r.fail != nil {
		return 0, r.fail()
	}
	return r.ReaderAt.ReadAt(bytes, offset)
}

var errOwn = errors.New("my own error")

func panics(t *testing.T, call func()) {
	t.Helper()
	defer func() {
		t.Helper()
		equal(t, recover(), any("oh no"))
	}()
	call()
}

func TestCallbacksThatFail(t *testing.T) {
	content := large()
	size := int64(len(content))
	reader := &failingReader{ReaderAt: bytes.NewReader(content), left: 1 << 30}
	file := must(tf.OpenReaderAt(reader, size, "x"))
	tensor := must(file.Find("x"))
	plan := must(file.Plan(nil))
	for _, each := range []struct {
		err error
		is  error
	}{{errOwn, errOwn}, {&fs.PathError{Op: "read", Path: "x", Err: syscall.EACCES}, fs.ErrPermission}} {
		reader.fail, reader.left = func() error { return each.err }, 0
		_, err := tf.ReadAll[float32](tensor)
		failed(t, err, tf.StatusIO, "io")
		equal(t, errors.Is(err, each.is), true)
		_, err = plan.Read(context.Background())
		equal(t, errors.Is(err, each.is), true)
		_, err = tf.OpenReaderAt(reader, size, "x")
		equal(t, errors.Is(err, each.is), true)
	}
	reader.fail = func() error { panic("oh no") }
	panics(t, func() { tf.ReadAll[float32](tensor) })
	panics(t, func() { plan.Read(context.Background()) })
	panics(t, func() { tf.OpenReaderAt(reader, size, "x") })
	reader.fail = func() error { return nil }
	_, err := tf.ReadAll[float32](tensor)
	equal(t, errors.Is(err, io.ErrUnexpectedEOF), true)
	// The file is fine afterwards.
	reader.fail = nil
	equal(t, len(must(tf.ReadAll[float32](tensor))), 1<<20)
	check(t, plan.ReadInto(context.Background(), make([]byte, plan.ByteLen())))

	var fail func() error
	progress := func(bytes, total uint64) error { return fail() }
	watched := must(must(tf.OpenBytes(content, tf.WithProgress(progress))).Find("x"))
	planned := must(file.Plan(nil, tf.PlanProgress(progress)))
	path := filepath.Join(t.TempDir(), "x.npz")
	w := model(tf.SaveProgress(progress), tf.SaveFormat("npz"))
	for name, call := range map[string]func() error{
		"read":    func() error { return second(tf.ReadAll[float32](watched)) },
		"plan":    func() error { return second(planned.Read(context.Background())) },
		"save":    func() error { return w.Save(path) },
		"writeTo": func() error { return second(w.WriteTo(io.Discard)) },
	} {
		t.Run(name, func(t *testing.T) {
			fail = func() error { return errOwn }
			err := call()
			failed(t, err, tf.StatusCancelled, "cancelled")
			equal(t, errors.Is(err, errOwn), true)
			fail = func() error { panic("oh no") }
			panics(t, func() { call() })
			fail = func() error { return nil }
			check(t, call())
		})
	}

	sinks := tf.NewWriter(tf.SaveFormat("ten"))
	check(t, tf.Add(sinks, "x", []int8{1}))
	_, err = sinks.WriteTo(writer(func([]byte) (int, error) { return 0, errOwn }))
	failed(t, err, tf.StatusIO, "io")
	equal(t, errors.Is(err, errOwn), true)
	_, err = sinks.WriteTo(writer(func([]byte) (int, error) { return 0, nil }))
	equal(t, errors.Is(err, io.ErrShortWrite), true)
	panics(t, func() { sinks.WriteTo(writer(func([]byte) (int, error) { panic("oh no") })) })
}

type writer func([]byte) (int, error)

func (w writer) Write(bytes []byte) (int, error) { return w(bytes) }

var _ io.WriterTo = (*tf.Writer)(nil)

// TestFilesOfGo reads the files that the Go package ten wrote, and writes the same bytes.
func TestFilesOfGo(t *testing.T) {
	folder := os.Getenv("TENSORFILE_FIXTURES")
	if folder == "" {
		t.Skip("TENSORFILE_FIXTURES is not set to the folder with the files of other software")
	}
	var manifest []struct {
		File      string
		WrittenBy string `json:"written_by"`
		Tensors   []struct {
			Name, Dtype, Sha256 string
			Shape               []int
		}
	}
	check(t, json.Unmarshal(must(os.ReadFile(filepath.Join(folder, "manifest.json"))), &manifest))
	read := 0
	for _, entry := range manifest {
		if !strings.HasPrefix(entry.WrittenBy, "Go package ten") {
			continue
		}
		t.Run(entry.File, func(t *testing.T) {
			path := filepath.Join(folder, entry.File)
			file := must(tf.Open(path))
			defer file.Close()
			equal(t, file.Format(), "ten")
			equal(t, file.Len(), len(entry.Tensors))
			w := tf.NewWriter(tf.SaveFormat("ten"))
			for i, expected := range entry.Tensors {
				tensor := must(file.Tensor(i))
				defer tensor.Close()
				equal(t, tensor.Name(), expected.Name)
				equal(t, tensor.DType().String(), expected.Dtype)
				equal(t, tensor.Shape(), expected.Shape)
				elements := make([]byte, tensor.ByteLen())
				check(t, tensor.ReadInto(elements, tf.Stored))
				hash := sha256.Sum256(elements)
				equal(t, hex.EncodeToString(hash[:]), expected.Sha256)
				check(t, w.AddBytes(tensor.Name(), tensor.DType(), tensor.Shape(), elements))
			}
			equal(t, encode(w), must(os.ReadFile(path)))
		})
		read++
	}
	if read == 0 {
		t.Fatal("the manifest has no file of the Go package ten")
	}
}

func TestVersion(t *testing.T) {
	if tf.Version() == "" {
		t.Fatal("there is no version")
	}
	check(t, tf.SetMaxThreads(4))
}
