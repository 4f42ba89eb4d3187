"""The chat template, rendered as a server renders it."""

from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE = Path(__file__).with_name("chat_template.jinja").read_text()
MARKER = "<__media__>"  # where libmtmd puts a picture
END = "<|im_end|>"

_template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(TEMPLATE)


def render(messages) -> str:
    """The prompt of a conversation, up to where the answer begins."""
    return _template.render(messages=messages, add_generation_prompt=True)


def user(*parts) -> dict:
    """A user's message of texts and pictures; a picture is None here, since the prompt only marks its place."""
    return {"role": "user", "content": [{"type": "text", "text": p} if p is not None else {"type": "image"} for p in parts]}


def assistant(text) -> dict:
    return {"role": "assistant", "content": text}
