# SPDX-License-Identifier: Apache-2.0
"""A TCP relay between the services and the brokers, which cuts, delays or loses what passes.

It listens on a port for each broker, which that broker advertises to its clients (`broker start
--relay`), so that all connections of the services go through it, the ones that librdkafka learns from
metadata too; the brokers among themselves and the tests do not. Whose a connection is, it finds by
the connection's port in /proc."""

import asyncio
import glob
import os
import re
import socket
import struct
import threading
import time

PRODUCE, OFFSET_COMMIT, END_TXN, TXN_OFFSET_COMMIT = 0, 8, 26, 28
# What is asked of the brokers at the end of a batch, and before.
COMMITS = {"exactly-once": END_TXN, "at-least-once": OFFSET_COMMIT}
OFFSETS = {"exactly-once": TXN_OFFSET_COMMIT, "at-least-once": PRODUCE}
ABORTS = b"\0"  # the last byte of EndTxn in the version that librdkafka speaks: whether to commit


def owner_of(port, to, pids):
    """Which of these processes has the connection from one local port to another. Its own port alone
    does not say: one that is closed may linger with the same, to elsewhere."""
    inode, ends = None, f": 0100007F:{port:04X} 0100007F:{to:04X} "
    with open("/proc/net/tcp") as table:
        for line in table:
            if ends in line:
                inode = line.split()[9]
    for pid in pids if inode else ():
        for fd in glob.iglob(f"/proc/{pid}/fd/*"):
            try:
                if os.readlink(fd) == f"socket:[{inode}]":
                    return pid
            except OSError:
                continue  # it was closed meanwhile
    return None


class Link:
    """A connection of a service to a broker."""

    def __init__(self, broker, port, to, pids):
        self.broker, self.port, self.to, self.pids = broker, port, to, pids
        self.owner = None
        self.writers = []
        self.left, self.head = 0, b""  # of the request that is passing
        self.deaf = False  # answers are not handed on any more
        self.mute = False  # nor are requests

    @property
    def pid(self):
        """Looked for when it matters: a loaded machine takes its time over it, and whoever connects
        would wait, give up and try again, each time. The kernel's table may lack a line while others
        come and go, so who was not found is looked for again."""
        if self.owner is None:
            self.owner = owner_of(self.port, self.to, self.pids())
        return self.owner

    def requests(self, data):
        """The API keys of the requests that begin in this piece of the stream."""
        keys, at = [], 0
        while at < len(data):
            if self.left > 0:
                step = min(self.left, len(data) - at)
                self.left -= step
                at += step
                continue
            take = min(6 - len(self.head), len(data) - at)
            self.head += data[at : at + take]
            at += take
            if len(self.head) == 6:
                size, key = struct.unpack(">ih", self.head)
                keys.append(key)
                self.left, self.head = size - 2, b""
        return keys

    def close(self):
        for writer in self.writers:
            writer.transport.abort()


class Rule:
    """What happens to the links of a broker (None: all) and a process (None: all)."""

    def __init__(self, broker=None, pid=None, cut=False, delay_s=0.0):
        self.broker, self.pid, self.cut, self.delay_s = broker, pid, cut, delay_s
        self.met = False  # something that wanted to pass

    def meets(self, link):
        meets = self.broker in (None, link.broker) and (self.pid is None or self.pid == link.pid)
        self.met |= meets
        return meets


class Trap:
    """Waits for the next request of a kind (an EndTxn that commits) in which `having` (of bytes) is found, and loses its answer: what was asked is
    done all the same, unless the request is `lost` as well. `sprung(broker)` is called once it has passed."""

    def __init__(self, api_key, pid=None, sprung=None, lost=False, having=re.compile(b"")):
        self.api_key, self.pid, self.sprung, self.lost = api_key, pid, sprung, lost
        self.having, self.request, self.link = having, None, None
        self.done = threading.Event()  # with what it sprang on


