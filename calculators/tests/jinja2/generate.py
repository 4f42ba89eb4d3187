"""Renders every template of cases.json with Python's jinja2, set up as transformers sets it up, and writes the answers back.

    pip install jinja2==3.1.6 markupsafe==3.0.4 && python generate.py

A case with `error` fails in Python; its text is Python's and only tells a reader why.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters.update(tojson=tojson, from_json=json.loads)
    now = datetime.datetime(2026, 1, 2, 3, 4, 5)
    env.globals.update(raise_exception=raise_exception, strftime_now=now.strftime, from_json=json.loads)
    return env


def main():
    path = pathlib.Path(__file__).with_name("cases.json")
    suite = json.loads(path.read_text())
    cases = []
    for case in suite["cases"]:
        try:
            answer = {"expected": environment().from_string(case["template"]).render(**suite["variables"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        cases.append(json.dumps({"template": case["template"], **answer}, ensure_ascii=False))
    variables = json.dumps(suite["variables"], ensure_ascii=False)
    path.write_text('{"variables": ' + variables + ',\n"cases": [\n' + ",\n".join(cases) + "\n]}\n")


if __name__ == "__main__":
    main()
