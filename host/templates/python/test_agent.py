"""{{name}} against a host that is not there: `python3 -m unittest`."""

import unittest

from agent import Handler
from hostelry import FakeHost, Message


class AgentTest(unittest.TestCase):
    def test_says_hello_and_what_was_said(self):
        with FakeHost() as host:
            self.assertEqual(host.ask(Handler(), "good morning"), "Hello! You said: good morning")
            self.assertEqual(host.ask(Handler(), "me again"), "Hello again! You said: me again")

    def test_says_so_if_it_was_no_text(self):
        with FakeHost() as host:
            self.assertEqual(host.ask(Handler(), Message("user", image="https://h.example/a.png")), "Hello! That was no text.")


if __name__ == "__main__":
    unittest.main()
