"""A journal: keeps what it is told in a file of the session's workspace, and reads it back."""

from hostelry import Agent, Failed, ToolError, Turn, call_tool, chat, follow_up, history, think

JOURNAL = "journal.md"


class Handler(Agent):
    """What the host calls."""

    def answer(self, turn: Turn) -> None:
        if turn.text is None:
            chat("I keep words only.")
            return
        before = [message for message in history() if message.role == "user"]
        think(f"Entry {len(before) + 1}.")
        match turn.text.strip():
            case "read":
                self.read()
            case "before":
                self.before([message.text for message in before if message.text is not None])
            case "fail":
                raise Failed("You asked me to fail.")
            case text:
                self.keep(text)
        follow_up("read", "before")

    def read(self) -> None:
        try:
            content = call_tool("ReadFile", filePath=JOURNAL)["content"]
        except ToolError as error:
            empty = error.kind == "invalid-args"
            chat("The journal is empty." if empty else f"I cannot read the journal: {error}")
            return
        for number, line in enumerate(content.splitlines(), 1):
            chat(f"{number}. {line}\n")

    def before(self, said: list[str]) -> None:
        chat(f"Before this you said: {'; '.join(said)}" if said else "You said nothing before.")

    def keep(self, text: str) -> None:
        try:
            call_tool("WriteFile", filePath=JOURNAL, content=f"{self.content()}{text}\n")
        except ToolError as error:
            chat(f"I cannot keep that: {error}")
            return
        chat("Kept:")
        for word in text.split():
            chat(f" {word}")
        chat(".")

    def content(self) -> str:
        """What the journal holds so far."""
        try:
            return call_tool("ReadFile", filePath=JOURNAL)["content"]
        except ToolError as error:
            if error.kind == "invalid-args":  # there is no such file yet
                return ""
            raise
