"""pg8000, a driver in pure Python. In variant cache each text is a named prepared statement."""
import io
import ssl

import pg8000.dbapi
import pg8000.native

from check import CACHE, DATABASE, HOST, PASSWORD, PORT, ROOT, TLS, USER, wait_for
from dbapi import Checks


def parameters():
    context = ssl.create_default_context(cafile=ROOT) if TLS else None
    return dict(user=USER, host=HOST, port=PORT, database=DATABASE, password=PASSWORD, ssl_context=context)


class Pg8000(Checks):
    def connect(self, autocommit=True):
        connection = pg8000.dbapi.connect(**parameters())
        connection.autocommit = autocommit
        return connection

    def copy_in(self, connection, lines):
        connection.cursor().execute("COPY drive FROM STDIN", stream=io.StringIO("".join(lines)))

    def copy_out(self, connection):
        out = io.StringIO()
        connection.cursor().execute("COPY (SELECT * FROM drive WHERE starts_with(t, 'copy') ORDER BY n) TO STDOUT", stream=out)
        return out.getvalue()

    def prepared(self):
        if not CACHE:
            super().prepared()
            return
        connection, rival = pg8000.native.Connection(**parameters()), self.connect()
        statements = [connection.prepare("SELECT :v::int + %d" % n) for n in range(10)]
        for turn in range(7):
            for n, statement in enumerate(statements):
                assert statement.run(v=turn) == [[turn + n]]
            self.swap(rival)
            assert statements[0].run(v=turn) == [[turn]]
            self.do(rival, "ROLLBACK")
        for statement in statements:
            statement.close()
        connection.close()
        rival.close()

    def listen(self):
        connection, other = self.connect(), self.connect()
        self.do(connection, "LISTEN weir")
        self.do(other, "NOTIFY weir, 'high'")
        wait_for(lambda: self.ask(connection, "SELECT 1") and connection.notifications)
        assert connection.notifications[0][2] == "high"
        connection.close()
        other.close()


Pg8000().run()
