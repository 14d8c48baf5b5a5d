"""
The addresses by which pgweir finds the servers of a cluster (nodes.py), for scenes with failovers. Each kind has

- target(database, **more): the connect string of an entry of which clients write, and may read from standbys
- settings: of pgweir
- moves(): the scene has changed the role of a server, or a server is gone or back: the addresses follow

Listed       each server by its own address
Services     one address that leads to the primary, and one that leads to the standbys in turn, as the -rw and -ro services of an operator of
             Kubernetes. New connections follow the roles, and those that exist stay where they are.
Headless     one name with the addresses of all servers in random order. At each move it is drawn whether the name loses those that do not run, as a
             headless service loses pods that are not ready, or keeps them.
"""
from .nameserver import NameServer, write_resolv_conf
from .service import Service


class Listed:
    one_port = False

    def __init__(self, scene, nodes, draw):
        self.scene, self.nodes, self.draw = scene, nodes, draw
        self.settings = {}

    def target(self, database, **more):
        return self.nodes.target(database, **more)

    def moves(self):
        pass


class Services(Listed):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._writes = Service(self.scene, self.nodes.primary)
        self._reads = Service(self.scene, *self.nodes.standbys)

    def target(self, database, **more):
        """Writers have one address."""
        services = [self._writes, self._reads] if self._reads_standbys(**more) else [self._writes]
        return " ".join("%s=%s" % item for item in dict(
            host=",".join(service.host for service in services), port=",".join(str(service.port) for service in services), dbname=database, **more).items())

    @staticmethod
    def _reads_standbys(target_session_attrs, reads_on_primary="share", **_):
        return target_session_attrs != "primary" or reads_on_primary == "off"

    def moves(self):
        self._writes.leads_to(self.nodes.primary)
        self._reads.leads_to(*self.nodes.standbys)


class Headless(Listed):
    NAME = "bank.test"
    one_port = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._names = NameServer()
        self.scene.servers.append(self._names)
        self.settings = dict(resolv_conf=write_resolv_conf(self.scene.directory, self._names))
        self._name(self.nodes.nodes)

    def _name(self, nodes):
        self._names.set(self.NAME, a=self.draw.sample([node.host for node in nodes], len(nodes)), ttl=1)

    def target(self, database, **more):
        return " ".join("%s=%s" % item for item in dict(host=self.NAME, port=self.nodes.primary.port, dbname=database, **more).items())

    def moves(self):
        self._name(self.draw.choice((self.nodes.nodes, [self.nodes.primary, *self.nodes.standbys])))


KINDS = {"listed": Listed, "service": Services, "headless": Headless}
