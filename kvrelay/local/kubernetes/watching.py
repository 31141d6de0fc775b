"""Keeps a copy of all objects of one kind, as informers do, and says what changes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import urllib3

from kvrelay.local.kubernetes.api import Api, ApiError, Object

Changed = Callable[[Object, bool], None]
"""Called with the object and whether it is gone."""


class Watch:
    """Lists, then follows changes, in a thread of its own, until `stop`."""

    def __init__(self, api: Api, api_version: str, kind: str, changed: Changed) -> None:
        self.items: dict[str, Object] = {}
        """By uid. Replaced, never changed in place."""
        self._api = api
        self._path = api.path(api_version, kind)
        self._changed = changed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"watch-{kind}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The thread ends at its next event or when the server goes."""
        self._stopped.set()

    def _follow(self) -> None:
        version = ""
        while not self._stopped.is_set():
            try:
                if not version:
                    version = self._list()
                for kind, item in self._api.watch(self._path, resource_version=version):
                    if self._stopped.is_set():
                        return
                    if kind == "ERROR":
                        version = ""
                        break
                    version = item["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        self._keep(item, gone=kind == "DELETED")
            except (ApiError, urllib3.exceptions.HTTPError, OSError):
                version = ""
                self._stopped.wait(0.5)

    def _list(self) -> str:
        answer = self._api.request("GET", self._path)
        found = {item["metadata"]["uid"]: item for item in answer["items"]}
        for uid in set(self.items) - set(found):
            self._keep(self.items[uid], gone=True)
        for item in found.values():
            self._keep(item, gone=False)
        version: str = answer["metadata"]["resourceVersion"]
        return version

    def _keep(self, item: Object, *, gone: bool) -> None:
        uid = item["metadata"]["uid"]
        self.items = {key: value for key, value in self.items.items() if key != uid} | (
            {} if gone else {uid: item}
        )
        self._changed(item, gone)
