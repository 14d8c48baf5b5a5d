"""
The address of a service: a port that leads each new connection to one of several servers, as a balancer in front of them does. Connections that exist stay
where they are.

    service = Service(scene, nodes.primary)
    service.leads_to(nodes.standbys[0], nodes.standbys[1])      # in turn
"""
import contextlib
import itertools
import socket
import threading


class Service:
    def __init__(self, scene, *servers):
        """servers: objects with `host` and `port`."""
        self.leads_to(*servers)
        self._sockets = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        scene.servers.append(self)

    def leads_to(self, *servers):
        self._next = itertools.cycle(servers)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self._lead(self._listener.accept()[0])

    def _lead(self, client):
        server = next(self._next, None)
        try:
            if not server:
                raise ConnectionRefusedError
            there = socket.create_connection((server.host, server.port))
        except OSError:
            client.close()
            return
        self._sockets |= {client, there}
        self._threads.append(threading.Thread(target=self._join, args=(client, there)))
        self._threads[-1].start()

    def _join(self, client, there):
        back = threading.Thread(target=self._pass, args=(there, client))
        back.start()
        self._pass(client, there)
        back.join()
        self._sockets -= {client, there}
        client.close()
        there.close()

    @staticmethod
    def _pass(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            Service._end(end)

    @staticmethod
    def _end(end):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

    def stop(self):
        """Its connections end, too."""
        self._end(self._listener)
        self._threads[0].join()
        for end in list(self._sockets):
            self._end(end)
        for thread in self._threads:
            thread.join()
        self._listener.close()
