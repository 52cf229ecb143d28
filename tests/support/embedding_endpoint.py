"""An endpoint of embeddings over real HTTP, whose vectors say nothing: no process of a test loads a model for them."""

import json
import threading
from contextlib import contextmanager

from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer, served

MODEL = "small"


def vector_of(text):
    """Not of unit length, and different for every text."""
    return [float(len(text)), 1.0, float(sum(map(ord, text)) % 97)]


class Handler(OpenAIRoutesHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.requests.append(request)
            self.server.keys.add(self.headers["authorization"])
            fault = self.server.faults.pop(0) if self.server.faults else None
        if fault:
            fault(self, "")
        elif self.path != "/v1/embeddings" or request["model"] != MODEL:
            self.reply_error(404, "model_not_found", f"the model {request['model']} does not exist")
        elif "" in request["input"]:
            self.reply_error(400, "bad_request", "empty input")
        else:
            vectors = enumerate(map(self.server.vector_of, request["input"]))
            data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in vectors]
            self.reply(200, {"object": "list", "model": MODEL, "data": data[::-1], "usage": {}})


@contextmanager
def embedding_server(*faults, vector_of=vector_of):
    """Answers in reverse order, each vector with its index."""
    server = OpenAIRoutesServer({})
    server.RequestHandlerClass = Handler
    server.requests, server.keys, server.faults, server.vector_of = [], set(), list(faults), vector_of
    server.lock = threading.Lock()
    with served(server):
        yield server


def options(server):
    """Options of a command that embeds there."""
    return ["--embedder", f"openai:{MODEL}", "--embedder-base-url", server.base_url]
