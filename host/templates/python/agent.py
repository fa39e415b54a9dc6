"""{{name}}: says hello, and what was said to it."""

from hostelry import Agent, Turn, chat, history


class Handler(Agent):
    """What the host calls, once a turn."""

    def answer(self, turn: Turn) -> None:
        before = sum(message.role == "user" for message in history())
        chat("Hello again! " if before else "Hello! ")
        if turn.text is None:
            chat("That was no text.")
        else:
            chat(f"You said: {turn.text}")
