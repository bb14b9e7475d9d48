"""Chat templates: what they write, what is refused, and a conversation that ingests only what is new."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.host.library.chat_template import PLAIN, ChatTemplate, Conversation, read_template

TURNS = (
    "{% for message in messages %}\n"
    "<{{ message.role }}>{{ message.content }}</>\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
LAST_ONLY = "{{ messages[-1].content }}:"  # writes earlier messages differently: not at all


def test_what_templates_write():
    messages = [("system", "Speak."), ("user", "{{ 7 * 7 }}"), ("assistant", "ü")]
    assert ChatTemplate(None)(messages) == "Speak.\n{{ 7 * 7 }}\nü\n" == ChatTemplate(PLAIN)(messages)
    written = ChatTemplate(TURNS)(messages)
    assert written == "<system>Speak.</>\n<user>{{ 7 * 7 }}</>\n<assistant>ü</>\n<assistant>"


FAULTS = (
    "{% for %}",
    "{{ 1 +",
    "{% include 'x' %}",
    "{{ 1 / 0 }}",
    "{{ messages[9].content }}",
    "{{ ''.__class__.mro() }}",
    "{{ raise_exception('roles must alternate') }}",
    "{{ messages.append(1) }}",
    "{{ 5 + 'a' }}",
)


@pytest.mark.parametrize("source", FAULTS)
def test_faults_are_one_sentence(source):
    with pytest.raises(UserError, match="the chat template of x"):
        ChatTemplate(source, "the chat template of x")([("user", "a")])


def test_a_file(tmp_path):
    file = tmp_path / "t.jinja"
    file.write_text(TURNS + "\n")
    assert read_template(file) == TURNS
    for content, message in ((b"", "null or a text"), (b"\xff", "UTF-8"), (b"{% for %}", "not a Jinja"),
                             (b"x" * (1 << 20), "null or a text")):  # fmt: skip
        file.write_bytes(content)
        with pytest.raises(UserError, match=message):
            read_template(file)
    with pytest.raises(UserError, match="none"):
        read_template(tmp_path / "none")


def held(conversation: Conversation, text: str, line: str, answer: str) -> tuple[str, int]:
    """(text of the session after a turn, characters ingested)."""
    prompt, again = conversation.ask(line)
    conversation.answered(answer, answer)
    return ("" if again else text) + prompt + answer, len(prompt)


def test_a_conversation_ingests_what_is_new():
    conversation, text = Conversation(ChatTemplate(TURNS)), ""
    text, first = held(conversation, text, "a", "one")
    text, second = held(conversation, text, "bc", "two")
    assert text == "<user>a</>\n<assistant>one</>\n<user>bc</>\n<assistant>two"
    assert second == len("</>\n<user>bc</>\n<assistant>") and first == len("<user>a</>\n<assistant>")
    text, third = held(conversation, text, "", "!")  # goes on with the answer
    assert text.endswith("two!") and third == 0
    text, _ = held(conversation, text, "d", "x")
    assert "<assistant>two!</>\n<user>d</>" in text


def test_a_stop_text_is_no_part_of_the_next_turn():
    conversation = Conversation(ChatTemplate(TURNS))
    conversation.ask("a")
    conversation.answered("one", "one</STOP>")
    prompt, again = conversation.ask("b")
    assert again and prompt == "<user>a</>\n<assistant>one</>\n<user>b</>\n<assistant>"


def test_a_turn_that_failed_is_forgotten():
    conversation = Conversation(ChatTemplate(TURNS))
    conversation.ask("a")
    conversation.answered("one", "one")
    conversation.ask("lost")
    conversation.failed()
    prompt, again = conversation.ask("b")
    assert again and prompt == "<user>a</>\n<assistant>one</>\n<user>b</>\n<assistant>"


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=1, max_size=5))
def test_the_session_always_holds_the_templates_text(turns):
    for source in (TURNS, LAST_ONLY, PLAIN):
        conversation, template, text, messages = (
            Conversation(ChatTemplate(source)),
            ChatTemplate(source),
            "",
            [],
        )
        for line, answer in turns:
            text, _ = held(conversation, text, line or "-", answer)
            assert text == template([*messages, ("user", line or "-")]) + answer
            messages += [("user", line or "-"), ("assistant", answer)]
