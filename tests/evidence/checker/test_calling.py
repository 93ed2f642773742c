"""Engines as `check_engine` calls them: rows of a batch, and an endpoint with token ids."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from engines import PLAIN, check, engine_of

from minispec import completions_engine, in_batches


def test_rows_of_a_batch_are_texts_of_their_own():
    """Each row is handed out once; a batch is drawn where none is left, with the seed of that call."""
    calls = []

    def draw(prompt, n, seed, rows):
        calls.append((prompt, n, seed))
        return [[seed, row] for row in range(rows)]

    generate = in_batches(draw, 2)
    assert sorted(generate([7], 2, seed) for seed in (1, 2, 3)) == [[1, 0], [1, 1], [3, 1]]
    assert generate([8], 2, 4) == [4, 1] and calls == [([7], 2, 1), ([7], 2, 3), ([8], 2, 4)]


def test_rows_that_are_alike_are_found():
    """All rows of a batch get the same text: each alone is right, together they are not independent."""
    engine = engine_of(PLAIN, rows=1)
    alike = in_batches(lambda prompt, n, seed, rows: [engine(prompt, n, seed)] * rows, 64)
    assert not check(PLAIN, alike, samples=2048).passed


@contextmanager
def endpoint(answer):
    """A server that answers requests for completions: their body -> a choice. Yields its address."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, body))
            content = json.dumps({"choices": [answer(body)]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_shipped_loop_at_an_endpoint_passes():
    """300 texts over HTTP. A false alarm once in 10^6 runs; this only shows that ids go there and back."""
    engine = engine_of(PLAIN)

    def answer(body):
        ids = engine(body["prompt"], body["max_tokens"], body["seed"])
        return {"text": "", "token_ids": list(ids)}

    with endpoint(answer) as (url, asked):
        report = check(PLAIN, completions_engine(url, "ours", temperature=0.5, ignore_eos=True), samples=300)
    assert report.passed and report.samples == 300 == len(asked)
    path, body = asked[4]
    assert path == "/v1/completions" and tuple(body.pop("prompt")) in PLAIN.prompts
    assert body == {
        "model": "ours",
        "max_tokens": 3,
        "seed": 4,
        "return_token_ids": True,
        "temperature": 0.5,
        "top_p": 1.0,
        "top_k": -1,
        "ignore_eos": True,
    }


def test_an_endpoint_without_ids_or_without_an_answer_is_one_line():
    with (
        endpoint(lambda body: {"text": "a"}) as (url, _),
        pytest.raises(ValueError, match="returns no token_ids"),
    ):
        completions_engine(url, "ours")([0], 1, 0)
    with pytest.raises(OSError, match="refused"):
        completions_engine(url, "ours", timeout=5)([0], 1, 0)
