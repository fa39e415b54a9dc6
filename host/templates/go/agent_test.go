// {{name}} against a host that is not there: `make test`.
package main

import (
	"testing"

	"agent/hostelry"
)

func TestSaysHelloAndWhatWasSaid(t *testing.T) {
	host := &hostelry.FakeHost{}
	for _, turn := range []struct{ said, want string }{
		{"good morning", "Hello! You said: good morning"},
		{"me again", "Hello again! You said: me again"},
	} {
		if got, err := host.Ask(turn.said); got != turn.want || err != nil {
			t.Errorf("%q was answered by %q (%v), and not by %q", turn.said, got, err, turn.want)
		}
	}
}

func TestSaysSoIfItWasNoText(t *testing.T) {
	got, err := (&hostelry.FakeHost{}).AskMessage(hostelry.Message{Image: "https://h.example/a.png"})
	if got != "Hello! That was no text." || err != nil {
		t.Error(got, err)
	}
}
