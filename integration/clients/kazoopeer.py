"""A program on kazoo that does what it is told, line by line.

request   {"id": 1, "do": "create", "with": {...}}
reply     {"id": 1, "value": ...}  |  {"id": 1, "error": "NoNodeError", "message": "..."}
event     {"event": "state", "value": ...}

Requests run at the same time, each on a thread of its own. It ends with its input.
"""
import json
import logging
import os
import sys
import threading

from kazoo.client import KazooClient
from kazoo.recipe.barrier import Barrier
from kazoo.recipe.lock import Lock
from kazoo.security import make_acl, make_digest_acl

logging.basicConfig(level=logging.WARNING)
printing = threading.Lock()
objects = {}
client = None


class CuratorLock(Lock):
    """Kazoo's lock with the node names of Curator's."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


def say(**what):
    with printing:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def stat(s):
    return {"version": s.version, "children": s.numChildren, "owner": s.ephemeralOwner}


def connect(hosts, timeout):
    global client
    client = KazooClient(hosts=hosts, timeout=timeout)
    client.add_listener(lambda state: say(event="state", value=str(state)))
    client.start(timeout=30)
    return str(client.client_id[0])


def watcher(name):
    return lambda event: say(event=name, value=[event.type, event.path])


def transaction(operations):
    t = client.transaction()
    for kind, path, argument in operations:
        if kind == "create":
            t.create(path, argument.encode())
        elif kind == "delete":
            t.delete(path, argument)
        elif kind == "set":
            t.set_data(path, argument.encode())
        else:
            t.check(path, argument)
    return [
        r if isinstance(r, (str, bool)) else stat(r) if hasattr(r, "version") else type(r).__name__
        for r in t.commit()
    ]


def get(path, watch=None):
    data, s = client.get(path, watch=watcher(watch) if watch else None)
    return [data.decode(), stat(s)]


def exists(path, watch=None):
    s = client.exists(path, watch=watcher(watch) if watch else None)
    return s and stat(s)


def data_watch(path, name):
    client.DataWatch(
        path, lambda data, s, event: say(event=name, value=None if data is None else data.decode())
    )


def children_watch(path, name):
    client.ChildrenWatch(path, lambda children: say(event=name, value=sorted(children)))


def lock(name, path, layout="kazoo", patterns=()):
    kind = CuratorLock if layout == "curator" else Lock
    objects[name] = kind(client, path, name, extra_lock_patterns=patterns)


def acquire(name, timeout=None):
    objects[name].acquire(timeout=timeout)
    return getattr(objects[name], "node", None)


def election(name, path):
    """Runs until told to resign; each term is an event."""
    objects[name] = threading.Event()

    def lead():
        say(event="leads", value=name)
        objects[name].wait()

    client.Election(path, name).run(lead)


commands = {
    "connect": connect,
    "session": lambda: str(client.client_id[0]),
    "close": lambda: (client.stop(), client.close()) and None,
    "auth": lambda user, password: client.add_auth("digest", user + ":" + password),
    "create": lambda path, data="", **how: client.create(path, data.encode(), **how),
    "private": lambda path, user, password: client.create(
        path, b"", acl=[make_digest_acl(user, password, all=True), make_acl("world", "anyone", read=True)]
    ),
    "acl": lambda path: [[a.perms, a.id.scheme, a.id.id] for a in client.get_acls(path)[0]],
    "get": get,
    "set": lambda path, data, version=-1: stat(client.set(path, data.encode(), version)),
    "delete": lambda path, version=-1, recursive=False: client.delete(path, version, recursive),
    "exists": exists,
    "children": lambda path: sorted(client.get_children(path)),
    "ensure": lambda path: client.ensure_path(path),
    "sync": lambda path: client.sync(path),
    "transaction": transaction,
    "version": lambda: list(client.server_version()),
    "dataWatch": data_watch,
    "childrenWatch": children_watch,
    "lock": lock,
    "readLock": lambda name, path: objects.update({name: client.ReadLock(path, name)}),
    "writeLock": lambda name, path: objects.update({name: client.WriteLock(path, name)}),
    "semaphore": lambda name, path, leases: objects.update({name: client.Semaphore(path, name, leases)}),
    "acquire": acquire,
    "release": lambda name: objects[name].release(),
    "contenders": lambda name: objects[name].contenders(),
    "election": election,
    "resign": lambda name: objects[name].set(),
    "barrier": lambda name, path: objects.update({name: Barrier(client, path)}),
    "barrierCreate": lambda name: objects[name].create(),
    "barrierRemove": lambda name: objects[name].remove(),
    "barrierWait": lambda name, timeout=None: objects[name].wait(timeout),
    "counter": lambda path, by: (lambda c: (c.__add__(by), c.value)[1])(client.Counter(path)),
}


def run(request):
    try:
        say(id=request["id"], value=commands[request["do"]](**(request.get("with") or {})))
    except Exception as e:
        say(id=request["id"], error=type(e).__name__, message=str(e))


def main():
    for line in sys.stdin:
        threading.Thread(target=run, args=(json.loads(line),), daemon=True).start()
    os._exit(0)


main()
