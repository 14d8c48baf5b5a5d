"""pgweir in front of a PostgreSQL, in each pool mode, over each kind of connection: for tests with real clients."""
import os
import subprocess

from .live import NEVER
from .postgres import tool
from .until import DEADLINE

MODES = ("session", "transaction", "statement")
TRANSPORTS = ("tcp", "tls", "unix")


class PooledPostgres:
    def __init__(self, scene, postgres, authority, mode, transport, database="p0", **settings):
        self.mode = mode
        self.transport = transport
        self.database = database
        self.may_have_transactions = mode != "statement"
        self.may_have_sessions = mode == "session"
        if transport == "tls":
            settings.update(client_tls_sslmode="require", client_tls_cert_file=authority.cert("server"),
                            client_tls_key_file=authority.key("server"))
            self._ssl = {"sslmode": "verify-full", "sslrootcert": authority.cert("ca")}
        else:
            self._ssl = {"sslmode": "disable"}
        settings.setdefault("default_pool_size", 4)
        self.weir = scene.weir({database: postgres}, pool_mode=mode, auth_type="scram-sha-256",
                               server_idle_timeout=NEVER, **settings)

    @property
    def parameters(self):
        """Keyword arguments for psycopg.connect and psycopg2.connect."""
        host = {"tcp": "127.0.0.1", "tls": "localhost", "unix": self.weir.directory}[self.transport]
        return dict(host=host, port=self.weir.port, user="app", dbname=self.database, password="app-secret",
                    **self._ssl)

    @property
    def environment(self):
        """The same for programs that use libpq."""
        names = {"dbname": "PGDATABASE", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}
        return dict(os.environ, **{names.get(key, "PG" + key.upper()): str(value)
                                   for key, value in self.parameters.items()})

    def run(self, program, *arguments, stdin=None, check=True):
        """Runs a program of PostgreSQL's against pgweir: its result, with stdout and stderr as text."""
        return subprocess.run([tool(program), *arguments], env=self.environment, input=stdin, text=True, check=check,
                              capture_output=True, timeout=3 * DEADLINE)
