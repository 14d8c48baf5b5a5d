"""psycopg2: the simple protocol, values in the text of the query. It prepares nothing."""
import io
import select

import psycopg2
import psycopg2.extras

from dbapi import Checks

psycopg2.extras.register_uuid()


class Psycopg2(Checks):
    def connect(self, autocommit=True):
        connection = psycopg2.connect("")
        connection.autocommit = autocommit
        return connection

    def cancel_from_outside(self, connection):
        connection.cancel()

    def copy_in(self, connection, lines):
        connection.cursor().copy_expert("COPY drive FROM STDIN", io.StringIO("".join(lines)))

    def copy_out(self, connection):
        out = io.StringIO()
        connection.cursor().copy_expert("COPY (SELECT * FROM drive WHERE starts_with(t, 'copy') ORDER BY n) TO STDOUT", out)
        return out.getvalue()

    def listen(self):
        connection, other = self.connect(), self.connect()
        self.do(connection, "LISTEN weir")
        self.do(other, "NOTIFY weir, 'high'")
        while not connection.notifies:
            select.select([connection], [], [])
            connection.poll()
        assert connection.notifies[0].payload == "high"
        connection.close()
        other.close()

    def cursor(self):
        """A cursor at the server, in a transaction."""
        connection = self.connect(autocommit=False)
        with connection.cursor(name="portions") as cursor:
            cursor.itersize = 10
            cursor.execute("SELECT generate_series(1, 1000)")
            assert sum(n for (n,) in cursor) == 500500
        connection.close()

    def held_cursor(self):
        """A cursor WITH HOLD outlives its transaction, but not the session."""
        connection, rival = self.connect(autocommit=False), self.connect()
        try:
            cursor = connection.cursor(name="held", withhold=True)
            cursor.itersize = 10
            cursor.execute("SELECT generate_series(1, 1000)")
            connection.commit()
            self.swap(rival)
            assert sum(n for (n,) in cursor) == 500500
        finally:
            rival.close()
            connection.close()

    def more(self):
        return [self.cursor, self.held_cursor]


Psycopg2().run()
