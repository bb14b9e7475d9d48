"""Messages of a chat as the text that the model continues, by the Jinja template of its package."""

from collections.abc import Sequence
from pathlib import Path

from symlight.base.errors import UserError, in_words
from symlight.model.package_folder import MOST_TEMPLATE_LETTERS, check_chat_template
from symlight.model.text import from_bytes

# Without a template in the package: a model that was trained on plain text sees the lines alone, each message
# on a line of its own, and continues after a line break.
PLAIN = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
NEEDED = (
    "chat templates need the extra `serve` ({}); run: pip install 'symlight[serve]'"  # of a missing module
)
# What a template may raise besides Jinja's own errors: it computes on texts that it did not choose.
_RAISED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ChatTemplate:
    """A Jinja template over `messages` (each with role and content) and `add_generation_prompt`.

    It runs in Jinja's sandbox. `raise_exception(text)` refuses messages, as templates of other models do.

    Parameters
    ----------
    source : str | None
        Of the package; None: `PLAIN`.
    origin : str
        Names it in a `UserError`, which says what is wrong with it.
    """

    def __init__(self, source: str | None, origin: str = "the chat template"):
        try:
            import jinja2
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError as error:
            raise UserError(NEEDED.format(error)) from error
        self._errors, self._origin = (jinja2.TemplateError, *_RAISED), origin

        def refuse(sentence: str) -> None:
            raise jinja2.TemplateError(sentence)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = refuse
        try:
            self._template = environment.from_string(PLAIN if source is None else source)
        except self._errors as error:
            raise UserError(f"{origin} is not a Jinja template: {error}; give another one") from error

    def __call__(self, messages: Sequence[tuple[str, str]]) -> str:
        """The text of (role, content) and of the beginning of the answer; a `UserError` refuses them."""
        listed = [{"role": role, "content": content} for role, content in messages]
        try:
            text: str = self._template.render(messages=listed, add_generation_prompt=True)
            return text
        except self._errors as error:
            raise UserError(f"{self._origin} refuses these messages: {error}") from error


class Conversation:
    """A chat on a session by a template: what the session has to be given for the next line.

    The session holds the text so far, so only the rest of the new text is given to it. A template that writes
    earlier messages differently once others follow makes the session start again with the whole text.

    Parameters
    ----------
    template : ChatTemplate
    """

    def __init__(self, template: ChatTemplate):
        self._template = template
        self.reset()

    def reset(self) -> None:
        """Nothing has been said, and the session is empty."""
        self._messages: list[tuple[str, str]] = []
        self._held: str | None = ""  # text of the session; None: not known
        self._asked = ""

    def ask(self, line: str) -> tuple[str, bool]:
        """(text to ingest, whether the session must be reset first) for a line of the user.

        An empty line after an answer goes on with the answer.
        """
        if not line and self._messages and self._held is not None:
            self._asked = self._held
            return "", False
        messages = [*self._messages, ("user", line)]
        whole = self._template(messages)
        self._messages, self._asked = messages, whole
        if self._held is not None and whole.startswith(self._held):
            return whole[len(self._held) :], False
        return whole, True

    def answered(self, shown: str, written: str) -> None:
        """The model's answer: what was shown of it, and the text of its tokens."""
        if self._messages and self._messages[-1][0] == "assistant":
            self._messages[-1] = ("assistant", self._messages[-1][1] + shown)
        else:
            self._messages.append(("assistant", shown))
        self._held = self._asked + written

    def failed(self) -> None:
        """The turn did not end: what the session holds is not known."""
        self._held = None
        if self._messages and self._messages[-1][0] == "user":
            self._messages.pop()


def read_template(file: Path) -> str:
    """The chat template in a file, checked; a `UserError` says what is wrong with it."""
    with in_words(), file.open("rb") as stream:
        content = stream.read(4 * MOST_TEMPLATE_LETTERS + 1)
    text = from_bytes(content, f"the chat template {file}").removesuffix("\n")
    check_chat_template(str(file), text)
    ChatTemplate(text, f"the chat template {file}")
    return text
