// Package hostelry is the host's contract in Go's words: what an agent hears, says, remembers and calls.
//
// An agent is a main package whose init calls [Serve]. In a component (component.go) the package speaks the contract
// itself and needs no generated code; natively (fake.go) a [FakeHost] stands in for the host, for tests.
package hostelry

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Message is one message of the conversation: who said it, and what, of which just one is there.
type Message struct {
	// Role is "user" or "agent".
	Role string
	// Text is what was written, if IsText.
	Text   string
	IsText bool
	// Image is an image's URL.
	Image string
	// File is a file that the user sent or named.
	File *File
}

// File is a file that the user sent or named.
type File struct {
	URL string
	// MediaType is empty where the client does not say it.
	MediaType string
}

// Turn is one input of the user.
type Turn struct {
	SessionID string
	TurnID    string
	// UserID is empty where the client names nobody.
	UserID string
	// Input is what is new, in order; never empty.
	Input []Message
}

// Text is the last message, if it is text.
func (t *Turn) Text() (text string, ok bool) {
	if len(t.Input) == 0 {
		return "", false
	}
	last := t.Input[len(t.Input)-1]
	return last.Text, last.IsText
}

// ErrClosed says that the client is gone: nobody sees what comes after. A handler that returns it ends the turn well.
var ErrClosed = errors.New("the client is gone")

// RefusedError says that an event broke a rule or a limit, and which one.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// The kinds of a ToolError.
const (
	Unknown     = "unknown"
	Denied      = "denied"
	InvalidArgs = "invalid-args"
	Timeout     = "timeout"
	FailedTool  = "failed"
)

// ToolError says why a tool gave no result.
type ToolError struct {
	// Kind is one of the kinds above.
	Kind string
	// Why is in safe words.
	Why string
}

func (e *ToolError) Error() string { return e.Why }

// IsTool says whether err is a ToolError of this kind.
func IsTool(err error, kind string) bool {
	var tool *ToolError
	return errors.As(err, &tool) && tool.Kind == kind
}

// Tool is a tool that this turn may call, as a model wants it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Chat says a piece of the answer, now.
func Chat(text string) error { return emit(event{tag: tagChat, texts: []string{text}}) }

// Chatf is Chat with a format.
func Chatf(format string, args ...any) error { return Chat(fmt.Sprintf(format, args...)) }

// Think shows a piece of thought, apart from the answer.
func Think(text string) error { return emit(event{tag: tagThink, texts: []string{text}}) }

// Thinkf is Think with a format.
func Thinkf(format string, args ...any) error { return Think(fmt.Sprintf(format, args...)) }

// FollowUp is what the user may want to ask next: at most 8 are shown, and the last call wins.
func FollowUp(questions ...string) error { return emit(event{tag: tagFollowUp, texts: questions}) }

// Fault shows an error that does not end the turn.
func Fault(text string) error { return emit(event{tag: tagFault, texts: []string{text}}) }

// CallTool calls a tool of this turn: args becomes its JSON object (nil for none), and reply, a pointer or nil, takes its
// JSON answer. A tool's own failure is a *ToolError.
func CallTool(name string, args, reply any) error {
	text := []byte("{}")
	if args != nil {
		var err error
		if text, err = json.Marshal(args); err != nil {
			return err
		}
	}
	answer, err := callTool(name, string(text))
	if err != nil || reply == nil {
		return err
	}
	return json.Unmarshal([]byte(answer), reply)
}

// History is what this session said before this turn, oldest first: at most its last max messages.
func History(max uint32) []Message { return history(max) }

// All is a max for History that leaves nothing out.
const All = ^uint32(0)

// Fact is a fact about the turn, such as "now", "lang" or "location".
func Fact(key string) (value string, ok bool) { return fact(key) }

// Facts are the keys that Fact answers to.
func Facts() []string { return facts() }

// Tools are the tools that CallTool answers to in this turn.
func Tools() []Tool { return tools() }

// Levels of Log.
const (
	Debug = iota
	Info
	Warn
	Error
)

// Log writes to the host's log, as the standard output and the package log do.
func Log(level int, text string) { logText(level, text) }

// The cases of the contract's event, by their order there.
const (
	tagThink    = 0
	tagChat     = 1
	tagFollowUp = 5
	tagFault    = 6
)

// event is an event of the contract, of the kinds that this package offers.
type event struct {
	tag   uint32
	texts []string
}

// answer is the agent.
var answer func(*Turn) error

// Serve makes handler the agent: what it returns, unless it is ErrClosed, ends the turn as failed, and its text is shown
// to the user. Call it from init.
func Serve(handler func(*Turn) error) { answer = handler }

// run has the agent answer, and gives the text that the user is shown if it failed.
func run(turn *Turn) (failure string, failed bool) {
	if answer == nil {
		return "the agent called no hostelry.Serve", true
	}
	switch err := answer(turn); {
	case err == nil, errors.Is(err, ErrClosed):
		return "", false
	default:
		return err.Error(), true
	}
}
