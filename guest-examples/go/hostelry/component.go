//go:build wasip1

package hostelry

import (
	"encoding/json"
	"runtime"
	"unsafe"
)

// The contract's functions in their canonical form: texts and lists are an address and a length, a variant is its case
// and then what its cases hold, and a result that does not fit into one number is written to where the last parameter
// points. `hostelry componentize` gives the module its type, and checks every one of these against it.

//go:wasmimport hostelry:agent/host@0.1.0 emit-event
func wireEmitEvent(tag, a, b, c, d, e, result uint32)

//go:wasmimport hostelry:agent/host@0.1.0 call-tool
func wireCallTool(name, nameLen, args, argsLen, result uint32)

//go:wasmimport hostelry:agent/turn@0.1.0 history
func wireHistory(max, result uint32)

//go:wasmimport hostelry:agent/turn@0.1.0 tools
func wireTools(result uint32)

//go:wasmimport hostelry:agent/turn@0.1.0 get
func wireGet(key, keyLen, result uint32)

//go:wasmimport hostelry:agent/turn@0.1.0 keys
func wireKeys(result uint32)

//go:wasmimport hostelry:agent/log@0.1.0 log
func wireLog(level, text, textLen uint32)

// A guest may call nothing while it makes room, and Go's collector, which may start then, asks for the time: so the
// adapter to WASI 0.2 is told to answer it from memory.
//
//go:wasmimport wasi_snapshot_preview1 adapter_monotonic_clock_set_paused
func pauseClock(paused uint32)

// early is the room that is given before Go's runtime has started, to the adapter to WASI 0.2, which that start calls.
var early [1 << 18]byte

// earlyUsed is how much of early is given.
var earlyUsed uint32

// started says that Go's runtime has.
var started bool

func init() { started = true }

// given holds what the host has written and nobody has read yet, so that it is not collected.
var given [][]uint64

// The host asks for room through it, also while one of its functions is being called. Memory does not move in Go.
//
//go:wasmexport cabi_realloc
func cabiRealloc(old, oldSize, align, size uint32) uint32 {
	if !started {
		from := (address(unsafe.Pointer(&early)) + earlyUsed + align - 1) &^ (align - 1)
		earlyUsed = from + size - address(unsafe.Pointer(&early))
		if earlyUsed > uint32(len(early)) {
			return 0
		}
		return from
	}
	pauseClock(1)
	// Eight bytes are the widest alignment there is.
	room := make([]uint64, max(1, (size+7)/8))
	given = append(given, room)
	pauseClock(0)
	to := unsafe.Pointer(unsafe.SliceData(room))
	if old != 0 {
		copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(at(old)), oldSize))
	}
	return address(to)
}

// outcome is what handle points the host to: a case, and a text.
var outcome [3]uint32

// failure is the text, kept from being collected.
var failure string

//go:wasmexport hostelry:agent/handler@0.1.0#handle
func wireHandle(session, sessionLen, turn, turnLen, hasUser, user, userLen, input, inputLen uint32) uint32 {
	t := &Turn{SessionID: text(session, sessionLen), TurnID: text(turn, turnLen), Input: messages(input, inputLen)}
	if hasUser != 0 {
		t.UserID = text(user, userLen)
	}
	given = nil
	var failed bool
	failure, failed = run(t)
	outcome = [3]uint32{}
	if failed {
		outcome[0], outcome[1], outcome[2] = 1, start(failure), uint32(len(failure))
	}
	return address(unsafe.Pointer(&outcome))
}

// room is where the host writes a result; read before anything else is called.
var room [4]uint32

func at(address uint32) unsafe.Pointer { return unsafe.Add(nil, uintptr(address)) }

func address(pointer unsafe.Pointer) uint32 { return uint32(uintptr(pointer)) }

// start is where a text begins.
func start(text string) uint32 { return address(unsafe.Pointer(unsafe.StringData(text))) }

func word(address uint32) uint32 { return *(*uint32)(at(address)) }

// text copies a text of the host's.
func text(address, length uint32) string {
	if length == 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(at(address)), length))
}

