# SPDX-License-Identifier: Apache-2.0
"""A way to PostgreSQL on which the answer to a statement can be lost: what was asked for is done all the same."""

import contextlib
import socket
import threading
import urllib.parse


class Lossy:
    def __init__(self, dsn):
        url = urllib.parse.urlsplit(dsn)
        self.server = (url.hostname, url.port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        port = self.listener.getsockname()[1]
        self.dsn = url._replace(netloc=url.netloc.rsplit(":", 1)[0] + f":{port}").geturl()
        self.statement, self.lost = None, threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def lose_answer_to(self, statement):
        """To the next one that has this text."""
        self.lost.clear()
        self.statement = statement.encode()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(self.server)
                doomed = threading.Event()
                for ends in ((client, server, self.forth), (server, client, self.back)):
                    threading.Thread(target=self.carry, args=(*ends, doomed), daemon=True).start()

    def carry(self, source, sink, look, doomed):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if look(data, doomed):
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def forth(self, data, doomed):
        if self.statement and self.statement in data:
            self.statement = None
            doomed.set()
        return False

    def back(self, _, doomed):
        if doomed.is_set():
            self.lost.set()
        return doomed.is_set()

    def close(self):
        self.listener.close()
