"""A hub on the loopback: one model, with the routes that `huggingface_hub` asks for."""

import hashlib
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlparse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = "tiny/llama"
REVISIONS = ("main", "v1", COMMIT)


class Hub:
    """What the server answers with.

    Attributes:
        folder: whose files it has.
        model: its name.
        asked: the paths that it was asked for, without queries.
        refuses: a status and a code of an error, with which it answers everything; or None.
        breaks_off_after: so many bytes of a file it sends before it closes the connection; None: all.
        on_break: called then.
    """

    def __init__(self, folder, model=MODEL):
        self.folder = folder
        self.model = model
        self.asked = []
        self.refuses = None
        self.breaks_off_after = None
        self.on_break = lambda: None

    def answer(self, path):
        """Returns status, headers and content for a path."""
        self.asked.append(path)
        if self.refuses is not None:
            status, code = self.refuses
            return status, {"X-Error-Code": code, "X-Error-Message": code}, b"{}"
        files = {file.name: file.read_bytes() for file in self.folder.iterdir()}
        for revision in REVISIONS:
            if path == f"/api/models/{self.model}/revision/{revision}":
                siblings = [{"rfilename": name} for name in files]
                return 200, {}, json.dumps({"id": self.model, "sha": COMMIT, "siblings": siblings}).encode()
            if path == f"/api/models/{self.model}/tree/{revision}":
                tree = [file_entry(name, data) for name, data in files.items()]
                return 200, {}, json.dumps(tree).encode()
            name = path.removeprefix(f"/{self.model}/resolve/{revision}/")
            if name in files:
                etag = {"ETag": f'"{blob_id(files[name])}"', "X-Repo-Commit": COMMIT}
                return 200, etag, files[name]
        code = "RevisionNotFound" if path.startswith(f"/api/models/{self.model}") else "RepoNotFound"
        return 404, {"X-Error-Code": code}, b"{}"


def file_entry(name, data):
    """Returns what a listing says of a file."""
    return {"type": "file", "path": name, "size": len(data), "oid": blob_id(data)}


def blob_id(data):
    """Returns git's hash of a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def handler_of(hub):
    """Returns a class that answers requests as a hub says."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            status, headers, content = hub.answer(unquote(urlparse(self.path).path))
            self.send_response(status)
            for name, value in {"Content-Length": len(content), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command == "HEAD":
                return
            if hub.breaks_off_after is not None and "/resolve/" in self.path:
                self.wfile.write(content[: hub.breaks_off_after])
                self.close_connection = len(content) > hub.breaks_off_after
                if self.close_connection:
                    self.wfile.flush()
                    hub.on_break()
            else:
                self.wfile.write(content)

        do_HEAD = do_GET

    return Handler


@contextmanager
def serving(hub):
    """Yields the address of a server that answers as a hub says."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(hub))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def settings_of(address, home):
    """Returns the environment in which `huggingface_hub` asks an address and keeps a cache in a folder."""
    return {
        "HF_ENDPOINT": address,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "*",
    }


def forget_library(monkeypatch):
    """Lets the library be imported anew: it reads its environment then."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
        monkeypatch.delitem(sys.modules, name)
