# SPDX-License-Identifier: Apache-2.0
"""Three brokers behind a relay, and a PostgreSQL, one to be broken as the other."""

import os
import pathlib
import re
import signal
import socket
import struct
import time

import servers
from confluent_kafka.admin import AdminClient
from relay import backends_of


class Cluster(servers.Kafka):
    def __init__(self, folder, relay):
        self.folder, self.relay = folder, relay
        servers.run_script(
            self.SCRIPT, "start", "--dir", folder, "--owner", os.getpid(), "--brokers", 3,
            "--heap", "320m", "--brief", "--relay", ",".join(map(str, relay.ports)),
        )  # fmt: skip
        self.bootstrap = (folder / "bootstrap").read_text().strip()
        relay.backends = backends_of((folder / "relayed").read_text())
        self.relayed = ",".join(f"127.0.0.1:{port}" for port in relay.ports)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def stop_broker(self, n, kill):
        servers.run_script(
            self.SCRIPT, "stop", "--dir", self.folder, "--broker", n, *["--kill"] * kill
        )

    def kill_broker(self, n, after_s):
        """At a moment that counts, of which the script would make tens of milliseconds."""
        time.sleep(after_s)
        os.kill(int((self.folder / str(n) / "pid").read_text().split()[0]), signal.SIGKILL)
        self.stop_broker(n, kill=True)

    def start_broker(self, n):
        """On a loaded machine it may take longer than the script waits."""
        for last in (False, False, True):
            try:
                return servers.run_script(self.SCRIPT, "start", "--dir", self.folder, "--broker", n)
            except RuntimeError:
                if last:
                    raise

    def controller(self):
        """The leader of the metadata's quorum. The client does not tell, so DescribeQuorum is asked
        by hand: a flexible header and body, version 0."""
        for address in self.bootstrap.split(","):
            host, port = address.split(":")
            try:
                with socket.create_connection((host, int(port)), 2) as s:
                    name = b"__cluster_metadata"
                    body = bytes([2, len(name) + 1]) + name + b"\x02" + bytes(4) + b"\0\0\0"
                    request = struct.pack(">hhih", 55, 0, 1, -1) + b"\0" + body
                    s.sendall(struct.pack(">i", len(request)) + request)
                    answer = s.recv(4096)
            except OSError:
                continue
            at = answer.find(name) + len(name) + 1  # behind the count of partitions
            index, error, leader = struct.unpack_from(">ihi", answer, at)
            if error == 0 and index == 0 and leader in (1, 2, 3):
                return leader
        return None

    def coordinator(self, internal_topic, name):
        """The broker that leads the partition where this group or transactional id is kept."""
        partitions = self.admin.list_topics(internal_topic, timeout=10).topics[internal_topic].partitions
        leader = partitions[partition_for(name, len(partitions))].leader if partitions else None
        return leader if leader in (1, 2, 3) else None


def partition_for(name, partitions):
    """As the brokers have it: Utils.abs(name.hashCode()) % partitions, of Java's 32 bits with a sign."""
    hashed = 0
    for byte in name.encode():
        hashed = (31 * hashed + byte) & 0xFFFFFFFF
    least = 1 << 31  # has no absolute value of 32 bits: 0
    return (0 if hashed == least else hashed if hashed < least else 2 * least - hashed) % partitions


class Postgres(servers.Postgres):
    CONNECTIONS = 30

    def __init__(self, folder):
        super().__init__(folder, [f"max_connections={self.CONNECTIONS}"])

    def kill(self):
        """The first of its processes alone; the others end once they notice."""
        pid = (self.folder / "data/postmaster.pid").read_text().split()[0]
        os.kill(int(pid), signal.SIGKILL)

    def start(self):
        """After `kill` it is refused until the dead one is reaped and the others have ended."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return super().start()
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def library_of_faketime():
    """Where libfaketime is, or None."""
    found = [*pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    return found[0] if found else None


def transactional_id(service):
    """Of the service's first worker, as its log names it."""
    text = service.log.read_text(errors="replace")
    found = re.findall(r" started .*instance=(\S+)", text)
    return found[-1] if found else None
