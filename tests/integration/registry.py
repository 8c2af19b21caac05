# SPDX-License-Identifier: Apache-2.0
"""A schema registry, as much of it as is asked for."""

import http.server
import json
import threading
import time

import contract

IDS = (7, 8)  # it knows FailedTask by these


class Registry(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.away = False
        self.delay_s = 0
        self.answers, self.asked = threading.Event(), threading.Event()
        self.answers.set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def hang(self):
        """Takes requests, and answers none until `answers` is set."""
        self.answers.clear()
        self.asked.clear()

    def close(self):
        self.answers.set()
        self.shutdown()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.set()
        self.server.answers.wait(120)
        time.sleep(self.server.delay_s)
        known = self.path.split("?")[0] in [f"/schemas/ids/{number}" for number in IDS]
        body = {"error_code": 40403, "message": "Schema not found"}
        if known:
            body = {"schema": json.dumps(contract.FAILED_TASK)}
        text = json.dumps(body).encode()
        try:
            self.send_response(503 if self.server.away else 200 if known else 404)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:
            pass  # whoever asked did not wait

    def log_message(self, *_):
        pass
