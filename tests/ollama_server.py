"""A scriptable stand-in for an Ollama server: tests need no model and no network.

    with OllamaServer(answers=["TASK: ...", {"status": 500, "error": "boom"}]) as server:
        run_cli(env={"OLLAMA_HOST": server.url})
    assert len(server.chats) == 2

Replies and error texts follow server/routes.go of ollama/ollama. The answers are one answer, a list of them (the last
one repeats) or a callable(body, number), with numbers from 0. An answer is a str (the content of the message), None
(a made-up task), or a dict with any of these keys:

    content, thinking, done_reason   the parts of a normal reply
    status, error                    an HTTP status (500 when only error is given) and its text
    raw                              bytes sent as the body, with status 200 unless given
    headers                          extra response headers, such as Retry-After
    delay                            seconds before replying, instead of server.delay
    cut                              True: promise the whole body, send half of it, hang up
    drop                             True: hang up without a reply
"""

import hashlib
import json
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WHEN = "2025-10-03T14:12:05.123456789Z"  # Go prints nanoseconds

# The lengths (9, 10, 11 and 13) share no factor, so stepping through all the lines at once gives 12870 different tasks,
# and neighbours have no word in common.
WORDS = (
    "guide quiz summary timeline glossary letter memo proposal dialogue",
    "tides bread chess glaciers fonts compost ferries vaccines pottery batteries",
    "nurses teens farmers pilots tourists bakers parents drummers cashiers divers judges",
    "oslo lima cairo hanoi quito perth turin dakar osaka minsk accra leeds sofia",
)


def default_answer(number):
    words = [words[number % len(words)] for words in map(str.split, WORDS)]
    form, topic, reader, place = words
    about = f"a {form} about {topic} for {reader} in {place.title()}"
    return f"TASK: Write {about} and save it as eval-{'-'.join(words)}.md"


def full_name(name):
    """Ollama knows "x" as "x:latest". A registry's port, before a slash, is no tag."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def describe(model):
    """A model's entry in /api/tags. No capabilities (None): a server before 0.6.4."""
    given = model if isinstance(model, dict) else {"name": model}
    name = full_name(given["name"])
    details = {"format": "gguf", "family": "llama", "parameter_size": "3.2B", "quantization_level": "Q4_K_M"}
    return {
        "modified_at": WHEN,
        "size": 2019393189,
        "digest": hashlib.sha256(name.encode()).hexdigest(),
        "details": details | {"parent_model": "", "families": ["llama"]},
        "capabilities": ["completion", "tools"],
        **given,
        "name": name,
        "model": name,
    }


class Refusal(Exception):
    """The server turns a request down: a status and the text of the error."""


