"""A pool of psycopg whose workers write numbers until standard input ends: see ../test_pools.py."""
import itertools
import sys
import threading

import psycopg
from psycopg_pool import ConnectionPool

WORKERS = 6
numbers = itertools.count(1)
over = threading.Event()


def write(pool):
    while not over.is_set():
        number = next(numbers)
        try:
            with pool.connection() as connection:
                connection.execute("INSERT INTO numbers VALUES (%s, 0)", (number,))
            print("%d\n" % number, end="", flush=True)
        except psycopg.Error as why:
            print("error %s\n" % str(why).replace("\n", " "), end="", flush=True)


with ConnectionPool("", min_size=WORKERS, max_size=WORKERS, kwargs={"autocommit": True}) as pool:
    workers = [threading.Thread(target=write, args=(pool,)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    sys.stdin.read()
    over.set()
    for worker in workers:
        worker.join()
