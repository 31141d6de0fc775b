"""What moto keeps: globals of this process, for each service that was ever asked for something."""

from typing import Any


def _in_use() -> list[Any]:
    from moto.core.base_backend import BackendDict

    instances: list[Any] = getattr(BackendDict, "_instances")  # noqa: B009 - mypy finds its type ambiguous.
    return instances


def used_services() -> frozenset[str]:
    """The services that may hold anything, as moto names them; asking another one would only import it."""
    return frozenset(backends.service_name for backends in _in_use())


def reset_moto() -> None:
    """Empties every service.

    Backends are dropped, and made anew when asked for: moto's own reset makes all of them anew before it drops them.
    Those with a reset of their own keep something outside themselves, as S3 keeps all accounts' bucket names.
    """
    from moto.core.base_backend import BaseBackend, backend_lock
    from moto.core.model_instances import reset_model_data

    with backend_lock:
        for backends in _in_use():
            for of_account in backends.values():
                for backend in of_account.values():
                    if type(backend).reset is not BaseBackend.reset:
                        backend.reset()
                of_account.clear()
            backends.clear()
        _in_use().clear()
    reset_model_data()
