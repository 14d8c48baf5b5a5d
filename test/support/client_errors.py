"""
The errors that clients get when the pooler or the server is disturbed, and a check whether these errors are allowed.

pgweir's own errors come from its table of close reasons. Errors of PostgreSQL, and the reports of drivers about a lost connection, are listed here.
Some drivers, and psycopg2 always, do not report the error that they received before the connection ended. Therefore only the Witness among the
clients (bank_clients.py) checks that each client receives an error. Everything else is a fault: above all "prepared statement does not exist", "lost
synchronization" or "connection refused".
"""
import re
import threading
from collections import Counter

from .close_reasons import close_reasons

TERMINATED = "terminating connection due to administrator command"
CANCELED = "canceling statement due to user request"
# while the server shuts down and starts, and its message to all clients after a backend was killed
SERVER_AWAY = ("the database system is (?:shutting down|starting up|in recovery mode|not yet accepting connections)",
               "terminating connection because of crash of another server process")

# Texts that drivers add, or report when the connection ends. The server's message follows the first group.
_BEFORE = re.compile(r"connection to server at \S+(?: \(\S+\))?, port \d+ failed: |[a-z ]+ failed: |error in pipeline mode: |"
                     r"(?:FATAL|ERROR):  |connection was closed in the middle of operation: ")
_ASIDE = re.compile(r"(?:DETAIL|HINT|CONTEXT|WARNING|LINE \d+): .*|\^?|This probably means the server terminated abnormally|"
                    r"before or while processing the request\.")
_LOST = re.compile(r"server closed the connection unexpectedly|SSL connection has been closed unexpectedly|"
                   r"SSL SYSCALL error: .*|could not (?:receive data from|send (?:data|SSL negotiation packet|startup packet) to) server: .*|"
                   r"(?:the )?connection (?:is |was |already |pointer is )?(?:closed|lost|NULL)(?: in the middle of operation)?|cursor already closed|"
                   r"cannot (?:call|perform) .*: (?:the underlying )?connection is closed|unexpected connection_lost\(\) call|\[Errno (?:104|32)\] .*|Connection reset by peer|"
                   r"no connection to the server|pipeline aborted|cannot exit pipeline mode while busy|discarding closed connection.*|"
                   # asyncpg, which was told why while it asked for nothing
                   r"cannot switch to state \d+; another operation \(2\) is in progress")


def close_reason_texts():
    """{id: regular expression} of include/tbl/close_reason.tbl."""
    return {row.name: re.escape(row.format.replace('\\"', '"')).replace("%s", ".*") for row in close_reasons()}


class ClientErrors:
    """
    allowed     names of close reasons, and regular expressions of other errors that any client may receive
    counts      the errors received, and how often
    """

    def __init__(self, *allowed):
        texts = close_reason_texts()
        self._allowed = [re.compile(texts.get(each, each)) for each in allowed]
        self._lock = threading.Lock()
        self.counts = Counter()
        self.undocumented = Counter()

    def note(self, bank_client, why, *more):
        """Records an exception of a driver. more: regular expressions of further errors that this client may get."""
        words = [word for word in map(self._word, str(why).splitlines()) if word]
        spoken = [word for word in words if not _LOST.fullmatch(word)]
        with self._lock:
            for word in spoken or ["(the connection ended)"]:
                self.counts[word] += 1
                if not (self._allowed if word not in spoken else self._may_be_said(word, more)):
                    self.undocumented["%s: %s (%s)" % (bank_client, word, type(why).__name__)] += 1

    @staticmethod
    def _word(line):
        line = line.strip()
        while _BEFORE.match(line):
            line = _BEFORE.sub("", line, count=1)
        return None if _ASIDE.fullmatch(line) else line

    def _may_be_said(self, word, more):
        return any(each.fullmatch(word) for each in self._allowed) or any(re.fullmatch(each, word) for each in more)
