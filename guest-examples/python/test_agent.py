"""The journal against a host that is not there: `python3 -m unittest`."""

import unittest

from agent import Handler
from hostelry import Failed, FakeHost, Message, ToolError


class Workspace(dict):
    """The workspace's two tools that the journal calls."""

    def tools(self):
        return {"ReadFile": self.read, "WriteFile": self.write}

    def read(self, filePath):
        if filePath not in self:
            raise ToolError("invalid-args", "filePath: there is no such file")
        return {"content": self[filePath]}

    def write(self, filePath, content):
        self[filePath] = content
        return {"status": "written"}


class JournalTest(unittest.TestCase):
    def test_what_is_kept_is_read_back(self):
        with FakeHost(tools=Workspace().tools()) as host:
            self.assertEqual(host.ask(Handler(), "read"), "The journal is empty.")
            self.assertEqual(host.ask(Handler(), " buy  milk "), "Kept: buy milk.")
            self.assertEqual(host.ask(Handler(), "喝茶"), "Kept: 喝茶.")
            self.assertEqual(host.ask(Handler(), "read"), "1. buy  milk\n2. 喝茶\n")
            self.assertEqual(host.events[0], ("think", "Entry 1."))
            self.assertEqual(host.events[-1], ("follow-up", ["read", "before"]))

    def test_what_was_said_before_is_remembered(self):
        with FakeHost(tools=Workspace().tools()) as host:
            self.assertEqual(host.ask(Handler(), "before"), "You said nothing before.")
            host.ask(Handler(), "tea")
            self.assertEqual(host.ask(Handler(), "before"), "Before this you said: before; tea")

    def test_a_tool_that_fails_is_told_in_its_own_words(self):
        def denied(**_):
            raise ToolError("denied", "not granted")

        with FakeHost(tools={"ReadFile": denied}) as host:
            self.assertEqual(host.ask(Handler(), "read"), "I cannot read the journal: not granted")
            self.assertEqual(host.ask(Handler(), "tea"), "I cannot keep that: not granted")

    def test_what_is_no_text_is_not_kept(self):
        with FakeHost() as host:
            self.assertEqual(host.ask(Handler(), Message("user", image="https://h.example/a.png")), "I keep words only.")

    def test_a_client_that_leaves_ends_the_turn(self):
        with FakeHost(tools=Workspace().tools(), closed_after=2) as host:
            self.assertEqual(host.ask(Handler(), "a b c"), "Kept:")

    def test_a_failure_is_the_agent_s_own(self):
        with FakeHost() as host, self.assertRaises(Failed):
            host.ask(Handler(), "fail")


if __name__ == "__main__":
    unittest.main()
