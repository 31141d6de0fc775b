"""A real Serve app that needs no GPU: it stands in for the model while everything around it is the product's."""

from typing import Any

from ray import serve


# No CPU of its own: heads offer none.
@serve.deployment(ray_actor_options={"num_cpus": 0})
class Greeter:
    """Answers every request with the word it was deployed with."""

    def __init__(self, word: str) -> None:
        self.word = word

    async def __call__(self, request: Any) -> str:
        return self.word


def build(arguments: dict[str, Any]) -> Any:
    """The app's entry point, called as `ray.serve.llm:build_pd_openai_app` is."""
    if arguments.get("broken"):
        raise ValueError("kv_transfer_config is required for P/D disaggregation")
    # Ray is not installed where types are checked, so what its decorator returns is not known there.
    greeter: Any = Greeter
    where = {"num_cpus": 0, "resources": arguments.get("resources", {})}
    return greeter.options(ray_actor_options=where).bind(arguments.get("word", "hello"))
