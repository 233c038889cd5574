"""A server that answers W&B's process as its real one does, as far as an online run needs it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUCKET = {"id": "id", "config": "{}", "project": {"id": "p", "name": "toy", "entity": {"id": "e", "name": "user"}}}


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_PUT(self):
        self._body()
        self._answer({})

    def do_POST(self):
        body = self._body()
        self._answer(self._of_query(json.loads(body)) if self.path.endswith("graphql") else {"limits": {}})

    def _of_query(self, query):
        told = query.get("variables") or {}
        if "upsertBucket" in query["query"]:
            return {"data": {"upsertBucket": {"bucket": BUCKET | {"name": told["name"]}, "inserted": True}}}
        if "createRunFiles" in query["query"]:
            url = f"http://127.0.0.1:{self.server.server_port}/files/"
            files = [{"name": name, "uploadUrl": url + name} for name in told["files"]]
            return {"data": {"createRunFiles": {"runID": "id", "uploadHeaders": [], "files": files}}}
        viewer = {"id": "u", "entity": "user", "username": "user", "flags": "{}", "teams": {"edges": []}}
        return {"data": {"viewer": viewer} if "viewer" in query["query"] else {}}

    def _body(self):
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def _answer(self, data):
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve():
    """Start the server, and return its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