class Relay:
    """Runs in a thread of its own. `pids()` names the processes that connections may belong to."""

    def __init__(self, ports, pids):
        self.ports, self.pids = ports, pids
        self.backends = {}  # broker: port
        self.rules, self.links, self.traps = [], set(), []
        self.sockets = [socket.create_server(("127.0.0.1", port)) for port in ports]
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.ready = threading.Event()
        self.thread.start()
        self.ready.wait()

    def run(self):
        asyncio.set_event_loop(self.loop)
        for broker, listener in enumerate(self.sockets, 1):
            serve = lambda reader, writer, broker=broker: self.serve(broker, reader, writer)
            self.loop.run_until_complete(asyncio.start_server(serve, sock=listener))
        self.ready.set()
        self.loop.run_forever()

    def stop(self):
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)

    async def end(self):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def is_cut(self, link):
        return any(rule.cut for rule in list(self.rules) if rule.meets(link))

    def delay_s(self, link):
        return sum(rule.delay_s for rule in list(self.rules) if rule.meets(link))

    async def serve(self, broker, reader, writer):
        port, to = (writer.get_extra_info(end)[1] for end in ("peername", "sockname"))
        link = Link(broker, port, to, self.pids)
        link.writers.append(writer)
        self.links.add(link)
        tasks = []
        try:
            while self.is_cut(link):
                await asyncio.sleep(0.02)
            answers, there = await asyncio.open_connection("127.0.0.1", self.backends[broker])
            link.writers.append(there)
            for end in (writer, there):
                end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tasks = [
                asyncio.create_task(self.pump(link, reader, there, True)),
                asyncio.create_task(self.pump(link, answers, writer, False)),
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # the broker is down
        finally:
            for task in tasks:
                task.cancel()
            link.close()
            self.links.discard(link)

    async def pump(self, link, reader, writer, is_request):
        try:
            while data := await reader.read(1 << 16):
                if delay_s := self.delay_s(link):
                    await asyncio.sleep(delay_s)
                while self.is_cut(link):
                    await asyncio.sleep(0.02)
                trap = self.spring(link, data) if is_request else None
                try:
                    if not (link.mute if is_request else link.deaf):
                        writer.write(data)
                        await writer.drain()
                    if trap is not None and trap.sprung is not None:
                        trap.sprung(link.broker)
                finally:
                    if trap is not None:
                        trap.done.set()
        except OSError:
            pass  # the other end has gone

    def spring(self, link, data):
        keys = link.requests(data)
        for trap in list(self.traps):
            if trap.api_key not in keys or (trap.api_key == END_TXN and data[-1:] == ABORTS):
                continue
            meant = trap.having.search(data) and (trap.pid is None or trap.pid == link.pid)
            if meant and self.take(trap):
                link.deaf, link.mute, trap.request, trap.link = True, trap.lost, data, link
                return trap
        return None

    def take(self, trap):
        """Whether it still lay in wait. It is taken once: by a request, or by who laid it."""
        try:
            self.traps.remove(trap)
            return True
        except ValueError:
            return False

    # Called from other threads.

    def add(self, rule):
        self.rules.append(rule)
        return rule

    def remove(self, rule, close):
        """Heals. `close`: the connections did not outlive it, and what was held up is lost."""
        if close:
            self.close([link for link in list(self.links) if rule.meets(link)])
            time.sleep(0.05)
        if rule in self.rules:  # another fault may have healed all
            self.rules.remove(rule)

    def close(self, links):
        for link in links:
            self.loop.call_soon_threadsafe(link.close)

    def disarm(self, trap):
        """Whether it had sprung: whose answer was lost then sees it, and asks again."""
        if self.take(trap):
            return False
        trap.done.wait(10)
        self.close([trap.link])
        return True

    def repeat(self, broker, request):
        """A copy that was under way for long arrives, on the connection that was given up meanwhile; its answer."""
        with socket.create_connection(("127.0.0.1", self.backends[broker]), 10) as late:
            late.sendall(request)
            return late.recv(4096)

    def heal(self):
        """Nothing is cut, slow, lost or lain in wait for any more."""
        self.rules.clear()
        self.traps.clear()
        self.close([link for link in list(self.links) if link.deaf])


def backends_of(text):
    """{broker: port} of DIR/relayed."""
    return {n: int(port) for n, port in enumerate(re.findall(r":(\d+)", text), 1)}
