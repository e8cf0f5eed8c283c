"""A fake server of a chat model."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Model:
    """Notes what it is sent; `reply(body)` returns a status and the words, or bytes to send as they are."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.reply: Callable[[dict[str, Any]], tuple[int, str | bytes]] = lambda _: (200, "red")
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.bodies.append(body)
                model.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, words = model.reply(body)
                said = {"choices": [{"message": {"content": words}}]}
                data = words if isinstance(words, bytes) else json.dumps(said).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header(
                        "location", f"http://127.0.0.1:{self.server.server_address[1]}/elsewhere"
                    )
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
