"""Models by name share the cache of Hugging Face's own client: each finds what the other has fetched."""

import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import threading

import huggingface_hub

from conftest import BINARY, ROOT

REPOSITORY = "Qwen/Qwen3-0.6B-GGUF"
FILE = "Qwen3-0.6B-Q8_0.gguf"
MODEL = (ROOT / "demos/tiny_chat/model.gguf").read_bytes()
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Handler(http.server.BaseHTTPRequestHandler):
    """A hub with one model, for whoever has the token."""

    def do_GET(self):
        self.server.asked.append(f"{self.command} {self.path}")
        digest = hashlib.sha256(MODEL).hexdigest()
        lfs = {"sha256": digest, "size": len(MODEL), "pointerSize": 134}
        info = {"id": REPOSITORY, "sha": COMMIT, "siblings": [{"rfilename": FILE, "size": len(MODEL), "blobId": COMMIT, "lfs": lfs}]}
        is_file = self.path.endswith(f"/{FILE}")
        status = 401 if self.headers["authorization"] != "Bearer secret" else 200 if is_file or self.path.startswith(f"/api/models/{REPOSITORY}/") else 404
        body = b"" if status != 200 else MODEL if is_file else json.dumps(info).encode()
        self.send_response(status)
        for name, value in {"content-length": len(body), "x-repo-commit": COMMIT, "etag": f'"{digest}"', "x-linked-size": len(MODEL)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def hub(home):
    """A hub: the environment of programs that ask it, and what they have asked."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        yield {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(home), "HF_TOKEN": "secret"}, server.asked
        server.shutdown()


def pull(environment):
    pulled = subprocess.run([BINARY, "pull", REPOSITORY], env=environment, capture_output=True, text=True, timeout=60)
    assert pulled.returncode == 0, pulled.stderr
    return pathlib.Path(pulled.stdout.strip())


def test_what_was_pulled_is_found_by_huggingface_hub(tmp_path):
    with hub(tmp_path) as (environment, _):
        path = pull(environment)
    cache = tmp_path / "hub"
    found = huggingface_hub.scan_cache_dir(cache)
    (repository,) = found.repos
    (revision,) = repository.revisions
    assert not found.warnings and repository.repo_id == REPOSITORY and repository.size_on_disk == len(MODEL)
    assert revision.commit_hash == COMMIT and revision.refs == {"main"}
    assert huggingface_hub.hf_hub_download(REPOSITORY, FILE, cache_dir=cache, local_files_only=True) == str(path)
    assert path.read_bytes() == MODEL


def test_what_huggingface_hub_has_fetched_is_not_fetched_again(tmp_path):
    with hub(tmp_path) as (environment, asked):
        options = {"endpoint": environment["HF_ENDPOINT"], "token": "secret"}
        path = huggingface_hub.hf_hub_download(REPOSITORY, FILE, cache_dir=tmp_path / "hub", **options)
        asked.clear()
        assert pull(environment) == pathlib.Path(path)
        assert asked == [f"GET /api/models/{REPOSITORY}/revision/main?blobs=true"]
