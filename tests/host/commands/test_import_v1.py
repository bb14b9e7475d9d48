"""`symlight import-v1` and names on the hub, the latter against a local stand-in of its endpoint."""

import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from symlight.base.errors import UserError
from symlight.host import cli
from symlight.host.v1 import hub
from symlight.model.v1.config import V1_08B, V1_194M, small
from symlight.model.v1.package import load_v1
from tests.benches.host.v1_pieces import pieces
from tests.benches.model.v1_worlds import model

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "sl_tokenizer.model"
    path.write_bytes(pieces(32))
    return path


@pytest.fixture
def checkpoint(tmp_path):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from tests.benches.model.v1_checkpoints import write

    def make(family, **options):
        return write(tmp_path / "c.pt", small(family), model(3, family=family)[1], **options)

    return make


@pytest.mark.parametrize("family", [V1_194M, V1_08B], ids=lambda family: family.name)
@pytest.mark.parametrize("weights", ["int8", "float32"])
def test_import(tmp_path, checkpoint, tokenizer, capsys, family, weights):
    out = tmp_path / "p"
    arguments = ["import-v1", str(checkpoint(family)), "--tokenizer", str(tokenizer), "--out", str(out)]
    assert cli.run([*arguments, "--weights", weights]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    package = load_v1(out)
    meta = package.meta
    assert (meta.pad, meta.bos, meta.eos, meta.unk) == (0, 1, 2, 3)
    assert (meta.weights, meta.name, meta.synthetic) == (weights, "p", False)
    assert package.shape == small(family).shape
    assert package.pieces == package.tokenizer.size == 32
    assert cli.run([*arguments, "--weights", weights]) == 2  # an older package stays
    assert "--force" in capsys.readouterr().err
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages[0].content }}\n")
    more = ["--force", "--chat-template", str(template)]
    assert cli.run([*arguments, "--weights", weights, *more]) == 0
    assert load_v1(out).meta.chat_template == "{{ messages[0].content }}" and meta.chat_template is None
    template.write_text("{{")
    capsys.readouterr()
    assert cli.run([*arguments, "--weights", weights, *more]) == 2
    assert "not a Jinja template" in capsys.readouterr().err and load_v1(out).meta.chat_template


def test_refusals_leave_nothing(tmp_path, checkpoint, tokenizer, capsys):
    def refuse(*parts, file=None, model=tokenizer, out=tmp_path / "p"):
        before = sorted(tmp_path.rglob("*"))
        assert cli.run(["import-v1", str(file or good), "--tokenizer", str(model), "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "Traceback" not in error
        for part in parts:
            assert str(part) in error, (part, error)
        assert sorted(tmp_path.rglob("*")) == before

    good = checkpoint(V1_194M)
    refuse("there is no checkpoint", file=tmp_path / "none.pt")
    refuse("tokenizer", "none.model", model=tmp_path / "none.model")
    refuse("not a SentencePiece model", model=good)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    refuse("not a package", out=tmp_path / "other")
    bad = checkpoint(V1_194M, change=lambda state: state.pop("blocks.0.ffn.up.weight"))
    refuse("blocks.0.ffn.up.weight is missing", file=bad)
    tiny = small(V1_194M, vocab=16)
    from tests.benches.model.v1_checkpoints import write

    few = write(tmp_path / "few.pt", tiny, model(3, vocab=16)[1])
    refuse("pieces", "16 vocabulary rows", file=few)


def test_without_torch(tmp_path, tokenizer, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    arguments = ["--tokenizer", str(tokenizer), "--out", str(tmp_path / "p")]
    assert cli.run(["import-v1", str(tmp_path / "c.pt"), *arguments]) == 2
    assert "symlight[torch]" in capsys.readouterr().err


# ---- names on the hub ------------------------------------------------------------------------------


class Hub(BaseHTTPRequestHandler):
    """The part of the hub's interface that a download uses; `server.files` by repository and path."""

    COMMIT = "0" * 40

    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def log_message(self, *_):
        pass

    def _answer(self, body):
        path = self.path.partition("?")[0].strip("/")
        self.server.asked.append(path)
        content, kind = self._content(path)
        self.send_response(404 if content is None else 200)
        if content is None:
            self.send_header("X-Error-Code", "EntryNotFound" if "/resolve/" in path else "RepoNotFound")
            content = b""
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", self.COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def _content(self, path):
        for (repository, name), content in self.server.files.items():
            if path in (f"{repository}/resolve/{revision}/{name}" for revision in ("main", self.COMMIT)):
                return content, "application/octet-stream"
        listed = [
            {"type": "file", "path": name, "size": len(content), "oid": "1234"}
            for (repository, name), content in self.server.files.items()
            if path == f"api/models/{repository}/tree/main"
        ]
        return (json.dumps(listed).encode() if listed else None), "application/json"


@pytest.fixture
def server():
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files, server.asked = {}, []
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def fetch(server, tmp_path, name, suffix=".pt"):
    port = server.server_address[1]
    return hub.local_file(name, suffix, endpoint=f"http://127.0.0.1:{port}", cache=tmp_path / "hub")


def test_a_path_asks_nobody(server, tmp_path):
    assert fetch(server, tmp_path, "some/file.pt") == Path("some/file.pt")
    assert server.asked == []


def test_files_of_the_hub(server, tmp_path):
    server.files = {("a/v1", "one.pt"): b"one" * 1000, ("a/v1", "sub/t.model"): b"t", ("b/v1", "x.pt"): b"x"}
    assert fetch(server, tmp_path, "hf:a/v1/one.pt").read_bytes() == b"one" * 1000
    assert fetch(server, tmp_path, "hf:a/v1/sub/t.model", ".model").read_bytes() == b"t"
    assert fetch(server, tmp_path, "hf:b/v1").read_bytes() == b"x"  # its only .pt file
    before = len(server.asked)
    fetch(server, tmp_path, "hf:a/v1/one.pt")
    assert not any("resolve" in path and path.endswith("x.pt") for path in server.asked[before:])


@pytest.mark.parametrize(
    "name, parts",
    [
        ("hf:a", ["not a name on the hub", "hf:OWNER/REPOSITORY/FILE.pt"]),
        ("hf:a//x.pt", ["not a name on the hub"]),
        ("hf:two/v1", ["2 .pt files", "hf:two/v1/a.pt, hf:two/v1/b.pt"]),
        ("hf:text/v1", ["has no .pt file"]),
        ("hf:two/v1/c.pt", ["hf:two/v1/c.pt cannot be fetched"]),
        ("hf:none/v1", ["hf:none/v1 cannot be fetched"]),
    ],
)
def test_refused_names(server, tmp_path, name, parts):
    server.files = {("two/v1", "a.pt"): b"a", ("two/v1", "b.pt"): b"b", ("text/v1", "README.md"): b"r"}
    with pytest.raises(UserError) as error:
        fetch(server, tmp_path, name)
    for part in parts:
        assert part in str(error.value), (part, str(error.value))


def test_no_server(server, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the library tries again, and waits between
    server.shutdown()
    server.server_close()
    with pytest.raises(UserError, match="cannot be fetched"):
        fetch(server, tmp_path, "hf:a/v1/one.pt")


def test_without_the_library(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"symlight\[hub\]"):
        hub.local_file("hf:a/b/c.pt", ".pt")
