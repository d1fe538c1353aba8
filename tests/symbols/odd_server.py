"""A server on loopback that does what servers should not, and the ways in which it does."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Behaviour = Callable[[BaseHTTPRequestHandler], None]


class Quiet(ThreadingHTTPServer):
    """A client that goes away is nothing to print of."""

    def handle_error(self, *_: object) -> None:
        pass


class Server:
    """A server on loopback that does as it is told, and notes what it was asked."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.behaviours = list(behaviours)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                index = min(len(outer.asked), len(outer.behaviours)) - 1
                try:
                    outer.behaviours[index](self)
                except OSError:
                    # The client had enough.
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self, context: ssl.SSLContext | None = None) -> Iterator[Server]:
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.url = self.url.replace("http", "https")
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(5)


def sends(data: bytes, status: int = 200, length: int | None = None, **headers: str) -> Behaviour:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if length != -1:
            handler.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return behave


def redirects(target: str, status: int = 302) -> Behaviour:
    return sends(b"", status, Location=target)


def resets(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def drips_header(handler: BaseHTTPRequestHandler) -> None:
    for _ in range(200):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def drips_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(1 << 20))
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b"x")
        time.sleep(0.05)


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 16))


def chunked(*chunks: bytes) -> Behaviour:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for chunk in chunks:
            handler.wfile.write(chunk)
        handler.close_connection = True

    return behave


def one_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
