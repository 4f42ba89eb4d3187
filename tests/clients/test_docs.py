"""The documents agree with the repository: links lead somewhere, commands exist, and pages to be read in one go stay short."""

import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = {"README.md": 100, "docs/performance.md": 150}
# Folders whose paths stand in the running text. Records and decisions are about the past.
SOURCES = "grammar|engine|kernels|llm|calculators|mediapipe|server|bench|testkit|tests|docs|graphs|demos|fuzz|scripts|deploy|packaging"
PAST = ("CHANGELOG.md", "docs/adr/", "bench/results/")
# Programs with the verbs of `graphmill`: itself, and the example that adds a node to it.
PROGRAMS = {"graphmill", "custom_node"}
# Statics that are set once, to what any other call would set.
ONCE = {"KNOWN", "PAGE"}
# First words of a clause without a head, as in "How many there are".
HEADLESS = re.compile(r"(What|How|Whether|Why|Where|Which|Who|Whose|Those|Most|So many|As many|The same,)\b")
SEPARATORS = {"&&", "||", ";", "|", "&"}


def pages():
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, text=True)
    return sorted(path for path in map(pathlib.Path, listed.splitlines()) if (ROOT / path).exists())


def blocks(text):
    """Splits a page into prose and fenced blocks: `(language or None, first line's number, lines)`."""
    language, first, lines = None, 1, []
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(`{3,}|~{3,})\s*(\S*)", line)
        if mark and (fence is None or line.strip() == fence):
            yield language, first, lines
            opens = fence is None
            fence = mark[1] if opens else None
            language, first, lines = (mark[2] if opens else None), number + 1, []
        else:
            lines.append(line)
    yield language, first, lines


def prose(text):
    return [(first + offset, line) for language, first, lines in blocks(text) if language is None for offset, line in enumerate(lines)]


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    shown = re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def anchors(path):
    found = {}
    for _, line in prose(path.read_text()):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading:
            name = slug(heading[1])
            found[name] = found.get(name, 0) + 1
    return {name if count == 0 else f"{name}-{count}" for name, many in found.items() for count in range(many)}


def links(text):
    for number, line in prose(text):
        shown = re.sub(r"`[^`]*`", "", line)
        for target in re.findall(r"]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", shown):
            if not re.match(r"[a-z][a-z0-9+.-]*:", target):
                yield number, target


def shell_commands(text):
    """The commands of a page's `sh` blocks, word by word, with the number of their line."""
    for language, first, lines in blocks(text):
        if language not in ("sh", "bash", "shell", "console"):
            continue
        joined, start = "", first
        for number, line in enumerate(lines, first):
            start = start if joined else number
            joined += line
            if line.endswith("\\"):
                joined = joined[:-1] + " "
                continue
            lexer = shlex.shlex(joined, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = []
            for word in [*lexer, ";"]:
                if word not in SEPARATORS:
                    words.append(word)
                elif words:
                    yield start, words
                    words = []
            joined = ""


def inline_commands(text):
    """Commands in the running text, such as `graphmill check FILE` or `make demo`."""
    for number, line in prose(text):
        for code in re.findall(r"`((?:graphmill|make) [a-z][^`]*)`", line):
            yield number, code.split()


def command_line():
    """The verbs of `graphmill` with their flags, from the reference page, which a test of the server keeps current."""
    verbs = {}
    for section in re.split(r"^## ", (ROOT / "docs/reference/cli.md").read_text(), flags=re.M)[1:]:
        name, _, body = section.partition("\n")
        verbs[name.strip()] = {flag.replace("-", "_") for flag in re.findall(r"(?<![\w-])(--[a-z][a-z_-]*)", body)} | {"__help"}
    return verbs


def make_targets():
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), flags=re.M))


def what_is_wrong(words, verbs, targets):
    """Why a command cannot be run as it is written, or nothing."""
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        words = words[1:]
    if not words:
        return None
    program, arguments = words[0].rsplit("/", 1)[-1], words[1:]
    if program == "make":
        unknown = [word for word in arguments if not word.startswith("-") and "=" not in word and word not in targets]
        return f"no target {unknown}" if unknown else None
    if words[:2] == ["cargo", "run"]:
        package = next((name for option, name in zip(words, words[1:]) if option in ("-p", "--bin")), None)
        if package not in PROGRAMS | {"graphmill-server"} or "--" not in words:
            return None
        arguments = words[words.index("--") + 1 :]
    elif words[0].startswith(("scripts/", "bench/")):
        return None if (ROOT / words[0]).exists() else "no such file"
    elif program.startswith("python") and arguments and re.match(r"(scripts|bench|mediapipe)/.*\.py$", arguments[0]):
        return None if (ROOT / arguments[0]).exists() else "no such file"
    elif program not in PROGRAMS:
        return None
    verb = next((word for word in arguments if not word.startswith("-")), None)
    if not arguments or arguments[0] in ("--help", "--version"):
        return None
    if arguments[0].startswith("-"):
        verb = "serve"
    if verb not in verbs and verb != "help":
        return f"no verb `{verb}`"
    flags = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    unknown = sorted(flag for flag in flags if flag.replace("-", "_") not in verbs.get(verb, set()))
    return f"`{verb}` has no {unknown}" if unknown else None


