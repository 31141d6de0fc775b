"""Runs work in dependency order, several at a time where nothing forces an order."""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

WORKERS = 6


def run_in_order(
    needs: Mapping[str, set[str]], work: Callable[[str], None], *, go_on: bool = False
) -> dict[str, Exception]:
    """Runs `work(name)` for each name after all that it needs; returns the failures.

    After a failure nothing new starts; with `go_on` only what needs the failed one is left out.
    """
    waiting = {name: {need for need in before if need in needs} for name, before in needs.items()}
    failures: dict[str, Exception] = {}
    running: dict[Future[None], str] = {}
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        while waiting or running:
            if go_on or not failures:
                for name in [name for name, before in waiting.items() if not before]:
                    del waiting[name]
                    running[pool.submit(work, name)] = name
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                error = future.exception()
                if isinstance(error, Exception):
                    failures[name] = error
                    continue
                for before in waiting.values():
                    before.discard(name)
    return failures


def reversed_needs(needs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same graph for taking down: each name needs all that needed it."""
    result: dict[str, set[str]] = {name: set() for name in needs}
    for name, before in needs.items():
        for need in before:
            if need in result:
                result[need].add(name)
    return result
