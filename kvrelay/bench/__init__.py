"""Open-loop load on OpenAI endpoints, and what came of it: does prefill/decode pay here, measured.

mix = parse_mix("chat=90%:512/128,long=10%:8000..16000/64")
requests = poisson_requests(mix, rate=4.0, seconds=30.0, seed=1)          # the same for every endpoint
run = asyncio.run(drive(Target("pd", "http://127.0.0.1:8000", model), requests, Limits(120.0)))
figures(run.outcomes, requests.seconds, Goals(ttft=2.0, itl=0.2))

Everything but the chart runs with aiohttp, httpx, click and rich, which any environment with Ray Serve LLM
has: `python -m kvrelay.bench` works there without an installation, from a copy of the folder kvrelay/.
"""

from kvrelay.bench.drive import Limits, Run, Target, drive
from kvrelay.bench.figures import Figures, Goals, Spread, figures, percentile
from kvrelay.bench.outcome import Ending, Outcome
from kvrelay.bench.request_set import Kind, Request, RequestSet, parse_mix, poisson_requests
from kvrelay.bench.trace import read_trace

__all__ = [
    "Ending",
    "Figures",
    "Goals",
    "Kind",
    "Limits",
    "Outcome",
    "Request",
    "RequestSet",
    "Run",
    "Spread",
    "Target",
    "drive",
    "figures",
    "parse_mix",
    "percentile",
    "poisson_requests",
    "read_trace",
]