class OllamaServer(ThreadingHTTPServer):
    request_queue_size = 1024  # many clients may connect at once
    block_on_close = False

    def __init__(
        self, models=("llama3.2",), answers=None, delay=0.0, slots=4, version="0.12.0", prefix="", host="127.0.0.1", key=None, port=0
    ):
        self.models = [describe(model) for model in models]
        self.answers = answers
        self.delay = delay
        self.slots = threading.Semaphore(slots)
        self.version = version
        self.key = key
        self.prefix = f"/{prefix.strip('/')}".rstrip("/")
        self.requests = []
        self._answered = 0
        self._connections = set()
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)
        self.port = self.server_address[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}{self.prefix}"
        # A short poll, because stop() has to wait for the loop to notice it.
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Go down like a killed server: the port refuses and the open connections break."""
        self.shutdown()
        self.server_close()
        with self._lock:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the client hung up first
                    pass

    @property
    def chats(self):
        path = f"{self.prefix}/api/chat"
        return [r["body"] for r in list(self.requests) if r["path"] == path]

    def find(self, name):
        if not name:
            raise Refusal(400, "model is required")
        for model in self.models:
            if model["name"].lower() == full_name(name).lower():
                return model
        raise Refusal(404, f"model '{name}' not found")

    def next_answer(self, body):
        with self._lock:
            number, self._answered = self._answered, self._answered + 1
        answer = self.answers
        if callable(answer):
            answer = answer(body, number)
        elif isinstance(answer, (list, tuple)):
            answer = answer[min(number, len(answer) - 1)]
        if answer is None:
            answer = default_answer(number)
        return {"content": answer} if isinstance(answer, str) else answer

    def server_bind(self):
        # HTTPServer would look up the host's name: seconds when there is no network.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request, client_address):
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        # Broken connections are part of the game; a mistake in a test's answers is not.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a reply may wait 40 ms for an ACK
    wbufsize = -1  # headers and body leave in one packet

    def log_message(self, *_):
        pass

    def handle_request(self):
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = {"method": self.command, "path": self.path, "headers": headers, "body": body}
        self.server.requests.append({**request, "at": time.monotonic()})
        try:
            if self.server.key and headers.get("authorization") != f"Bearer {self.server.key}":
                raise Refusal(401, "unauthorized")
            self.route(data, body)
        except Refusal as refusal:
            self.send_json({"error": refusal.args[1]}, refusal.args[0])

    do_GET = do_HEAD = do_POST = handle_request

    def route(self, data, body):
        reading = self.command != "POST"
        match self.path.removeprefix(self.server.prefix) or "/":
            case path if self.path == path and self.server.prefix:
                self.send(404, b"404 page not found", "text/plain")
            case "/" if reading:
                self.send(200, b"Ollama is running", "text/plain; charset=utf-8")
            case "/api/version" if reading:
                self.send_json({"version": self.server.version})
            case "/api/tags" if reading:
                # Servers before 0.30 tell the capabilities in /api/show only.
                new = [int(part) for part in self.server.version.split(".")[:2]] >= [0, 30]
                models = [{k: m[k] for k in m if new or k != "capabilities"} for m in self.server.models]
                self.send_json({"models": models})
            case "/api/show" | "/api/chat" as path if not reading:
                if not isinstance(body, dict):
                    raise Refusal(400, "invalid character in request body" if data else "missing request body")
                (self.show if path == "/api/show" else self.chat)(body)
            case "/v1/chat/completions" if not reading:
                self.complete(body)
            case _:
                self.send(404, b"404 page not found", "text/plain")

    def show(self, body):
        model = self.server.find(body.get("model") or body.get("name"))
        shown = ("details", "capabilities", "modified_at")
        reply = {key: model[key] for key in shown if model[key] is not None}
        # The client refuses a reply without model_info.
        self.send_json(reply | {"template": "", "model_info": {"general.architecture": "llama"}})

    def chat(self, body):
        name = body.get("model")
        capabilities = self.server.find(name)["capabilities"]
        if capabilities is not None:
            if body.get("think") and "thinking" not in capabilities:
                raise Refusal(400, f'"{name}" does not support thinking')
            if "completion" not in capabilities:
                raise Refusal(400, f'"{name}" does not support chat')
        if not body.get("messages"):  # a way to load the model, which takes no answer
            return self.send_json(self.message(body, done_reason="load"))
        answer = self.server.next_answer(body)
        with self.server.slots:
            if self.hung_up(answer.get("delay", self.server.delay)) or answer.get("drop"):
                self.close_connection = True
            else:
                self.reply(body, answer)

    def complete(self, body):
        """What OpenAI's client asks for. num_ctx can't be set here, and `chats` does not list it."""
        self.server.find(body["model"])
        message = {"role": "assistant", "content": self.server.next_answer(body)["content"]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 26, "completion_tokens": 42, "total_tokens": 68}
        reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1759500725, "model": body["model"]}
        self.send_json(reply | {"choices": [choice], "usage": usage})

    def hung_up(self, seconds):
        """Think for so long, unless the client gives up or stop() breaks the connection."""
        self.connection.settimeout(seconds)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except (TimeoutError, BlockingIOError):
            return False
        finally:
            self.connection.settimeout(None)

    def reply(self, body, answer):
        status = answer.get("status", 500 if "error" in answer else 200)
        extra = {"headers": answer.get("headers", {}), "cut": answer.get("cut", False)}
        if "raw" in answer:
            self.send(status, answer["raw"], **extra)
        elif "error" in answer or status != 200:
            self.send_json({"error": answer.get("error", "scripted failure")}, status, **extra)
        elif body.get("stream") is False:
            self.send_json(self.message(body, **answer), **extra)
        else:  # Ollama streams unless told not to
            parts = [{"thinking": answer["thinking"]}] if answer.get("thinking") else []
            parts += [{"content": part} for part in answer.get("content", "").splitlines(True)]
            lines = [self.message(body, **part, done_reason=None) for part in parts]
            lines.append(self.message(body, done_reason=answer.get("done_reason", "stop")))
            data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            self.send(200, data, "application/x-ndjson", **extra)

    def message(self, body, content="", thinking="", done_reason="stop", **_):
        message = {"role": "assistant", "content": content} | ({"thinking": thinking} if thinking else {})
        reply = {"model": body["model"], "created_at": WHEN, "message": message, "done": False}
        if done_reason:
            reply |= {"done": True, "done_reason": done_reason}
        if done_reason not in (None, "load"):
            reply |= {"total_duration": 4883583458, "load_duration": 1334875, "prompt_eval_count": 26}
            reply |= {"prompt_eval_duration": 342546000, "eval_count": 42, "eval_duration": 4535599000}
        return reply

    def send_json(self, value, status=200, **extra):
        self.send(status, json.dumps(value, ensure_ascii=False).encode(), **extra)

    def send(self, status, data, kind="application/json; charset=utf-8", headers=(), cut=False):
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": len(data), **dict(headers)}
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = self.close_connection or cut
