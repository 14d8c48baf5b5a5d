"""A real HAProxy in front of pgweir names its clients, in both versions of the PROXY protocol."""
import os
import shutil
import socket
import subprocess

import psycopg
import pytest

from support.live import NEVER
from support.ports import free_port
from support.until import until

HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"


@pytest.fixture(params=["send-proxy", "send-proxy-v2", "send-proxy-v2 check check-send-proxy"])
def through(request, scene, postgres, directory):
    """pgweir, and the port of an HAProxy in front of it, at 127.0.0.2."""
    rules = directory + "/hba.conf"
    with open(rules, "w", encoding="ascii") as f:
        f.write("host all all 127.0.0.1/32 trust\nhost all all all reject\n")
    weir = scene.weir({"p0": postgres}, listen_addr="127.0.0.1", proxy_protocol_networks="127.0.0.2", pool_mode="transaction",
                      auth_type="hba", auth_hba_file=rules, client_idle_timeout=NEVER)
    port = free_port()
    config = directory + "/haproxy.cfg"
    with open(config, "w", encoding="ascii") as f:
        f.write("defaults\n mode tcp\n timeout connect 10s\n timeout client 1m\n timeout server 1m\n"
                "frontend in\n bind 127.0.0.1:%d\n default_backend weir\n"
                "backend weir\n source 127.0.0.2\n server weir 127.0.0.1:%d %s\n" % (port, weir.port, request.param))
    with subprocess.Popen([HAPROXY, "-db", "-f", config]) as process:
        try:
            yield weir, port
        finally:
            process.terminate()


def connect(port, name):
    return psycopg.connect(host="127.0.0.1", port=port, user="app", dbname="p0", autocommit=True, application_name=name)


def test_haproxy_names_its_clients(through):
    weir, port = through

    def serves():
        try:
            connect(port, "probe").close()
            return True
        except psycopg.OperationalError:
            return False
    until(serves, "HAProxy serves")
    with connect(port, "here") as client:
        assert client.execute("SELECT 1").fetchone() == (1,)
        (row,) = [row for row in weir.show("CLIENTS") if row["application_name"] == "here"]
        assert row["addr"] == "127.0.0.1"
        with socket.socket(fileno=os.dup(client.pgconn.socket)) as mine:
            assert row["port"] == mine.getsockname()[1]
    weir.wait_log("proxy=127.0.0.2:")
    assert "invalid PROXY protocol header" not in weir.log()
