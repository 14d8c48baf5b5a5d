"""
Django's ORM, with psycopg 3 or psycopg2 as the argument says. As it comes it uses cursors WITH HOLD for iterator(); for
poolers in transaction mode its manual asks for DISABLE_SERVER_SIDE_CURSORS.
"""
import sys

import django
from django.conf import settings
from django.db import IntegrityError, connection, connections, models, transaction as blocks

from check import (CACHE, DATABASE, HOST, LARGE, PASSWORD, PORT, ROOT, ROUNDS, RUNNING, SLEEP, TERMINATE, TLS, USER,
                   WORKERS, expect, in_threads, run, wait_for)

if sys.argv[1] == "psycopg2":
    # Django takes psycopg 3 where it finds it
    sys.modules["psycopg"] = None

OPTIONS = {"sslmode": "verify-full", "sslrootcert": ROOT} if TLS else {"sslmode": "disable"}
if CACHE and sys.argv[1] == "psycopg":
    OPTIONS.update(prepare_threshold=0, server_side_binding=True)

settings.configure(USE_TZ=True, DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "HOST": HOST, "PORT": PORT, "USER": USER, "PASSWORD": PASSWORD,
    "NAME": DATABASE, "OPTIONS": OPTIONS}})
django.setup()


class Drive(models.Model):
    n = models.IntegerField(primary_key=True)
    t = models.TextField()

    class Meta:
        app_label = "drive"
        db_table = "drive"
        managed = False


def ask(sql, values=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return tuple(cursor.fetchone())


def open():     # pylint: disable=redefined-builtin
    assert ask("SELECT current_user::text, current_database()::text") == (USER, DATABASE)


def types():
    assert ask("SELECT %s::int8, %s::text, %s::bool, %s::text", (2 ** 53 + 1, "häßlich, it's ☃", True, None)) == (
        2 ** 53 + 1, "häßlich, it's ☃", True, None)


def transaction():
    def given_up():
        with blocks.atomic():
            Drive.objects.create(n=1, t="transaction")
            raise KeyError("changed my mind")

    expect(None, given_up)
    with blocks.atomic():
        Drive.objects.create(n=2, t="transaction")
        try:
            with blocks.atomic():
                Drive.objects.create(n=3, t="transaction")
                Drive.objects.create(n=3, t="transaction")
        except IntegrityError:
            pass
    assert Drive.objects.filter(t="transaction").count() == 1


def error():
    Drive.objects.create(n=4, t="error")
    expect("23505", lambda: Drive.objects.create(n=4, t="error"))
    expect("42601", lambda: ask("SELEC 1"))
    assert ask("SELECT 1") == (1,)


def batch():
    Drive.objects.bulk_create([Drive(n=n, t="batch") for n in range(10000, 10200)], batch_size=50)
    assert Drive.objects.filter(t="batch").count() == 200


def cancel():
    asleep = connections.create_connection("default")
    asleep.ensure_connection()

    def sleep():
        with asleep.cursor() as cursor:
            cursor.execute(SLEEP)

    def work(number):
        if number == 0:
            expect("57014", sleep)
        else:
            wait_for(lambda: ask(RUNNING) == (1,))
            asleep.connection.cancel()
            connection.close()

    asleep.inc_thread_sharing()
    in_threads(2, work)
    asleep.close()


def large():
    text = "x" * LARGE
    assert ask("SELECT %s::text, length(%s::text)", (text, text)) == (text, LARGE)


def prepared():
    for turn in range(7):
        for n in range(10):
            assert Drive.objects.filter(n__lt=turn, t="prepared %d" % n).count() == 0


def in_a_transaction():
    """iterator() uses a server-side cursor; within a transaction the cursor remains at its server."""
    with blocks.atomic():
        assert sum(1 for _ in Drive.objects.filter(t="batch").iterator(chunk_size=10)) == 200


def iterator():
    """Without one its cursor is WITH HOLD, which is of the session; another client comes between its portions."""
    rival = connections.create_connection("default")
    rows = Drive.objects.filter(t="batch").iterator(chunk_size=10)
    next(rows)
    rival.set_autocommit(False)
    with rival.cursor() as cursor:
        cursor.execute("SELECT 1")
    try:
        assert sum(1 for _ in rows) == 199
    finally:
        rival.close()
        connection.close()


def no_server_side_cursors():
    connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = True
    iterator()


def reconnect():
    expect(None, lambda: ask(TERMINATE))
    connection.close_if_unusable_or_obsolete()
    connection.close()
    assert ask("SELECT 1") == (1,)


def workers():
    def work(number):
        try:
            for turn in range(ROUNDS):
                with blocks.atomic():
                    Drive.objects.create(n=100000 + number * ROUNDS + turn, t="workers")
        finally:
            connection.close()

    connection.close()
    in_threads(WORKERS, work)
    assert Drive.objects.filter(t="workers").count() == WORKERS * ROUNDS
    connection.close()


run([open, types, transaction, error, batch, cancel, large, prepared, in_a_transaction, iterator, no_server_side_cursors,
     reconnect, workers])
