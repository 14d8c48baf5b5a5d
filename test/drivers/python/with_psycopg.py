"""psycopg 3: the extended protocol; it prepares queries after five executions, in variant cache at once. Pipelines."""
import psycopg

from check import CACHE, expect
from dbapi import Checks


class Psycopg(Checks):
    def connect(self, autocommit=True):
        options = {"prepare_threshold": 0} if CACHE else {}
        connection = psycopg.connect("", autocommit=autocommit, **options)
        if CACHE:
            connection.prepared_max = 5     # so that statements are given up, too
        return connection

    def cancel_from_outside(self, connection):
        connection.cancel_safe()

    def copy_in(self, connection, lines):
        with connection.cursor().copy("COPY drive FROM STDIN") as copy:
            for line in lines:
                copy.write(line)

    def copy_out(self, connection):
        with connection.cursor().copy("COPY (SELECT * FROM drive WHERE starts_with(t, 'copy') ORDER BY n) TO STDOUT") as copy:
            return b"".join(bytes(block) for block in copy).decode()

    def listen(self):
        connection, other = self.connect(), self.connect()
        connection.execute("LISTEN weir")
        other.execute("NOTIFY weir, 'high'")
        for notify in connection.notifies():
            assert notify.payload == "high"
            break
        connection.close()
        other.close()

    def pipeline(self):
        with self.connect(autocommit=False) as connection:
            with connection.pipeline():
                for n in range(40000, 40100):
                    connection.execute("INSERT INTO drive VALUES (%s, 'pipeline')", (n,))
                results = [connection.execute("SELECT %s::int", (n,)) for n in range(100)]
            assert [result.fetchone() for result in results] == [(n,) for n in range(100)]
            assert self.ask(connection, "SELECT count(*) FROM drive WHERE t = 'pipeline'") == (100,)
            connection.rollback()

    def pipeline_error(self):
        """Statements after an error are skipped up to the next synchronisation, not further."""
        with self.connect() as connection:
            with connection.pipeline() as pipeline:
                before = connection.execute("SELECT 1")
                pipeline.sync()
                wrong = connection.cursor()
                expect("22012", lambda: (wrong.execute("SELECT 1 / %s::int", (0,)), wrong.fetchone()))
                pipeline.sync()
                after = connection.execute("SELECT 2")
                assert (before.fetchone(), after.fetchone()) == ((1,), (2,))

    def cursor(self):
        """A cursor at the server, in a transaction."""
        with self.connect(autocommit=False) as connection, connection.cursor(name="portions") as cursor:
            cursor.itersize = 10
            cursor.execute("SELECT generate_series(1, 1000)")
            assert sum(n for (n,) in cursor) == 500500

    def stream(self):
        """Rows one by one, as they come."""
        with self.connect() as connection, connection.cursor() as cursor:
            assert sum(n for (n,) in cursor.stream("SELECT generate_series(1, %s::int)", (1000,))) == 500500

    def more(self):
        return [self.pipeline, self.pipeline_error, self.cursor, self.stream]


Psycopg().run()
