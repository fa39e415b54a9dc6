// A journal: keeps what it is told in a file of the session's workspace, and reads it back.
package main

import (
	"errors"
	"strings"

	"agent/hostelry"
)

const journal = "journal.md"

func init() { hostelry.Serve(answer) }

// main is never called: the host calls what Serve was given.
func main() {}

func answer(turn *hostelry.Turn) error {
	text, ok := turn.Text()
	if !ok {
		return hostelry.Chat("I keep words only.")
	}
	var before []hostelry.Message
	for _, message := range hostelry.History(hostelry.All) {
		if message.Role == "user" {
			before = append(before, message)
		}
	}
	if err := hostelry.Thinkf("Entry %d.", len(before)+1); err != nil {
		return err
	}
	var err error
	switch text = strings.TrimSpace(text); text {
	case "read":
		err = read()
	case "before":
		err = recall(before)
	case "fail":
		err = errors.New("You asked me to fail.")
	default:
		err = keep(text)
	}
	if err != nil {
		return err
	}
	return hostelry.FollowUp("read", "before")
}

func read() error {
	content, err := load()
	switch {
	case hostelry.IsTool(err, hostelry.InvalidArgs):
		return hostelry.Chat("The journal is empty.")
	case err != nil:
		return told("I cannot read the journal", err)
	}
	number := 0
	for line := range strings.Lines(content) {
		number++
		if err := hostelry.Chatf("%d. %s\n", number, strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func recall(before []hostelry.Message) error {
	var said []string
	for _, message := range before {
		if message.IsText {
			said = append(said, message.Text)
		}
	}
	if len(said) == 0 {
		return hostelry.Chat("You said nothing before.")
	}
	return hostelry.Chat("Before this you said: " + strings.Join(said, "; "))
}

func keep(text string) error {
	content, err := load()
	if err != nil && !hostelry.IsTool(err, hostelry.InvalidArgs) {
		return told("I cannot keep that", err)
	}
	args := map[string]string{"filePath": journal, "content": content + text + "\n"}
	if err := hostelry.CallTool("WriteFile", args, nil); err != nil {
		return told("I cannot keep that", err)
	}
	pieces := []string{"Kept:"}
	for _, word := range strings.Fields(text) {
		pieces = append(pieces, " "+word)
	}
	for _, piece := range append(pieces, ".") {
		if err := hostelry.Chat(piece); err != nil {
			return err
		}
	}
	return nil
}

// load is what the journal holds.
func load() (string, error) {
	var file struct{ Content string }
	err := hostelry.CallTool("ReadFile", map[string]string{"filePath": journal}, &file)
	return file.Content, err
}

// told tells the user of a tool's failure; any other error is the agent's own.
func told(what string, err error) error {
	var tool *hostelry.ToolError
	if errors.As(err, &tool) {
		return hostelry.Chatf("%s: %s", what, tool.Why)
	}
	return err
}
