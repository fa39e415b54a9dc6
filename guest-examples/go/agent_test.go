// The journal against a host that is not there: `go test ./...`.
package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"agent/hostelry"
)

type tool = func(json.RawMessage) (any, error)

// workspace is a host with the workspace's two tools that the journal calls.
func workspace() *hostelry.FakeHost {
	files := map[string]string{}
	type file struct{ FilePath, Content string }
	return &hostelry.FakeHost{Tools: map[string]tool{
		"ReadFile": func(args json.RawMessage) (any, error) {
			var f file
			if err := json.Unmarshal(args, &f); err != nil {
				return nil, err
			}
			content, ok := files[f.FilePath]
			if !ok {
				return nil, &hostelry.ToolError{Kind: hostelry.InvalidArgs, Why: "filePath: there is no such file"}
			}
			return map[string]string{"content": content}, nil
		},
		"WriteFile": func(args json.RawMessage) (any, error) {
			var f file
			if err := json.Unmarshal(args, &f); err != nil {
				return nil, err
			}
			files[f.FilePath] = f.Content
			return map[string]string{"status": "written"}, nil
		},
	}}
}

// says checks what the agent answers.
func says(t *testing.T, host *hostelry.FakeHost, said, want string) {
	t.Helper()
	if got, err := host.Ask(said); got != want || err != nil {
		t.Fatalf("%q was answered by %q (%v), and not by %q", said, got, err, want)
	}
}

func TestWhatIsKeptIsReadBack(t *testing.T) {
	host := workspace()
	says(t, host, "read", "The journal is empty.")
	says(t, host, " buy  milk ", "Kept: buy milk.")
	says(t, host, "喝茶", "Kept: 喝茶.")
	says(t, host, "read", "1. buy  milk\n2. 喝茶\n")
	first, last := host.Events[0], host.Events[len(host.Events)-1]
	if !reflect.DeepEqual(first, hostelry.Shown{Kind: "think", Texts: []string{"Entry 1."}}) {
		t.Fatal(first)
	}
	if !reflect.DeepEqual(last, hostelry.Shown{Kind: "follow-up", Texts: []string{"read", "before"}}) {
		t.Fatal(last)
	}
}

func TestWhatWasSaidBeforeIsRemembered(t *testing.T) {
	host := workspace()
	says(t, host, "before", "You said nothing before.")
	says(t, host, "tea", "Kept: tea.")
	says(t, host, "before", "Before this you said: before; tea")
}

func TestAToolThatFailsIsToldInItsOwnWords(t *testing.T) {
	denied := func(json.RawMessage) (any, error) {
		return nil, &hostelry.ToolError{Kind: hostelry.Denied, Why: "not granted"}
	}
	host := &hostelry.FakeHost{Tools: map[string]tool{"ReadFile": denied}}
	says(t, host, "read", "I cannot read the journal: not granted")
	says(t, host, "tea", "I cannot keep that: not granted")
}

func TestWhatIsNoTextIsNotKept(t *testing.T) {
	got, err := (&hostelry.FakeHost{}).AskMessage(hostelry.Message{Image: "https://h.example/a.png"})
	if got != "I keep words only." || err != nil {
		t.Fatal(got, err)
	}
}

func TestAClientThatLeavesEndsTheTurn(t *testing.T) {
	host := workspace()
	host.ClosedAfter = 2
	says(t, host, "a b c", "Kept:")
}

func TestAFailureIsTheAgentsOwn(t *testing.T) {
	if _, err := (&hostelry.FakeHost{}).Ask("fail"); err == nil || err.Error() != "You asked me to fail." {
		t.Fatal(err)
	}
}
