"""Messages of a chat as the text that the model continues."""

from collections.abc import Sequence

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .requests import BadRequest, Message

# Without a template in the package: a model that was trained on plain text sees the lines alone, each message
# on a line of its own, and continues after a line break.
PLAIN = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


class ChatTemplate:
    """A Jinja template over `messages` (role, content) and `add_generation_prompt`.

    Parameters
    ----------
    source : str | None
        Of the package; None: `PLAIN`.
    """

    def __init__(self, source: str | None):
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string(PLAIN if source is None else source)

    def __call__(self, messages: Sequence[Message]) -> str:
        listed = [{"role": message.role, "content": message.text} for message in messages]
        try:
            return self._template.render(messages=listed, add_generation_prompt=True)
        except jinja2.TemplateError as error:
            raise BadRequest(
                f"the package's chat template refuses these messages: {error}", "messages"
            ) from error


def _refuse(sentence: str) -> None:
    raise jinja2.TemplateError(sentence)
