"""The chat template, rendered as Hugging Face transformers renders it, and cut into what is learned and what is only read."""

import json
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE = Path(__file__).with_name("chat_template.jinja").read_text()
_MARK = "\x00"


def _to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


_environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
_environment.filters["tojson"] = _to_json
_template = _environment.from_string(TEMPLATE)


def render(messages, tools=None, add_generation_prompt=True, **kwargs) -> str:
    """The prompt of a conversation; `kwargs` are the request's chat_template_kwargs."""
    return _template.render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, **kwargs)


def segments(messages, tools=None, only_last=False, **kwargs):
    """[(text, learned)] of a whole conversation: learned is what an assistant says, with the end mark.

    With `only_last`, earlier answers are read and not learned. A last answer may hold <think> tags, which the template
    would strip, so a mark stands in for it while rendering.
    """
    last = messages[-1]
    final = last["content"] if not last.get("tool_calls") else None
    shown = messages if final is None else messages[:-1] + [{"role": "assistant", "content": _MARK}]
    text = render(shown, tools, add_generation_prompt=False, **kwargs)
    if final is not None:
        text = text.replace(_MARK, final)
    head, end = "<|im_start|>assistant\n", "<|im_end|>"
    pieces = text.split(head)
    out, prompt = [], pieces[0]
    for i, piece in enumerate(pieces[1:], 1):
        said, _, rest = piece.partition(end)
        if only_last and i < len(pieces) - 1:
            prompt += head + piece
            continue
        out += [(prompt + head, False), (said + end, True)]
        prompt = rest
    return out
