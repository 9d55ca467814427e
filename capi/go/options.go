package tensorfile

// #include "bridge.h"
import "C"

import (
	"context"
	"runtime/cgo"
)

// Option is a way to open a file.
type Option func(*openOptions)

type openOptions struct {
	format, deny string
	numbers      C.tfgo_open_numbers
	progress     Progress
}

// Limits bound what a hostile file can cost. 0 means the default.
type Limits struct {
	// Tensors is the most tensors in the file.
	Tensors uint64
	// Rank is the most dims of a tensor.
	Rank uint64
	// Shared is the most bytes that tensors may have more than the file, by sharing bytes.
	Shared uint64
	// Memory is the most bytes that one call may read, and that a slice which a call allocates for them may have.
	Memory uint64
}

// WithFormat names the format, such as "safetensors". By default, it is found by the content, or else by the name.
func WithFormat(name string) Option { return func(o *openOptions) { o.format = name } }

// WithPositioned reads the file at positions, instead of mapping it into memory. Tensors cannot be viewed then. Use it
// for files that other programs may truncate.
func WithPositioned() Option {
	return func(o *openOptions) { o.numbers.flags |= C.TF_OPEN_POSITIONED }
}

// WithDequantize decodes quantized weights to F32, BF16 or F16. Decoded weights take the place of their codes and scales,
// and cannot be viewed.
func WithDequantize(to DType) Option {
	return func(o *openOptions) { o.numbers.dequantize = C.int32_t(to) }
}

// WithDenyWarnings makes kinds of warnings errors. They are separated by commas, such as "left-out,unknown-dtype"; "all"
// is all of them.
func WithDenyWarnings(kinds string) Option { return func(o *openOptions) { o.deny = kinds } }

// WithLimits sets limits.
func WithLimits(limits Limits) Option {
	return func(o *openOptions) {
		o.numbers.max_tensors = C.uint64_t(limits.Tensors)
		o.numbers.max_rank = C.uint64_t(limits.Rank)
		o.numbers.max_shared = C.uint64_t(limits.Shared)
		o.numbers.max_memory = C.uint64_t(limits.Memory)
	}
}

// WithProgress is called while whole tensors are read. It is kept until the file, its tensors and its plans are closed.
// For a plan, use [PlanProgress].
func WithProgress(progress Progress) Option { return func(o *openOptions) { o.progress = progress } }

func makeOpenOptions(options []Option) openOptions {
	var made openOptions
	for _, option := range options {
		option(&made)
	}
	return made
}

// SaveOption is a way to save a file.
type SaveOption func(*saveOptions)

type saveOptions struct {
	format   string
	numbers  C.tfgo_save_numbers
	progress Progress
	ctx      context.Context
}

// SaveFormat names the format. By default, the extension of the path names it. [Writer.WriteTo] requires it.
func SaveFormat(name string) SaveOption { return func(o *saveOptions) { o.format = name } }

// SaveNotDurable does not wait until the system has written the file to disk.
func SaveNotDurable() SaveOption {
	return func(o *saveOptions) { o.numbers.flags |= C.TF_SAVE_NOT_DURABLE }
}

// SaveNoReplace makes it an error if the file exists. The error is [fs.ErrExist].
func SaveNoReplace() SaveOption {
	return func(o *saveOptions) { o.numbers.flags |= C.TF_SAVE_NO_REPLACE }
}

// SaveWithoutMetadata makes [Convert] leave out metadata.
func SaveWithoutMetadata() SaveOption {
	return func(o *saveOptions) { o.numbers.flags |= C.TF_SAVE_WITHOUT_METADATA }
}

// SaveFloats casts tensors of floats to a dtype of floats.
func SaveFloats(to DType) SaveOption {
	return func(o *saveOptions) { o.numbers.floats = C.int32_t(to) }
}

// SaveMaxShardBytes writes shards of at most this number of bytes, and their index.
func SaveMaxShardBytes(bytes uint64) SaveOption {
	return func(o *saveOptions) { o.numbers.max_shard_bytes = C.uint64_t(bytes) }
}

// SaveAlignment sets the alignment of the elements in the file in bytes, for formats that have one.
func SaveAlignment(bytes uint64) SaveOption {
	return func(o *saveOptions) { o.numbers.alignment = C.uint64_t(bytes) }
}

// SaveProgress is called while bytes are written.
func SaveProgress(progress Progress) SaveOption {
	return func(o *saveOptions) { o.progress = progress }
}

// SaveContext ends the save when the context is done. It is looked at where [SaveProgress] would be called. The error
// wraps that of the context.
func SaveContext(ctx context.Context) SaveOption { return func(o *saveOptions) { o.ctx = ctx } }

func makeSaveOptions(lists ...[]SaveOption) saveOptions {
	var made saveOptions
	for _, options := range lists {
		for _, option := range options {
			option(&made)
		}
	}
	return made
}

// lend sets the progress of a save. Call the returned function after it.
func (o *saveOptions) lend(calls *calls) (release func()) {
	if o.progress == nil && o.ctx == nil {
		return func() {}
	}
	handle := cgo.NewHandle(&progress{calls: calls, call: o.progress, ctx: o.ctx})
	o.numbers.progress = C.uintptr_t(handle)
	return handle.Delete
}

// PlanOption is a way to plan.
type PlanOption func(*planOptions)

type planOptions struct {
	align    int
	progress Progress
}

// PlanAlign sets the alignment of each piece from the start of the memory, in bytes. The default is 64.
func PlanAlign(bytes int) PlanOption { return func(o *planOptions) { o.align = bytes } }

// PlanProgress is called while the plan is read. It is kept until the plan is closed.
func PlanProgress(progress Progress) PlanOption {
	return func(o *planOptions) { o.progress = progress }
}
