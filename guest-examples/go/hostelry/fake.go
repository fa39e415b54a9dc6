//go:build !wasip1

package hostelry

import (
	"encoding/json"
	"slices"
)

// FakeHost is the host, for tests: what it is given, the agent finds, and what the agent does, it keeps.
type FakeHost struct {
	History []Message
	Facts   map[string]string
	// Tools take a call's arguments and give its answer, or a *ToolError.
	Tools map[string]func(args json.RawMessage) (any, error)

	// Events is what was shown, in order.
	Events []Shown
	Logged []string
	// ClosedAfter is after how many events the client goes away; 0 for never.
	ClosedAfter int
}

// Shown is an event: "think", "chat", "follow-up" or "fault", and its texts.
type Shown struct {
	Kind  string
	Texts []string
}

// host is the one that the agent is asked by.
var host = &FakeHost{}

// Ask has the agent that Serve was given answer a text, keeps both in the history, and gives the answer's text.
func (h *FakeHost) Ask(said string) (string, error) {
	return h.AskMessage(Message{Role: "user", Text: said, IsText: true})
}

// AskMessage is Ask with any message.
func (h *FakeHost) AskMessage(said Message) (string, error) {
	host = h
	from := len(h.Events)
	failure, failed := run(&Turn{SessionID: "session", TurnID: "turn", Input: []Message{said}})
	said.Role = "user"
	var text string
	for _, event := range h.Events[from:] {
		if event.Kind == "chat" {
			text += event.Texts[0]
		}
	}
	h.History = append(h.History, said, Message{Role: "agent", Text: text, IsText: true})
	if failed {
		return text, &RefusedError{Why: failure}
	}
	return text, nil
}

func emit(e event) error {
	if host.ClosedAfter > 0 && len(host.Events) >= host.ClosedAfter {
		return ErrClosed
	}
	kind := map[uint32]string{tagThink: "think", tagChat: "chat", tagFollowUp: "follow-up", tagFault: "fault"}[e.tag]
	host.Events = append(host.Events, Shown{Kind: kind, Texts: slices.Clone(e.texts)})
	return nil
}

func callTool(name, args string) (string, error) {
	tool, ok := host.Tools[name]
	if !ok {
		return "", &ToolError{Kind: Unknown, Why: "there is no tool `" + name + "` in this turn"}
	}
	answer, err := tool(json.RawMessage(args))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(answer)
	return string(text), err
}

func history(limit uint32) []Message {
	skip := max(0, len(host.History)-int(min(limit, 1<<30)))
	return slices.Clone(host.History[skip:])
}

func fact(key string) (string, bool) {
	value, ok := host.Facts[key]
	return value, ok
}

func facts() []string {
	var keys []string
	for key := range host.Facts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func tools() []Tool {
	var all []Tool
	for name := range host.Tools {
		all = append(all, Tool{Name: name, Parameters: json.RawMessage("{}")})
	}
	slices.SortFunc(all, func(a, b Tool) int { return len(a.Name) - len(b.Name) })
	return all
}

func logText(_ int, text string) { host.Logged = append(host.Logged, text) }