// textAt copies the text whose address and length stand at an address.
func textAt(address uint32) string { return text(word(address), word(address+4)) }

// messages reads a list of messages, each of 28 bytes: role, then the content's case and what it holds.
func messages(address, length uint32) []Message {
	all := make([]Message, 0, length)
	for ; length > 0; length, address = length-1, address+28 {
		m := Message{Role: "user"}
		if word(address)&0xff == 1 {
			m.Role = "agent"
		}
		switch word(address+4) & 0xff {
		case 0:
			m.Text, m.IsText = textAt(address+8), true
		case 1:
			m.Image = textAt(address + 8)
		default:
			m.File = &File{URL: textAt(address + 8)}
			if word(address+16)&0xff == 1 {
				m.File.MediaType = textAt(address + 20)
			}
		}
		all = append(all, m)
	}
	return all
}

func emit(e event) error {
	to := address(unsafe.Pointer(&room))
	if e.tag == tagFollowUp {
		list := make([]uint32, 0, 2*len(e.texts)+1)
		for _, text := range e.texts {
			list = append(list, start(text), uint32(len(text)))
		}
		wireEmitEvent(e.tag, address(unsafe.Pointer(unsafe.SliceData(list))), uint32(len(e.texts)), 0, 0, 0, to)
		runtime.KeepAlive(list)
	} else if e.tag == tagFault {
		wireEmitEvent(e.tag, start(e.texts[0]), uint32(len(e.texts[0])), 0, 0, 0, to)
	} else {
		// The case of a stream that is a piece of text.
		const delta = 1
		wireEmitEvent(e.tag, delta, start(e.texts[0]), uint32(len(e.texts[0])), 0, 0, to)
	}
	runtime.KeepAlive(e.texts)
	defer func() { given = nil }()
	switch {
	case room[0]&0xff == 0:
		return nil
	case room[1]&0xff == 0:
		return ErrClosed
	default:
		return &RefusedError{Why: text(room[2], room[3])}
	}
}

// kinds are the cases of the contract's tool-error.
var kinds = [...]string{Unknown, Denied, InvalidArgs, Timeout, FailedTool}

func callTool(name, args string) (string, error) {
	wireCallTool(start(name), uint32(len(name)), start(args), uint32(len(args)), address(unsafe.Pointer(&room)))
	runtime.KeepAlive(name)
	runtime.KeepAlive(args)
	defer func() { given = nil }()
	if room[0]&0xff == 0 {
		return text(room[1], room[2]), nil
	}
	err := &ToolError{Kind: kinds[room[1]&0xff], Why: "it took too long"}
	if err.Kind != Timeout {
		err.Why = text(room[2], room[3])
	}
	return "", err
}

func history(max uint32) []Message {
	wireHistory(max, address(unsafe.Pointer(&room)))
	defer func() { given = nil }()
	return messages(room[0], room[1])
}

func tools() []Tool {
	wireTools(address(unsafe.Pointer(&room)))
	defer func() { given = nil }()
	all := make([]Tool, 0, room[1])
	for a, n := room[0], room[1]; n > 0; n, a = n-1, a+24 {
		all = append(all, Tool{Name: textAt(a), Description: textAt(a + 8), Parameters: json.RawMessage(textAt(a + 16))})
	}
	return all
}

func fact(key string) (string, bool) {
	wireGet(start(key), uint32(len(key)), address(unsafe.Pointer(&room)))
	runtime.KeepAlive(key)
	defer func() { given = nil }()
	return text(room[1], room[2]), room[0]&0xff == 1
}

func facts() []string {
	wireKeys(address(unsafe.Pointer(&room)))
	defer func() { given = nil }()
	all := make([]string, 0, room[1])
	for a, n := room[0], room[1]; n > 0; n, a = n-1, a+8 {
		all = append(all, textAt(a))
	}
	return all
}

func logText(level int, text string) {
	wireLog(uint32(min(max(level, Debug), Error)), start(text), uint32(len(text)))
	runtime.KeepAlive(text)
}