@pytest.mark.parametrize("page", pages(), ids=str)
def test_links_lead_somewhere(page):
    dead = []
    for number, target in links((ROOT / page).read_text()):
        path, _, anchor = target.partition("#")
        there = (ROOT / page).parent / path if path else ROOT / page
        if not there.exists():
            dead.append(f"{page}:{number}: {target}: no such file")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            dead.append(f"{page}:{number}: {target}: no such heading")
    assert not dead, "\n".join(dead)


def test_named_files_exist():
    missing = []
    for page in pages():
        if str(page).startswith(PAST):
            continue
        for number, line in prose((ROOT / page).read_text()):
            for path in re.findall(rf"`((?:{SOURCES})/[\w./-]*)`(?!])", line):
                if not (ROOT / path).exists() and not (ROOT / page.parent / path).exists():
                    missing.append(f"{page}:{number}: {path}")
    assert not missing, "\n".join(missing)


def test_state_of_the_process_is_listed():
    page = (ROOT / "ARCHITECTURE.md").read_text().split("## State of the process", 1)[1].split("\n## ", 1)[0]
    listed = set(re.findall(r"`([A-Z_]+)`", page))
    found = set()
    for source in (path for crate in SOURCES.split("|") for path in (ROOT / crate / "src").glob("**/*.rs")):
        # Not of tests, which come last in a file, and not of threads.
        text = re.split(r"#\[cfg\(test\)\]\nmod \w+ \{", source.read_text())[0]
        text = re.sub(r"thread_local! \{.*?\n\}", "", text, flags=re.DOTALL)
        found |= set(re.findall(r"\bstatic ([A-Z_]+): \S*\b(?:Mutex|RwLock|OnceLock|Atomic\w*|Arc|Counter|Process)\b", text))
    assert found - ONCE == listed, (sorted(found - ONCE - listed), sorted(listed - found))


def test_commands_exist():
    verbs, targets = command_line(), make_targets()
    wrong, seen = [], 0
    for page in pages():
        text = (ROOT / page).read_text()
        for number, words in [*shell_commands(text), *inline_commands(text)]:
            seen += 1
            why = what_is_wrong(words, verbs, targets)
            if why:
                wrong.append(f"{page}:{number}: {' '.join(words)}: {why}")
    assert not wrong, "\n".join(wrong)
    assert seen > 20


@pytest.mark.parametrize("command", ["make nothing", "graphmill chec", "graphmill check --explian GM0301", "graphmill --rest_prt 1", "scripts/nothing.sh"])
def test_a_wrong_command_is_found(command):
    assert what_is_wrong(command.split(), command_line(), make_targets())


@pytest.mark.parametrize("page, most", LIMITS.items())
def test_pages_to_be_read_in_one_go_are_short(page, most):
    assert len((ROOT / page).read_text().splitlines()) <= most


def descriptions(page):
    """The texts of a reference page that describe a flag, a field, an option or a metric, each with the number of its line."""
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if page.name != "cli.md":
            if line.startswith("| ") and not lines[number - 2].startswith("|--"):
                yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[2:-1])
        elif re.match(r"\s+(-\w, )?--[\w-]+[^,.]*$", line) and number < len(lines):
            yield number + 1, lines[number].strip()
        elif shown := re.match(r"  [a-z-]+  +(\S.*)|\s+(?:- [\w-]+:|(?:-\w, )?--[\w-]+(?: <?\S+>?)?  ) +(\S.*)", line):
            yield number, shown[1] or shown[2]


def is_plain(text):
    return not HEADLESS.match(text) and text not in ("only", "Only", "at most", "at least", "None", "null")


@pytest.mark.parametrize("page", sorted((ROOT / "docs/reference").rglob("*.md")), ids=lambda page: page.stem)
def test_descriptions_begin_with_what_they_describe(page):
    wrong = [f"{page.relative_to(ROOT)}:{number}: {text}" for number, text in descriptions(page) if not is_plain(text)]
    assert not wrong, "\n".join(wrong)
    assert page.name not in ("cli.md", "fields.md", "metrics.md") or len(list(descriptions(page))) > 80


@pytest.mark.parametrize("text", ["How many there are", "Whether it may", "only", "Why it may not answer"])
def test_a_text_without_a_head_is_found(text):
    assert not is_plain(text)
