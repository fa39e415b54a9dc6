"""Hostelry's contract in Python's words: what an agent hears, says, remembers and calls.

In a component it speaks through the bindings that componentize-py makes (`wit_world`). Natively there are none, and a
`FakeHost` stands in for the host, so that an agent can be tested with `python3 -m unittest`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

try:
    from componentize_py_types import Err
    from wit_world.imports import host as _host, log as _log, turn as _turn, types as _types
except ImportError:  # not in a component
    _host = None


class Failed(Exception):
    """Ends the turn as failed; the user is shown its text."""


class ToolError(Exception):
    """A tool gave no result.

    `kind` is `unknown`, `denied`, `invalid-args`, `timeout` or `failed`; the text says why, in safe words.
    """

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Closed(BaseException):
    """The client is gone. `Agent.handle` ends the turn with it; catch it only to clean up, and raise it again."""


@dataclass
class File:
    """A file that the user sent or named."""

    url: str
    media_type: Optional[str] = None


@dataclass
class Message:
    """One message: who said it (`user` or `agent`), and what: exactly one of text, image (a URL) and file."""

    role: str
    text: Optional[str] = None
    image: Optional[str] = None
    file: Optional[File] = None


@dataclass
class Turn:
    """One input of the user."""

    input: list[Message]
    session_id: str = "session"
    turn_id: str = "turn"
    user_id: Optional[str] = None

    @property
    def text(self) -> Optional[str]:
        """The last message, if it is text."""
        return self.input[-1].text if self.input else None


class Agent:
    """What an agent is made of: a module's `class Handler(Agent)` that answers."""

    def answer(self, turn: Turn) -> None:
        """Answers one turn. `Failed` shows its text to the user; any other exception shows a general text."""
        raise NotImplementedError

    def handle(self, request: Any) -> None:
        """What the host calls."""
        turn = Turn([_message(m) for m in request.input], request.session_id, request.turn_id, request.user_id)
        try:
            self.answer(turn)
        except Closed:
            return
        except Failed as failed:
            raise Err(str(failed)) from failed


def chat(text: str) -> None:
    """Says a piece of the answer, now."""
    _emit("chat", text)


def think(text: str) -> None:
    """Shows a piece of thought, apart from the answer."""
    _emit("think", text)


def follow_up(*questions: str) -> None:
    """What the user may want to ask next: at most 8 are shown, and the last call wins."""
    _emit("follow-up", list(questions))


def fault(text: str) -> None:
    """Shows an error that does not end the turn."""
    _emit("fault", text)


def call_tool(name: str, **args: Any) -> Any:
    """Calls a tool of this turn with these arguments, and gives its JSON answer. Raises `ToolError`."""
    text = json.dumps(args, ensure_ascii=False)
    if _host is None:
        return FakeHost.current().call(name, json.loads(text))
    try:
        return json.loads(_host.call_tool(name, text))
    except Err as error:
        case = error.value
        kind = {"InvalidArgs": "invalid-args"}.get(_case(case), _case(case).lower())
        raise ToolError(kind, getattr(case, "value", "it took too long")) from None


def history(limit: int = 2**32 - 1) -> list[Message]:
    """What this session said before this turn, oldest first: at most its last `limit` messages."""
    if _host is None:
        return FakeHost.current().history[-limit:]
    return [_message(message) for message in _turn.history(limit)]


def fact(key: str) -> Optional[str]:
    """A fact about the turn, such as `now`, `lang` or `location`; none if it is not known."""
    return FakeHost.current().facts.get(key) if _host is None else _turn.get(key)


def facts() -> list[str]:
    """The keys that `fact` answers to."""
    return sorted(FakeHost.current().facts) if _host is None else _turn.keys()


def tools() -> list[dict[str, Any]]:
    """The tools of this turn as a model wants them: name, description, and the JSON Schema of the parameters."""
    if _host is None:
        return [{"name": name, "description": "", "parameters": {}} for name in FakeHost.current().tools]
    return [
        {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
        for tool in _turn.tools()
    ]


def log(text: str, level: str = "info") -> None:
    """Writes to the host's log; `level` is `debug`, `info`, `warn` or `error`. `print` goes there as well."""
    if _host is None:
        FakeHost.current().logged.append((level, text))
    else:
        _log.log(_log.Level[level.upper()], text)


@dataclass
class FakeHost:
    """The host, for tests: `with FakeHost(tools={"Add": lambda a, b: a + b}) as host: host.ask(Handler(), "hi")`.

    A tool is a function of the call's arguments that gives a JSON value or raises `ToolError`. What the agent shows
    is in `events`, as pairs of kind and value.
    """

    history: list[Message] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    tools: dict[str, Callable[..., Any]] = field(default_factory=dict)
    events: list[tuple[str, Any]] = field(default_factory=list)
    logged: list[tuple[str, str]] = field(default_factory=list)
    #: After how many events the client goes away.
    closed_after: Optional[int] = None

    _current = None

    @classmethod
    def current(cls) -> FakeHost:
        if cls._current is None:
            raise RuntimeError("there is no host here: use `with FakeHost() as host:`")
        return cls._current

    def __enter__(self) -> FakeHost:
        type(self)._current = self
        return self

    def __exit__(self, *_: Any) -> None:
        type(self)._current = None

    def ask(self, agent: Agent, said: str | Message) -> str:
        """Has the agent answer, keeps both in the history, and gives the answer's text."""
        message = Message("user", text=said) if isinstance(said, str) else said
        start = len(self.events)
        try:
            agent.answer(Turn([message]))
        except Closed:
            pass
        answer = "".join(value for kind, value in self.events[start:] if kind == "chat")
        self.history += [message, Message("agent", text=answer)]
        return answer

    def call(self, name: str, args: dict[str, Any]) -> Any:
        if name not in self.tools:
            raise ToolError("unknown", f"there is no tool `{name}` in this turn")
        return self.tools[name](**args)


def _emit(kind: str, value: Any) -> None:
    if _host is None:
        fake = FakeHost.current()
        if fake.closed_after is not None and len(fake.events) >= fake.closed_after:
            raise Closed
        fake.events.append((kind, value))
        return
    if kind == "chat":
        event = _types.Event_Chat(_types.Output_Delta(value))
    elif kind == "think":
        event = _types.Event_Think(_types.Output_Delta(value))
    elif kind == "follow-up":
        event = _types.Event_FollowUp(value)
    else:
        event = _types.Event_Fault(value)
    try:
        _host.emit_event(event)
    except Err as error:
        if _case(error.value) == "Closed":
            raise Closed from None
        raise Failed(error.value.value) from None


def _message(message: Any) -> Message:
    role, content = message.role.name.lower(), message.content
    if isinstance(content, _types.Content_Text):
        return Message(role, text=content.value)
    if isinstance(content, _types.Content_Image):
        return Message(role, image=content.value)
    return Message(role, file=File(content.value.url, content.value.media_type))


def _case(value: Any) -> str:
    """The case of a variant: `Denied` of a `ToolError_Denied`."""
    return type(value).__name__.rsplit("_", 1)[-1]
