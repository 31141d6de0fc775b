"""One line of what a deployment is: fits or not, USD an hour, minutes to the first token. For `cdk synth`."""

from __future__ import annotations

from kvrelay.errors import UserError
from kvrelay.planner.asked import asked
from kvrelay.planner.cost import cost
from kvrelay.planner.fit import GIB, fit
from kvrelay.planner.timeline import timeline
from kvrelay.serve_app import ServeApp
from kvrelay.settings import Deployment


def summary_line(deployment: Deployment, app: ServeApp) -> str:
    """Never raises for a model that can't be sized: the line says so. Takes a few milliseconds."""
    try:
        wanted = asked(deployment, app)
    except UserError as error:
        return f"not sized: {error}"
    words = []
    weights = 0.0
    for role in wanted.roles:
        found = fit(role.engine)
        weights = max(weights, found.weights * role.engine.tensor_parallel / GIB)
        length = f"{role.engine.max_model_len} tokens"
        if found.fits:
            words.append(f"{role.name} fits ({found.sequences} sequences of {length})")
        else:
            needed = (found.weights + found.activations + found.graphs + found.sequence) / GIB
            words.append(
                f"{role.name} does not fit {role.engine.gpu.kind} ({needed:.1f} GiB needed of "
                f"{found.budget / GIB:.1f} for one sequence of {length}; see kvrelay plan)"
            )
    bill = cost(wanted.footprint).usd_per_hour
    words.append("price not known" if bill is None else f"{bill:.2f} USD/h")
    words.append(
        f"about {timeline('deploy', weights, wanted.image_pull.seconds).seconds / 60:.0f} min to the first token"
    )
    return ", ".join(words)
