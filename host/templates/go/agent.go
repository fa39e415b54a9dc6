// {{name}}: says hello, and what was said to it.
package main

import "agent/hostelry"

func init() { hostelry.Serve(answer) }

// main is never called: the host calls what Serve was given, once a turn.
func main() {}

func answer(turn *hostelry.Turn) error {
	hello := "Hello! "
	for _, message := range hostelry.History(hostelry.All) {
		if message.Role == "user" {
			hello = "Hello again! "
		}
	}
	if err := hostelry.Chat(hello); err != nil {
		return err
	}
	text, ok := turn.Text()
	if !ok {
		return hostelry.Chat("That was no text.")
	}
	return hostelry.Chat("You said: " + text)
}
