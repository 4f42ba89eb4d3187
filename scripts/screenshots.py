#!/usr/bin/env python3
"""Takes the screenshots of docs/guide/page.md from the built server: `.venv/bin/python scripts/screenshots.py`. Needs what `scripts/setup.sh --tests` installs."""

import json
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

from playwright.sync_api import expect, sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "guide" / "page"
MODEL = "graphmill/tiny-chat"
# Documents stay light to load.
MAX_BYTES = 150_000
WIDE = {"width": 1200, "height": 750}
PHONE = {"width": 390, "height": 780}


def started():
    """A server of the shipped configuration, once it is ready: the process and its URL."""
    command = [ROOT / "target" / "release" / "graphmill", "serve", "--config_path", "config.json", "--rest_port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    url = process.stdout.readline().strip()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/v2/health/ready", timeout=5).close()
            return process, url
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    process.kill()
    sys.exit("error: the server is not ready")


def ask(page, text):
    page.get_by_label("Your question", exact=True).fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Send")).to_be_visible(timeout=20_000)


def chat(page):
    page.get_by_label("Model", exact=True).select_option(MODEL)
    ask(page, "What is a side packet?")
    page.get_by_role("button", name="Another answer").click()
    expect(page.get_by_role("article", name="Answer of").last).to_contain_text("2 / 2")
    expect(page.get_by_role("button", name="Send")).to_be_visible(timeout=20_000)
    ask(page, "What is OpenVINO?")


def server(page):
    """An engine that has something to do while it is looked at."""
    page.evaluate(
        """(model) => {
            const ask = () => fetch("/v3/chat/completions", { method: "POST", headers: { "content-type": "application/json" },
                body: JSON.stringify({ model, max_tokens: 400, ignore_eos: true, messages: [{ role: "user", content: "Go on." }] }) }).then((answer) => answer.text());
            const loop = async () => { for (let time = 0; time < 100; time++) await ask(); };
            void Promise.all([1, 2, 3].map(loop));
        }""",
        MODEL,
    )
    page.get_by_role("region", name="Engine of tiny-chat").scroll_into_view_if_needed()
    page.wait_for_timeout(9000)


def graph(page):
    """A request on its way, with one of its streams tapped."""
    page.evaluate(
        """(model) => void fetch("/v3/chat/completions", { method: "POST", headers: { "content-type": "application/json" },
            body: JSON.stringify({ model, stream: true, max_tokens: 1900, ignore_eos: true, messages: [{ role: "user", content: "Go on." }] }) }).then((answer) => answer.text())""",
        MODEL,
    )
    page.get_by_role("button", name="Stream llmexecutor__tokens").focus()
    page.keyboard.press("Enter")
    page.wait_for_timeout(1500)


def playground(page):
    """The text of a served graph, and what it does with a request."""
    page.get_by_label("Begin with").select_option(MODEL)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "What is a side packet?"}], "max_tokens": 60}
    page.get_by_label("Body").fill(json.dumps(body))
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("region", name="Try it").get_by_role("heading", name="Outputs")).to_be_visible(timeout=20_000)


SHOTS = [
    ("chat", "#/chat", "light", WIDE, chat),
    ("chat-phone", "#/chat", "dark", PHONE, chat),
    ("graph", "#/graph/graphmill%2Ftiny-chat", "light", WIDE, graph),
    ("playground", "#/playground", "light", WIDE, playground),
    ("server", "#/server", "dark", WIDE, server),
]


def main():
    OUT.mkdir(exist_ok=True)
    process, url = started()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name, address, theme, size, prepare in SHOTS:
                page = browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce")
                page.goto(f"{url}/{address}")
                prepare(page)
                file = OUT / f"{name}.png"
                page.screenshot(path=file)
                page.close()
                print(f"{file.stat().st_size:>8} {file.relative_to(ROOT)}")
                assert file.stat().st_size < MAX_BYTES, f"{file} is larger than {MAX_BYTES} bytes"
            browser.close()
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
