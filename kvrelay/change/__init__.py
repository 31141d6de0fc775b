"""What a change to a deployment means: in place, rolling, a new Ray cluster, new nodes, or a loss."""

from kvrelay.change.comparison import Comparison, compare
from kvrelay.change.effect import Effect
from kvrelay.change.synthesis import Synthesis, read_deployed, read_synthesis

__all__ = ["Comparison", "Effect", "Synthesis", "compare", "read_deployed", "read_synthesis"]
