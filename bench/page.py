"""How long a browser takes to show the page at `/` of a running server: `.venv/bin/python bench/page.py http://127.0.0.1:8000`."""

import shutil
import statistics
import sys

from playwright.sync_api import sync_playwright

# Milliseconds from the first byte to a question that can be asked.
SEEN = """addEventListener('DOMContentLoaded', () => new MutationObserver((_, seeing) => {
    if (document.querySelector('.composer')) { window.seen ??= performance.now(); seeing.disconnect(); }
}).observe(document.body, { childList: true, subtree: true }));"""

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    page = browser.new_page()
    page.add_init_script(SEEN)
    times = []
    for _ in range(20):
        page.goto(sys.argv[1])
        page.wait_for_selector(".composer")
        times.append(page.evaluate("window.seen"))
    print(f"page shown after {statistics.median(times):.0f} ms ({min(times):.0f}-{max(times):.0f}), median of {len(times)}")
    browser.close()
