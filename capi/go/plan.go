package tensorfile

// #include "bridge.h"
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
	"sync"
	"unsafe"
)

// Part is a tensor, or a part of one, to be read by a plan.
type Part struct {
	// Name is the name of the tensor, or its position in digits if it has no name.
	Name string
	// Ranges has a range for each dim; nil for the whole tensor.
	Ranges []Range
}

// Piece is a part as it lies in the memory of a plan.
type Piece struct {
	// Name is the name of the tensor.
	Name string
	// DType is the dtype of the elements.
	DType DType
	// Layout is the order of the elements in memory.
	Layout Layout
	// Shape is the dims, in elements.
	Shape []int
	// Offset is the offset in the memory, in bytes.
	Offset int
	// ByteLen is the number of bytes.
	ByteLen int
}

// Of returns the bytes of the piece in the memory that its plan was read into, without a copy.
func (p Piece) Of(memory []byte) []byte {
	end := p.Offset + p.ByteLen
	return memory[p.Offset:end:end]
}

// Plan reads tensors and parts of tensors together, with several threads. It keeps the bytes of its file.
type Plan struct {
	handle
	raw       *C.tf_plan
	shared    *shared
	calls     *calls
	pieces    []Piece
	bytes     int
	bytesRead uint64

	// reading is held by the read that the context of progress belongs to.
	reading  sync.Mutex
	progress *progress
}

// Plan plans to read parts together; all tensors of the file if parts is nil. No element is read yet. Close it.
func (f *File) Plan(parts []Part, options ...PlanOption) (*Plan, error) {
	var o planOptions
	for _, option := range options {
		option(&o)
	}
	if o.align < 0 {
		return nil, misuse("the alignment is %d", o.align)
	}
	var names []byte
	var lens []C.size_t
	var ranges []C.tf_range
	var ranks []C.size_t
	var whole []C.uint8_t
	for _, part := range parts {
		converted, err := cRanges(part.Ranges)
		if err != nil {
			return nil, err
		}
		names = append(names, part.Name...)
		lens = append(lens, C.size_t(len(part.Name)))
		ranges = append(ranges, converted...)
		ranks = append(ranks, C.size_t(len(converted)))
		isWhole := C.uint8_t(0)
		if part.Ranges == nil {
			isWhole = 1
		}
		whole = append(whole, isWhole)
	}
	if parts != nil {
		// One more, because no ranks means all tensors.
		ranks = append(ranks, 0)
	}

	// They are not part of the plan, because a handle keeps what it stands for: the plan could not be collected.
	callbacks := new(calls)
	plan := &Plan{shared: f.shared, calls: callbacks, progress: &progress{calls: callbacks, call: o.progress}}
	handle := cgo.NewHandle(plan.progress)
	var made *C.tf_plan
	err := f.run(func(raw **C.tf_error) C.tf_status {
		return C.tfgo_plan(f.raw, (*C.char)(unsafe.Pointer(first(names))), first(lens), first(ranges), first(ranks),
			first(whole), C.size_t(len(parts)), C.size_t(o.align), C.uintptr_t(handle), &made, raw)
	})
	if err != nil {
		handle.Delete()
		return nil, err
	}
	plan.raw = made
	shared := f.shared
	shared.retain()
	plan.free = func() {
		C.tf_plan_free(made)
		handle.Delete()
		shared.release()
	}
	if err := plan.fill(); err != nil {
		plan.close()
		return nil, err
	}
	runtime.SetFinalizer(plan, (*Plan).Close)
	return plan, nil
}

func (p *Plan) fill() error {
	info := C.tf_plan_info{size: C.sizeof_tf_plan_info}
	err := p.run(func(raw **C.tf_error) C.tf_status { return C.tf_plan_get_info(p.raw, &info, raw) })
	if err != nil {
		return err
	}
	p.bytes, p.bytesRead = int(info.bytes), uint64(info.bytes_read)
	p.pieces = make([]Piece, int(info.pieces))
	for i := range p.pieces {
		err := p.run(func(raw **C.tf_error) C.tf_status {
			piece := C.tf_piece{size: C.sizeof_tf_piece}
			status := C.tf_plan_piece(p.raw, C.size_t(i), &piece, raw)
			if status == C.TF_OK {
				p.pieces[i] = Piece{
					goString(piece.name), DType(piece.dtype), Layout(piece.layout), goDims(piece.dims, piece.rank),
					int(piece.offset), int(piece.bytes),
				}
			}
			return status
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run calls a function of C unless the plan is closed.
func (p *Plan) run(call func(raw **C.tf_error) C.tf_status) error {
	if err := p.use("plan"); err != nil {
		return err
	}
	defer p.done()
	return run([]*calls{p.calls, &p.shared.calls}, call)
}

// Close frees the plan. It returns nil, and may be called again.
func (p *Plan) Close() error {
	p.close()
	return nil
}

// Pieces returns the pieces: one for each part, or for each tensor of the file. Do not change them.
func (p *Plan) Pieces() []Piece { return p.pieces }

// ByteLen returns the length of the memory for all pieces, in bytes. It comes from the file: check it before you allocate
// memory for a file that you do not trust.
func (p *Plan) ByteLen() int { return p.bytes }

// BytesRead returns the number of bytes that will be read from the file.
func (p *Plan) BytesRead() uint64 { return p.bytesRead }

// Read reads all pieces into new memory: see [Plan.ReadInto].
func (p *Plan) Read(ctx context.Context) ([]byte, error) {
	if err := p.shared.allow(p.bytes); err != nil {
		return nil, err
	}
	memory := make([]byte, p.bytes)
	return memory, p.ReadInto(ctx, memory)
}

// ReadInto reads all pieces into one memory of at least [Plan.ByteLen] bytes, each at its offset. Bytes between the pieces
// stay as they are. After an error, the content of memory is undefined.
//
// The read ends when ctx is done, and its error wraps that of ctx. The context is looked at before the read and where
// [PlanProgress] would be called. Each read uses several threads; reads of the same plan run one after the other. Do not
// read the plan in its own progress function.
func (p *Plan) ReadInto(ctx context.Context, memory []byte) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	if err := ctx.Err(); err != nil {
		return &Error{Status: StatusCancelled, Kind: "cancelled", Offset: -1, Err: err, message: "the plan was not read"}
	}
	p.progress.ctx = ctx
	defer func() { p.progress.ctx = nil }()
	return p.run(func(raw **C.tf_error) C.tf_status {
		return C.tfgo_plan_read(p.raw, firstByte(memory), C.size_t(len(memory)), raw)
	})
}
